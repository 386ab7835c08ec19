// Package linktest is the one suite of tests for all kinds of link.
//
// A machine, for these tests, is a network namespace in a user namespace, made by a
// child of the test program: so they run for root and for everybody else, and no packet
// of theirs ever sees the host's network. Test code stays in the test program. It asks
// the child for sockets, which belong to the namespace they were made in, and uses them
// like any other.
package linktest
