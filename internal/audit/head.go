package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// chain is where a log stands after one of its records.
type chain struct {
	seq    uint64
	events int64 // without those that the log wrote about itself
	hash   sum
}

// head is what the head file says: the last record, and where it ends.
type head struct {
	chain
	number int // of the file
	size   int64
	closed bool // nothing follows
}

// headForm is the only form in which a head file is accepted, so that no byte of it can
// be changed unseen.
type headForm struct {
	File   string `json:"file"`
	Size   int64  `json:"size"`
	Seq    uint64 `json:"seq"`
	Events int64  `json:"events"`
	Hash   string `json:"hash"`
	Closed bool   `json:"closed"`
}

func (h head) encode() []byte {
	b, _ := json.Marshal(headForm{fileName(h.number), h.size, h.seq, h.events, hex.EncodeToString(h.hash[:]), h.closed})
	return append(b, '\n')
}

func parseHead(b []byte) (head, error) {
	var f headForm
	if err := json.Unmarshal(b, &f); err != nil || !isSum(f.Hash) {
		return head{}, errHead
	}
	h := head{chain{f.Seq, f.Events, parseSum(f.Hash)}, fileNumber(f.File), f.Size, f.Closed}
	if !bytes.Equal(h.encode(), b) {
		return head{}, errHead
	}
	return h, nil
}

var errHead = errors.New("the head file is damaged")

// readHead reads the head file. Without one, the error is fs.ErrNotExist.
func readHead(dir string) (head, error) {
	f, err := open(dir, headName, os.O_RDONLY)
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	const most = 1 << 10
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return head{}, err
	}
	return parseHead(b)
}

// writeHead replaces the head file; a crash leaves the old one or the new one.
func writeHead(dir string, h head, durable bool) error {
	draft := filepath.Join(dir, headName+".new")
	f, err := open(dir, headName+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(h.encode())
	if err == nil && durable {
		// Without it a power cut could leave an empty file under the final name.
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = replace(draft, filepath.Join(dir, headName), durable)
	}
	if err != nil {
		return fmt.Errorf("write the head of the audit log: %w", err)
	}
	return nil
}
