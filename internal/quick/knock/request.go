package knock

import (
	"github.com/cofferhq/coffer/internal/pack"
	"github.com/cofferhq/coffer/internal/umask"
)

// Mark is the first byte of a knock, by which it is told from other requests.
const Mark = 'k'

// A Request is a knock as a supervisor has it.
type Request struct {
	Argv    [][]byte
	Env     []string // all of the client's
	Dir     string   // where the client is
	NoInput bool
	Merged  bool // output and errors go to the same place
	Umask   *uint16
}

// maxTexts is more arguments, or variables, than fit.
const maxTexts = maxEnv

// Open reads a knock, if it is one.
func Open(b []byte) (r Request, ok bool) {
	if len(b) == 0 || b[0] != Mark {
		return r, false
	}
	p := pack.NewReader(b[1:])
	masked := false
	p.Flags(&r.NoInput, &r.Merged, &masked)
	if masked {
		mask := uint16(p.Number(umask.Most))
		r.Umask = &mask
	}
	r.Dir = string(p.Text())
	r.Argv, r.Env = p.Texts(maxTexts), p.Strings(maxTexts)
	return r, p.Done() && len(r.Argv) > 0
}
