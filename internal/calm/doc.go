// Package calm keeps a thread of Go's runtime out of the way while a sandbox or a jail starts.
//
// The thread looks every 20 microseconds, as long as anything goes on, whether somebody should
// be interrupted. On two processors that are busy it takes one from who does the work each
// time: a start takes three to five percent longer for it. For the first moments it is made one
// that waits until a processor is free. (The guest agent's is told to look less often, see
// package birth; it has to be born for that.)
package calm
