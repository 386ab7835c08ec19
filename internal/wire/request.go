package wire

import "io"

// WriteRequest sends a request.
func WriteRequest(w io.Writer, r Request) error { return WriteMessage(w, r) }

// ReadRequest receives a request.
func ReadRequest(r io.Reader) (req Request, err error) {
	err = ReadMessage(r, MaxRequest, &req)
	return req, err
}

// Passes says whether this asks for a program that lives as long as its client.
func (r Request) Passes() bool {
	return r.Op == OpExec && r.Exec != nil && !r.Exec.Log && !r.Exec.Keep
}
