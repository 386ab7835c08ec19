package gateway

import (
	"fmt"
	"sync"

	"github.com/cofferhq/coffer/internal/policy"
)

// Used is how much of a budget is used up.
type Used struct {
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
}

// maxCounters bounds the destinations with counters of their own. Under a rule for many
// names, those that come later share one.
const maxCounters = 4096

// budgets holds the counters of every destination that has a budget.
type budgets struct {
	mu       sync.Mutex
	counters map[string]*counter
}

type counter struct {
	mu sync.Mutex
	Used
}

func newBudgets(used map[string]Used) *budgets {
	b := &budgets{counters: map[string]*counter{}}
	for key, u := range used {
		b.counters[key] = &counter{Used: u}
	}
	return b
}

// account returns what a flow to host is charged to, nil if it has no budget.
func (b *budgets) account(limit *policy.Budget, host string) *account {
	if limit == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := limit.Key(host)
	c := b.counters[key]
	if c == nil && len(b.counters) >= maxCounters {
		key = limit.Key("*")
		c = b.counters[key]
	}
	if c == nil {
		c = &counter{}
		b.counters[key] = c
	}
	return &account{counter: c, limit: *limit}
}

// Budgets returns the counters, to be kept for the next gateway of this sandbox.
func (g *Gateway) Budgets() map[string]Used {
	b := g.budgets
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]Used, len(b.counters))
	for key, c := range b.counters {
		c.mu.Lock()
		all[key] = c.Used
		c.mu.Unlock()
	}
	return all
}

// An account is a counter with the limits that hold for a flow. A nil account has none.
type account struct {
	*counter
	limit policy.Budget
}

// takeSent charges n bytes that leave the sandbox and returns how many of them may.
func (a *account) takeSent(n int) int {
	if a == nil {
		return n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return charge(&a.Sent, a.limit.MaxUpload, n)
}

// takeReceived charges n bytes that come into the sandbox and returns how many of them may.
func (a *account) takeReceived(n int) int {
	if a == nil {
		return n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return charge(&a.Received, a.limit.MaxDownload, n)
}

func charge(used *int64, limit int64, n int) int {
	if limit > 0 {
		n = int(min(int64(n), max(0, limit-*used)))
	}
	*used += int64(n)
	return n
}

// spent says that nothing is left in one of the directions.
func (a *account) spent() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	up, down := a.limit.MaxUpload, a.limit.MaxDownload
	return up > 0 && a.Sent >= up || down > 0 && a.Received >= down
}

// say tells which limit was hit.
func (a *account) say() string {
	if a == nil { // another decision, without a budget, has come meanwhile
		return "the byte limit for this destination is used up"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if up := a.limit.MaxUpload; up > 0 && a.Sent >= up {
		return fmt.Sprintf("the upload limit of %d bytes for this destination is used up", up)
	}
	return fmt.Sprintf("the download limit of %d bytes for this destination is used up", a.limit.MaxDownload)
}
