package confine

// The tables are named by the kernel's words for the architectures, which Go
// does not take for build constraints, so that the tests of either can run on
// both. The linker leaves out the one that is not used.
//
//go:generate go run ./gen
