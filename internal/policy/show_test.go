package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	set := compile(t,
		Source{Default: "ask", Origin: "built-in", Groups: []string{"npm", "@go"}},
		Source{Origin: "coffer.toml", Rules: []RuleSource{
			{Name: "web", Allow: []string{"Example.com:443", "*.example.com"}, Protocol: "tls", MaxUpload: "1k"},
			{Ask: []string{"@pypi", "x.test"}, Deny: []string{"@npm"}, Origin: "coffer.toml:9"},
		}},
		Source{Grants: true, Rules: []RuleSource{{Allow: []string{"y.test"}, Expires: at}}},
	)
	var got []string
	for _, r := range set.Rules() {
		line := fmt.Sprintf("%v|%s|%s|%s|%v", r.Verdict, r.Text, r.Name, r.Origin, r.Grant)
		if !r.Expires.IsZero() {
			line += "|" + r.Expires.UTC().Format(time.TimeOnly)
		}
		if r.Budget != nil {
			line += fmt.Sprintf("|%d", r.Budget.MaxUpload)
		}
		got = append(got, line)
	}
	want := []string{
		"deny|deny @npm||coffer.toml:9|false",
		"allow|allow y.test|||true|00:16:40",
		"ask|ask @pypi||coffer.toml:9|false",
		"ask|ask x.test||coffer.toml:9|false",
		"allow|allow @npm||built-in|false",
		"allow|allow @go||built-in|false",
		"allow|allow example.com:443 tls|web|coffer.toml|false|1024",
		"allow|allow *.example.com tls|web|coffer.toml|false|1024",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if set.Default() != Ask {
		t.Errorf("default %v", set.Default())
	}
}

// A decision says what of its rule the gateway has to know.
func TestDecisionTellsItsRule(t *testing.T) {
	set := compile(t, rules(
		RuleSource{Allow: []string{"tcp.test"}, Protocol: "tcp"},
		RuleSource{Allow: []string{"any.test"}},
		RuleSource{Ask: []string{"req.test"}, Protocol: "http", Methods: []string{"POST"}},
		RuleSource{Allow: []string{"req.test"}, Protocol: "http"},
	))
	for text, want := range map[string]Decision{
		"tcp.test":              {Protocol: TCP},
		"any.test":              {},
		"req.test http POST /":  {Protocol: HTTP, Request: true},
		"req.test http GET /":   {Protocol: HTTP},
		"other.test http GET /": {},
	} {
		if d := set.Decide(ask(t, text)); d.Protocol != want.Protocol || d.Request != want.Request {
			t.Errorf("%s: %+v", text, d)
		}
	}
}
