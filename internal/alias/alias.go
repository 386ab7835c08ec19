// Package alias knows the names by which this program is something else than coffer: the
// guest agent, and those that programs inside call. It imports nothing, for those who ask
// before anything is set up.
package alias

// Other says whether a program was started by one of them.
func Other(argv0 string) bool {
	name := argv0
	for i := range len(argv0) {
		if argv0[i] == '/' {
			name = argv0[i+1:]
		}
	}
	const prefix = "coffer-"
	return name == "sudo" || name == "gh" || len(name) >= len(prefix) && name[:len(prefix)] == prefix
}
