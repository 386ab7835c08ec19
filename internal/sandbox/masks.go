package sandbox

import (
	"errors"
	"fmt"
)

// Masks are the lines that say what of the workspace is hidden, as they were when the
// user agreed to them. See package mask.
type Masks struct {
	// Prefix is the workspace's place in the repository that the lines are about.
	Prefix string `json:"prefix,omitempty"`
	Rules  []Mask `json:"rules"`
}

// A Mask is one line of a file.
type Mask struct {
	Line string `json:"line"`
	From string `json:"from"`          // the file and the line's number
	Dir  string `json:"dir,omitempty"` // the file's directory in the repository
	Own  bool   `json:"own,omitempty"` // the user's own word
}

// maxMasks is more than anybody writes.
const maxMasks = 4000

func (m Masks) validate() error {
	if len(m.Rules) > maxMasks {
		return fmt.Errorf("%d lines say what to hide, more than %d", len(m.Rules), maxMasks)
	}
	for _, r := range m.Rules {
		if !storable(r.Line) || !storable(r.From) || !storable(r.Dir) || !storable(m.Prefix) {
			return errors.New("a line that says what to hide is not UTF-8")
		}
	}
	return nil
}
