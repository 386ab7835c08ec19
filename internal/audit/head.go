package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/safepath"
)

// chain is where a log stands after one of its records.
type chain struct {
	seq    uint64
	events int64 // without those that the log wrote about itself
	hash   sum
}

// append appends the line of the next event.
func (c *chain) append(lines, event []byte) []byte {
	c.seq++
	lines, c.hash = appendLine(lines, c.seq, c.hash, event)
	return lines
}

// head is what the head file says: the last record, and where it ends.
type head struct {
	chain
	number int // of the file
	size   int64
	closed bool // nothing follows
}

type headForm struct {
	File   string `json:"file"`
	Size   int64  `json:"size"`
	Seq    uint64 `json:"seq"`
	Events int64  `json:"events"`
	Hash   string `json:"hash"`
	Closed bool   `json:"closed"`
}

func (h head) encode() []byte {
	b, _ := json.Marshal(headForm{fileName(h.number), h.size, h.seq, h.events, h.hash.String(), h.closed})
	return append(b, '\n')
}

// parseHead accepts only what encode returns, so that no byte can be changed unseen.
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

// readHead reads the head file. What is wrong with it, fs.ErrNotExist or errHead, is one
// thing; that it cannot be read is another.
func readHead(dir string) (h head, wrong, err error) {
	f, err := open(dir, headName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, err, nil
	}
	if err != nil {
		return head{}, nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return head{}, nil, err
	}
	h, wrong = parseHead(b)
	return h, wrong, nil
}

// writeHead replaces the head file; a crash leaves the old one or the new one.
func writeHead(dir string, h head, durable bool) error {
	f := safepath.File{Path: filepath.Join(dir, headName), Synced: durable, Alone: true}
	if err := f.Write(h.encode()); err != nil {
		return fmt.Errorf("write the head of the audit log: %w", err)
	}
	return nil
}
