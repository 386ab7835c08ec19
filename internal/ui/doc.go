// Package ui is how Coffer talks to the person at the terminal: errors with a hint that says
// what to do ([Error], [Hint]), what takes long ([Busy], [Progress]), questions ([Agree]), a list
// to choose from ([Choose]), listings ([Table]) and long texts ([Pager]).
//
// An error says in one sentence what happened; the hint is the way out, shown on a line of its own.
package ui
