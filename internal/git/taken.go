package git

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/checkpoint"
)

// A repository that is taken out of a sandbox goes with its checkpoints, as a sandbox that is
// removed does: what is neither committed nor merged holds it back, unless the user insists.
// So going back to a moment at which it was there does not bring it back. That such moments
// are there is kept in the sandbox's folder, for who goes back to one of them to be told.

// takenName is the file, and maxTaken how many it remembers.
const (
	takenName = "taken.json"
	maxTaken  = 100
)

// A taken is a repository that was there from one checkpoint to another.
type taken struct {
	Name  string `json:"name"`
	Place string `json:"place"` // where the user has it
	First int    `json:"first"`
	Last  int    `json:"last"`
}

func readTaken(folder string) (all []taken) {
	text, err := os.ReadFile(filepath.Join(folder, takenName))
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}

// noteTaken writes down that an included repository goes. It says whether there are moments
// to which it would have gone back.
func (b *Bridge) noteTaken() (moments bool, err error) {
	folder := filepath.Dir(filepath.Dir(b.dir))
	own, _, err := checkpoint.Read(b.dir)
	if err != nil {
		return false, err
	}
	all, _, err := checkpoint.Read(folder)
	if err != nil || len(all) < 2 || len(own) == 0 || own[0].N >= all[len(all)-1].N {
		return false, err
	}
	list := append(readTaken(folder), taken{Name: b.Include, Place: b.place(), First: own[0].N, Last: all[len(all)-1].N})
	return true, put(filepath.Join(folder, takenName), list[max(0, len(list)-maxTaken):])
}

// Missing says which repositories were in a sandbox at a checkpoint and are not there now, in a
// sentence each. At the last one before it went, the user had it and then took it out: that is
// no news.
func Missing(folder, sandbox string, n int) (lines []string) {
	now := Included(folder)
	for _, t := range readTaken(folder) {
		there := slices.ContainsFunc(now, func(b *Bridge) bool { return b.place() == t.Place })
		if n < t.First || n >= t.Last || there {
			continue
		}
		line := fmt.Sprintf("the repository %s was taken out after checkpoint %d, and does not come back; include it with 'coffer include --repo %s --as %s -m %s'", t.Name, n, t.Place, t.Name, sandbox)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
