package guest

import (
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cofferhq/coffer/internal/deep"
	"golang.org/x/sys/unix"
)

// The agent, the trampoline and the leader run while the program is still being initialised: what
// else is in the binary (the command line's parser, and whatever the host's side needs)
// comes after this package and is never set up for them. Every start of a sandbox waits
// for that. See package quick, which does the same for commands.
func init() {
	switch filepath.Base(os.Args[0]) {
	case Name:
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&[]byte(Name + "\x00")[0])), 0, 0, 0)
		// Not on this goroutine: until all is initialised, it is bound to the main
		// thread, and would have to change threads for everything it waits for. The
		// main thread stays as it is, see offMain.
		go func() { deep.Grow(); os.Exit(Main()) }()
		select {}
	case LeadName:
		go func() { os.Exit(LeadMain()) }() // likewise
		select {}
	case RootName:
		os.Exit(RootMain())
	}
}
