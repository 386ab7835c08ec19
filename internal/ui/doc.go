// Package ui is how Coffer talks to the person at the terminal: errors with a hint that says
// what to do ([Error], [Hint]), what takes long ([Busy]), and a list to choose from ([Choose]).
//
// An error says in one sentence what happened; the hint is the way out, shown on a line of its own.
package ui
