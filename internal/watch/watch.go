// Package watch says whether anything happened in the directories of a tree since somebody
// looked, without looking again.
//
// The kernel keeps the events (inotify); nobody is woken by them but who waits, and once.
// They are read when the question is asked, and any of them means yes: what happened, and
// to what, has to be seen by looking. Where the kernel cannot be asked, or has lost count, the answer is yes too.
// Not seen are writes through a memory mapping that was made before; so a yes is certain to
// come only with the next event, and who must be sure looks.
package watch
