// Package terminal stands between a hostile program and the terminal of the person who runs it.
//
// A terminal is not a display, it is an interpreter. The bytes a program prints can make it type
// text back as if the user had (answerback, title and setting reports), read or replace the
// clipboard, print, write files, resize windows, or, through a wrapper such as tmux or GNU screen,
// reach the terminal outside. A sandbox that copies bytes from inside to the user's terminal
// therefore has a hole the size of that interpreter.
//
// [Filter] closes it. It reads the stream the way a terminal does and lets a sequence through only
// when it is on a list of what full-screen programs need; the lists, with a reason for each entry,
// are the tables in csi.go, modes.go, osc.go and strings.go. Three rules carry the safety:
//
//   - A sequence is collected until it is complete, judged, and then written
//     in one piece or not at all. Whatever was dropped, the terminal is left
//     in its ground state, so nothing can be assembled from leftovers. Images
//     are the one exception: they are streamed once their header is judged,
//     and from then on only the letters of their encoding pass.
//   - Where terminals disagree how to read something (8-bit controls, control
//     characters within sequences, leading zeros, a BEL that ends a string
//     for some), the reading is made unambiguous or the sequence is dropped.
//   - Lists say what passes, never what does not: what a terminal learns to
//     do next year is dropped until someone has thought about it.
//
// The terminal is taken to decode UTF-8, and the sequence that would switch
// that off is dropped: in a terminal set to Latin-1 half of all UTF-8 text
// contains 8-bit controls, and no filter could tell them apart.
//
// Some queries must pass because programs wait for the answer: where is the cursor, what is the
// background colour. The answers hold no text the asker chose, but one that arrives after the
// program has gone would be typed into the user's shell. A killed program also leaves the mouse
// reporting or the cursor hidden. So a session ends in this order, the terminal still raw:
//
//	filter.Close()                           // a cut-off image is closed
//	out.Write(filter.Undo())                 // what was switched on is off
//	terminal.Drain(in, out, filter.Asked())  // late answers are discarded
//	state.Restore()                          // the shell gets its terminal
//
// [Escape] is for the other road to the terminal: untrusted names and texts
// within our own messages.
package terminal
