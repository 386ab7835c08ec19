package steps

// Shared says whether processes share our memory.
const Shared = true

// spawn starts a process that plays, on the stack that args name. It returns its id, or an
// error number below zero.
//
//go:noescape
func spawn(args *cloneArgs, p *play) (pid uintptr)

// perform is where it begins.
//
//go:nosplit
//go:norace
func perform(p *play) { p.run() }

var _ = perform // by assembly alone
