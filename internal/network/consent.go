package network

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/ui"
)

// consents are questions to the user that are not about connections, such as whether the host may
// push for the sandbox. They share their numbers and their listing with the gateway's questions.
type consents struct {
	mu   sync.Mutex
	open map[int]*consent     // by number
	good map[string]time.Time // kinds that the user has allowed until then
}

type consent struct {
	gateway.Request
	kind  string
	reply chan bool // takes one
}

// A Question asks for the user's consent.
type Question struct {
	Rule string // allow, deny or ask: what the config says
	Key  string // of that, in the config
	What string // the program wants to do
}

const (
	// consentPatience is how long a program waits for the user.
	consentPatience = 10 * time.Minute
	// maxConsents bounds how many questions are open.
	maxConsents = 8
)

// Consent asks the user, unless the config has answered already. say shows a line to the waiting
// program.
func (n *Network) Consent(ctx context.Context, q Question, say func(string)) error {
	switch q.Rule {
	case "allow":
		return nil
	case "deny":
		return ui.Error(fmt.Sprintf("the user's config does not allow it: %s is deny", q.Key), "tell the user, who can do it outside")
	}
	c, err := n.consents.put(n.gateway, q)
	if c == nil {
		return err
	}
	defer func() {
		n.consents.mu.Lock()
		delete(n.consents.open, c.ID)
		n.consents.mu.Unlock()
	}()
	answer := fmt.Sprintf("coffer policy answer %d allow --sandbox %s (or deny)", c.ID, n.sb.Name)
	n.o.Tell(fmt.Sprintf("a program wants to %s, until %s: %s", q.What, c.Until.Local().Format(time.TimeOnly), answer))
	// Without a terminal this is all that anybody sees of it.
	say(fmt.Sprintf("waiting for the user, %d minutes at most; Ctrl-C gives up", int(consentPatience.Minutes())))
	say("the answer is given outside the sandbox, on any terminal: " + answer)
	over := time.NewTimer(time.Until(c.Until))
	defer over.Stop()
	verdict := "deny"
	select {
	case yes := <-c.reply:
		if err = errors.New("the user said no"); yes {
			err, verdict = nil, "allow"
		}
	case <-over.C:
		err = ui.Error("the user was asked and did not answer in time", "try again when the user is there, who can also decide for good: "+q.Key+" in a config file is allow, deny or ask")
	case <-ctx.Done():
		err = errors.New("the program that asked did not wait for the answer")
	case <-n.closed:
		err = errors.New("the sandbox was stopped")
	}
	n.o.Log(audit.Event{Kind: audit.KindPolicy, Verdict: verdict, Detail: fmt.Sprintf("answer to question %d: %s", c.ID, q.What)})
	return err
}

// put opens a question. It returns none where the user has allowed its kind for a while.
func (c *consents) put(numbers *gateway.Gateway, asked Question) (*consent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.good[asked.Key]) {
		return nil, nil
	}
	if len(c.open) == maxConsents {
		return nil, ui.Error("too many questions wait for the user already", "wait for the answers")
	}
	now := time.Now()
	q := &consent{kind: asked.Key, reply: make(chan bool, 1)}
	q.Request = gateway.Request{ID: numbers.Number(), What: asked.What, Reason: "the config says ask", Since: now, Until: now.Add(consentPatience), Flows: 1}
	if c.open == nil {
		c.open, c.good = map[int]*consent{}, map[string]time.Time{}
	}
	c.open[q.ID] = q
	return q, nil
}

func (c *consents) pending() (list []gateway.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		list = append(list, q.Request)
	}
	return list
}

// answer settles a question if it is one of these, and with Expires set everything of its kind
// until then.
func (c *consents) answer(a Change) (q gateway.Request, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[a.ID]
	if one == nil {
		return q, false
	}
	if a.Allow && !a.Expires.IsZero() {
		c.good[one.kind] = a.Expires
	}
	one.reply <- a.Allow
	delete(c.open, a.ID) // so there is no second answer
	return one.Request, true
}
