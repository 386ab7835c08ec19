// Package audit keeps the log of what a sandbox did: which connections its programs
// asked for and what was decided, which programs ran, how its policy changed. It is
// written on the host's side of the wall, in the sandbox's folder, which does not exist
// inside.
//
// # Files
//
//	audit/events-000001.jsonl  one event per line, in JSON, oldest first
//	audit/events-000002.jsonl  …and on, when the one before is full
//	audit/head.json            what the writer last wrote, see below
//	audit/lock                 held by the one writer
//
// There are at most [Options].Files files of about [Options].FileSize bytes; then the
// oldest goes. Whatever a host name or a path has in it, an event is one line of
// printable text: if anything in a field is not printable or not UTF-8, the field is
// written as in a Go string, with \x9b or \u202e; what is too long is cut and says so.
//
// # The chain
//
// Every line has the number of its event (seq, from 1 on, without gaps), the hash of the
// line before (prev) and its own (hash): SHA-256 over the line up to the end of prev, in
// hexadecimal. So no line can be changed, removed, added or moved without breaking the
// chain at that place. A file that is not the first starts with a "rotated" event, which
// says how many events came before it and which file is the oldest that was kept; so
// what rotation took away is known in number, and a file that somebody took away is
// missed.
//
// A chain does not know its end. The head file does: number, hash and place of the last
// line, replaced by rename before the first line of a session is written, at most every
// five seconds from then on, when a new file is begun, and on [Log.Close], which also
// says that this was the end. [Verify] compares it with the log.
//
// # What is and what is not seen
//
// Seen: any change of any byte of a log that was closed, also of its head file; lines or
// whole files that are missing, in the wrong order or put in; an end that was cut off up
// to the last head.
//
// Not seen: lines cut off the end that were written after the last head by a writer that
// then was killed (five seconds at most); a log that was removed as a whole, head file
// included; and a chain that was computed anew from some line on, with a head file to
// fit. The hash has no key: who may write the files, which is the user and root, can do
// that. The log is evidence against the sandbox, which can do none of this, and against
// accidents. To be evidence against its own user, the head would have to be signed or
// published elsewhere.
//
// # When things go wrong
//
// A killed writer may leave an unfinished line. That is no tampering unless the head says
// that the line was complete. The next [Open] cuts it off and says so in a "recovered"
// event. What Open finds that does not fit the head goes into the reason of that event,
// so that Verify reports it ever after.
//
// A full disk stops neither the sandbox nor [Log.Add]. Two megabytes wait in memory; what
// comes then is counted in summaries, which are written as soon as there is room.
//
// A flood of events is not a way to push the older ones out of the log quickly, or to
// fill memory: see flood.go. Nothing is left out without being counted.
package audit
