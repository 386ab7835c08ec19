package network

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// Spent is what was used of a byte budget.
type Spent struct {
	Budget string `json:"budget"` // the rule that has it, and the host
	gateway.Used
}

// Budgets lists what was used of a sandbox's budgets.
func Budgets(sb *sandbox.Sandbox) ([]Spent, error) {
	if sb.Network.None() {
		return nil, nil
	}
	var spent map[string]gateway.Used
	var err error
	if sb.Running() {
		var r Reply
		r, err = ChangePolicy(sb, Change{Do: "budgets"})
		spent = r.Budgets
	} else {
		spent, err = readBudgets(sb) // of a store that can only be read, too
	}
	var list []Spent
	for budget, used := range spent {
		list = append(list, Spent{budget, used})
	}
	slices.SortFunc(list, func(a, b Spent) int { return cmp.Compare(a.Budget, b.Budget) })
	return list, err
}

// budgetsName is the file of the bytes that were sent and received against budgets: a
// sandbox that stops and starts again does not get a new allowance.
const budgetsName = "budgets.json"

// readBudgets returns what was used. A file that cannot be read is no new allowance
// either: the sandbox does not start before somebody has looked at it.
func readBudgets(sb *sandbox.Sandbox) (map[string]gateway.Used, error) {
	path := filepath.Join(sb.Dir(), budgetsName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var used map[string]gateway.Used
	if err == nil {
		err = json.Unmarshal(data, &used)
	}
	for _, u := range used {
		if err == nil && (u.Sent < 0 || u.Received < 0) {
			err = errors.New("a number of bytes is less than none")
		}
	}
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("what sandbox %s has used of its byte budgets cannot be read: %s: %w", sb.Name, path, err),
			"to let the budgets start anew: %s", ui.Command("rm", path))
	}
	return used, nil
}

// keepBudgets saves what was used every minute, in case the supervisor is killed.
func (n *Network) keepBudgets() {
	if n.sb.Ephemeral {
		return
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	var saved map[string]gateway.Used
	for {
		select {
		case <-tick.C:
			if used := n.gateway.Budgets(); !maps.Equal(used, saved) {
				n.saveBudgets(used)
				saved = used
			}
		case <-n.served:
			return
		}
	}
}

func (n *Network) saveBudgets(used map[string]gateway.Used) {
	if len(used) == 0 || n.sb.Ephemeral {
		return
	}
	data, err := json.Marshal(used)
	if err == nil {
		err = safepath.File{Path: filepath.Join(n.sb.Dir(), budgetsName), Alone: true}.Write(data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "save byte budgets:", err)
	}
}
