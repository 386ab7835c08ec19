package knock

import "github.com/cofferhq/coffer/internal/pack"

// Mark is the first byte of a knock, by which it is told from other requests.
const Mark = 'k'

// A Request is a knock as a supervisor has it.
type Request struct {
	Argv    [][]byte
	Env     []string // all of the client's
	Dir     string   // where the client is
	NoInput bool
	Merged  bool // output and errors go to the same place
}

// maxTexts is more arguments, or variables, than fit.
const maxTexts = maxEnv

// Open reads a knock, if it is one.
func Open(b []byte) (r Request, ok bool) {
	if len(b) == 0 || b[0] != Mark {
		return r, false
	}
	p := pack.NewReader(b[1:])
	p.Flags(&r.NoInput, &r.Merged)
	r.Dir = string(p.Text())
	r.Argv, r.Env = p.Texts(maxTexts), p.Strings(maxTexts)
	return r, p.Done() && len(r.Argv) > 0
}
