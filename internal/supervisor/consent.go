package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/ui"
)

// consents are questions to the user that are not about connections: whether the host may
// push for the sandbox. They have their numbers from the gateway's questions, and
// are listed and answered with them.
type consents struct {
	mu   sync.Mutex
	open []*consent
	good map[string]time.Time // kinds that the user has allowed until then
}

type consent struct {
	gateway.Request
	kind  string
	reply chan bool // takes one
}

const (
	// consentPatience is how long a program waits for the user.
	consentPatience = 10 * time.Minute
	// maxConsents bounds how many questions are open.
	maxConsents = 8
)

var errNo = errors.New("the user said no")

// consent asks the user, unless the config has answered already. say tells the program
// that waits.
func (s *Supervisor) consent(ctx context.Context, rule, kind, key, what string, say func(string)) error {
	switch rule {
	case "allow":
		return nil
	case "deny":
		return ui.Error(fmt.Sprintf("the user's config does not allow it: %s is deny", key), "tell the user, who can do it outside")
	}
	q, err := s.consents.put(s.network.gateway, kind, what)
	if q == nil {
		return err
	}
	defer s.consents.drop(q)
	answer := fmt.Sprintf("coffer policy answer %d allow --sandbox %s (or deny)", q.ID, s.Sandbox.Name)
	s.notices.tell(fmt.Sprintf("a program wants to %s, until %s: %s", what, q.Until.Local().Format(time.TimeOnly), answer))
	// Without a terminal this is all that anybody sees of it.
	say(fmt.Sprintf("waiting for the user, %d minutes at most; Ctrl-C gives up", int(consentPatience.Minutes())))
	say("the answer is given outside the sandbox, on any terminal: " + answer)
	over := time.NewTimer(time.Until(q.Until))
	defer over.Stop()
	verdict := "deny"
	select {
	case yes := <-q.reply:
		if err = errNo; yes {
			err, verdict = nil, "allow"
		}
	case <-over.C:
		err = ui.Error("the user was asked and did not answer in time", "try again when the user is there, who can also decide for good: "+key+" in a config file is allow, deny or ask")
	case <-ctx.Done():
		err = errors.New("the program that asked did not wait for the answer")
	case <-s.session.CloseChan():
		err = errors.New("the sandbox was stopped")
	}
	s.audit.add(audit.Event{Kind: audit.KindPolicy, Verdict: verdict, Detail: fmt.Sprintf("answer to question %d: %s", q.ID, what)})
	return err
}

// put opens a question. None is needed where the user said yes for a time.
func (c *consents) put(numbers *gateway.Gateway, kind, what string) (*consent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.good[kind]) {
		return nil, nil
	}
	if len(c.open) == maxConsents {
		return nil, ui.Error("too many questions wait for the user already", "wait for the answers")
	}
	now := time.Now()
	q := &consent{kind: kind, reply: make(chan bool, 1)}
	q.Request = gateway.Request{ID: numbers.Number(), What: what, Reason: "the config says ask", Since: now, Until: now.Add(consentPatience), Flows: 1}
	c.open = append(c.open, q)
	return q, nil
}

func (c *consents) drop(q *consent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(o *consent) bool { return o == q })
}

func (c *consents) pending() (list []gateway.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		list = append(list, q.Request)
	}
	return list
}

// answer settles a question, if it is one of these: for what waits, and with a time for
// everything of its kind until then. It returns the question.
func (c *consents) answer(a Change) (q gateway.Request, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range c.open {
		if q.ID != a.ID {
			continue
		}
		if a.Allow && !a.Expires.IsZero() {
			if c.good == nil {
				c.good = map[string]time.Time{}
			}
			c.good[q.kind] = a.Expires
		}
		q.reply <- a.Allow
		c.open = slices.Delete(c.open, i, i+1) // so there is no second answer
		return q.Request, true
	}
	return q, false
}
