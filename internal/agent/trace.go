package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
)

// A Trace is what is remembered of an agent in a sandbox. It is in the sandbox's folder,
// out of the sandbox's reach.
type Trace struct {
	Agent string    `json:"agent"`
	Last  time.Time `json:"last"` // when it was last started
	// Prompt is how what it was told last begins, on one line.
	Prompt string `json:"prompt,omitempty"`
	// Ended is when that turn ended, and Exit how. It is zero while the turn lasts, and after one
	// that was cut off.
	Ended time.Time `json:"ended,omitzero"`
	Exit  int       `json:"exit,omitempty"`
	// Program is what was started, which may have another path by now.
	Program string `json:"program,omitempty"`
	// Credentials and Store are for whoever takes renewed tokens over, which may be a
	// process that has no config.
	Credentials []Credential `json:"credentials,omitempty"`
	Store       string       `json:"store,omitempty"`
}

const traceName = "agent.json"

// ReadTrace reads what is remembered in a sandbox's folder. Without an agent, it is
// fs.ErrNotExist.
func ReadTrace(dir string) (t Trace, err error) {
	data, err := os.ReadFile(filepath.Join(dir, traceName))
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, traceName), err)
	}
	return t, nil
}

// Write remembers it, by rename.
func (t Trace) Write(dir string) error {
	return safepath.File{Path: filepath.Join(dir, traceName)}.Write(jsonText(t))
}

// Brief is the beginning of a text, on one line.
func Brief(text string, most int) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > most {
		line = append(line[:most-1], '…')
	}
	return string(line)
}

// Began says whether a command line is the agent's, as it was started last.
func (t Trace) Began(argv [][]byte) bool {
	const wrapped = 5 // /bin/sh -c SCRIPT PROMPTFILE PROGRAM
	return t.Program != "" && slices.ContainsFunc(argv[:min(wrapped, len(argv))], func(a []byte) bool { return string(a) == t.Program })
}

// End notes how the last turn of the agent in a sandbox's folder ended.
func End(dir string, exit int) error {
	t, err := ReadTrace(dir)
	if err != nil {
		return err
	}
	t.Ended, t.Exit = time.Now(), exit
	return t.Write(dir)
}

// RenewFrom takes renewed tokens from a sandbox to the store that they came from, if an
// agent was started in it, and gives it those that others have renewed.
func RenewFrom(dir, home string) (bool, error) {
	t, err := ReadTrace(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && t.Store == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h, err := OpenHome(home)
	if err != nil {
		return false, err
	}
	defer h.Close()
	g := readGiven(dir)
	before := maps.Clone(g)
	renewed, err := OpenStore(t.Store).take(&Agent{Name: t.Agent, Credentials: t.Credentials}, h, g)
	if !maps.Equal(g, before) {
		err = errors.Join(err, g.write(dir))
	}
	return renewed, err
}
