// Package escape holds the escape corpus: a table of attempts to get out of a
// sandbox, each of which is made twice.
//
// An attempt is a small function of the program in folder probe. It runs inside a
// sandbox, where it must meet the wall that the table names (an errno, or a plain
// fact such as "the variable is not there") and leave its victim as it was. And it
// runs outside, as a control, against victims of its own, where it must succeed and
// the victim must show it. So three things can go wrong, and each has a name:
//
//   - escaped: inside, the attempt met no wall, another wall than the named one, or
//     its victim changed.
//   - broken: outside, the attempt failed as well. It proves nothing, which fails
//     the test like an escape does.
//   - without control: outside, nobody here could succeed with it (no root, no such
//     hardware). It is counted apart, with the reason, and must still be contained.
//
// Attempts on the network are made in a fake internet (package fakenet), attempt and
// control against the same servers: an attempt is contained if it met the named answer
// (a status with a reason, a TLS alert, a reset, a name that does not exist) and no server
// heard its word. Among them are ways that have to work, reported like attempts: a wall
// that keeps everybody out proves little.
//
// All victims are dummies: files in a home that the test made, processes that it
// started, sockets that it listens on, networks in namespaces of their own. System
// calls that would be dangerous outside get bad pointers: EFAULT shows that the
// kernel went to work, EPERM or ENOSYS that the filter did not let it.
package escape
