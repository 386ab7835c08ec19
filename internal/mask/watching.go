package mask

// Watching is what a watch is for.
type Watching struct {
	// Shared says that a sandbox makes files in this very tree. Who made a file the kernel
	// does not tell, so one that gives nothing away is left alone.
	Shared bool
	// Told is called for what is to be hidden, several at once if they came at once.
	Told func([]Found) error
	// Repository, if set, is called for each that is seen further down, maybe more than once.
	Repository func(Found)
	// Slow, if set, is told when not all of the tree can be watched, so that it is only looked
	// through now and then, and what to do about it.
	Slow func(sentence string)
	// Hold, if set, stops the programs that see the tree, or has them go on. Whoever makes
	// files as fast as they can be hidden must not be able to read another one that has to
	// wait for its turn.
	Hold func(bool) error
}

// maxTold is how many are told at once.
const maxTold = 128
