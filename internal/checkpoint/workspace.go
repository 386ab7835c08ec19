package checkpoint

// A Workspace is what checkpoints are taken of.
type Workspace struct {
	Top    *Dir
	Ignore *Ignore
	// Hidden, if set, says which files the sandbox cannot see. They are neither kept nor
	// restored: only the user can have changed them.
	Hidden func(path string) bool
	// Writer is the id on the host of who is to own what is written, if that is not the
	// caller: in a view that only the sandbox's own ids exist in, nobody else can.
	Writer int
}

func (w *Workspace) hides(path string) bool { return w.Hidden != nil && w.Hidden(path) }
