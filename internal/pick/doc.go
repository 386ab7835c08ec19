// Package pick lets a person choose a line of a list on a terminal, by the arrow keys or
// by typing some letters of it.
//
// It is written by hand, with what package terminal has: the libraries for such things
// set up tables at every start of the program that they are in, which would cost every
// `coffer exec` more than the wall does. It draws below the cursor, uses nothing but the
// oldest of control sequences, and leaves nothing behind, so it works over any
// connection and in any terminal that knows VT100.
package pick
