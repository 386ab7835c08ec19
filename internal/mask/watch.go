package mask

// Watching is what a watch is for.
type Watching struct {
	// Shared says that a sandbox makes files in this very tree. Who made a file the kernel
	// does not tell, so one that gives nothing away is left alone: see [Tree.Harmless].
	Shared bool
	// Told is called for what is to be hidden, several at once if they came at once. What it was
	// told before it may be told again.
	Told func([]Found)
	// Repository, if set, is called for each that is seen further down, maybe more than once.
	Repository func(Found)
	// Blind, if set, is told when not all of the tree can be watched, and what to do about it.
	Blind func(sentence string)
}
