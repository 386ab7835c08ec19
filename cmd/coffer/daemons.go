package main

import (
	"fmt"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/ui"
)

// daemonLog finds the log of a daemon.
func daemonLog(sb *sandbox.Sandbox, name string) (string, error) {
	var names []string
	for _, d := range sb.Daemons {
		if d.Name == name {
			return session.DaemonLog(sb, name), nil
		}
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return "", ui.Error(fmt.Sprintf("sandbox %s has no daemons", sb.Name), "they are made by [daemons.NAME] in coffer.toml, for new sandboxes")
	}
	return "", ui.Error(fmt.Sprintf("sandbox %s has no daemon %q", sb.Name, name), "it has "+strings.Join(names, ", "))
}

// showDaemons shows each with what is known of it.
func showDaemons(d described, row func(name, value string)) {
	states := map[string]string{}
	for _, r := range d.Running {
		states[r.Name] = r.State
		if r.Restarts > 0 {
			states[r.Name] += fmt.Sprintf(", started again %s", times(r.Restarts))
		}
		if r.Last != "" {
			states[r.Name] += ", ended last with " + r.Last
		}
	}
	for _, one := range d.Daemons {
		state := states[one.Name]
		if state == "" {
			state = "not running"
		}
		row("daemon", one.Name+": "+strings.Join(one.Command, " ")+" ("+state+")")
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
