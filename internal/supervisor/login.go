package supervisor

import (
	"fmt"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
)

// renewEvery is how often the credentials of an agent that runs are looked at. Another
// sandbox that starts meanwhile must not get a token that has been used up.
const renewEvery = 5 * time.Second

// watchLogin begins to look, when programs run. The lock is held.
func (s *Supervisor) watchLogin() {
	if s.Sandbox.Ephemeral || s.login != nil {
		return
	}
	s.login = time.AfterFunc(renewEvery, func() {
		s.renewLogin()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.login != nil {
			s.login.Reset(renewEvery)
		}
	})
}

// restLogin ends the looking, after one more look, when nothing runs any more. The lock is
// held.
func (s *Supervisor) restLogin() {
	if s.login == nil {
		return
	}
	s.login.Stop()
	s.login = nil
	go s.renewLogin()
}

// renewLogin takes over tokens that an agent inside has renewed.
func (s *Supervisor) renewLogin() {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	_, err := agent.RenewFrom(s.Sandbox.Dir(), s.Sandbox.Home())
	if words := fmt.Sprint(err); err != nil && words != s.refused {
		fmt.Fprintln(os.Stderr, words) // once
		s.refused = words
	}
}
