package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a Source, and where.
type Problem struct {
	Layer int    // index into Compile's arguments
	Rule  int    // index into Source.Rules, -1 for the layer itself
	Field string // as in TOML: "allow", "max_upload", "default"
	Item  int    // index into the field's list, -1 if it is none
	Msg   string
}

// Problems is everything that is wrong, in order.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func (p Problem) Error() string {
	where := p.Field
	if p.Item >= 0 {
		where = fmt.Sprintf("%s[%d]", where, p.Item)
	}
	if p.Rule >= 0 {
		where = fmt.Sprintf("rules[%d].%s", p.Rule, where)
	}
	return fmt.Sprintf("%s: %s", where, p.Msg)
}

// maxTargets bounds a set; a config file that has more was not written by people.
const maxTargets = 100_000

// rank is the order in which rules are heard.
type rank uint8

const (
	rankDeny rank = iota
	rankGrant
	rankAsk
	rankAllow
)

// rule is what the targets of a RuleSource have in common.
type rule struct {
	protocol Protocol
	methods  []string
	paths    []pathPattern
	inspect  bool // look into TLS
	pass     bool // do not
	expires  time.Time
	budget   *Budget
}

// clause is one target of one rule.
type clause struct {
	*rule
	rank     rank
	target   Target
	protos   protos
	text     string   // the rule as if it had this target only
	group    string   // that the target comes from, "" if none
	decision Decision // ready made
	others   string   // why it does not allow other requests, if it allows some
}

// conditional: more than host, port and protocol counts.
func (c *clause) conditional() bool { return c.aboutRequests() || !c.expires.IsZero() }

// aboutRequests: whether it matches depends on the HTTP request.
func (c *clause) aboutRequests() bool { return len(c.methods) > 0 || len(c.paths) > 0 }

// protos is a set of protocols.
type protos uint8

func only(list ...Protocol) (p protos) {
	for _, one := range list {
		p |= 1 << one
	}
	return p
}

func (p protos) has(one Protocol) bool { return p&(1<<one) != 0 }

// matches returns the protocols of flows that a rule for p is about. To allow UDP a rule
// must name it: who allows a website does not think of it.
func (p Protocol) matches(r rank) protos {
	switch {
	case p == Any && r == rankDeny:
		return only(TCP, UDP, TLS, HTTP)
	case p == Any || p == TCP:
		return only(TCP, TLS, HTTP)
	}
	return only(p)
}

// Compile makes a set of layers, from the lowest to the highest; rules add up, and the
// last default holds. The error is [Problems].
func Compile(layers ...Source) (*Set, error) {
	c := compiler{set: &Set{def: Decision{Verdict: Deny, Rule: "default"}}}
	for i, layer := range layers {
		c.layer = i
		c.compileLayer(layer)
	}
	if len(c.clauses) > maxTargets {
		c.rule = -1
		c.problem("rules", -1, fmt.Errorf("more than %d targets", maxTargets))
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.set.def.Reason = "no rule matches, and the default is " + c.set.def.Verdict.String()
	slices.SortStableFunc(c.clauses, func(a, b clause) int { return cmp.Compare(a.rank, b.rank) })
	c.set.clauses = c.clauses
	c.set.denies = slices.ContainsFunc(c.clauses, func(c clause) bool { return c.rank == rankDeny && (c.target.kind == exactly || c.target.kind == below) })
	c.set.inner = slices.ContainsFunc(c.clauses, func(c clause) bool { return c.looksInto() })
	return c.set, nil
}

type compiler struct {
	set         *Set
	clauses     []clause
	problems    Problems
	layer, rule int // where we are
}

func (c *compiler) problem(field string, item int, err error) {
	if err != nil {
		c.problems = append(c.problems, Problem{c.layer, c.rule, field, item, err.Error()})
	}
}

func (c *compiler) compileLayer(s Source) {
	c.rule = -1
	if s.Default != "" {
		c.problem("default", -1, c.set.def.Verdict.UnmarshalText([]byte(s.Default)))
		c.set.def.Origin = s.Origin
	}
	for i, name := range s.Groups {
		targets, err := findGroup(strings.TrimPrefix(name, "@"))
		c.problem("groups", i, err)
		about := RuleSource{Name: "group " + strings.TrimPrefix(name, "@"), Origin: s.Origin}
		r := &rule{}
		for _, t := range targets {
			c.add(r, about, rankAllow, t, strings.TrimPrefix(name, "@"))
		}
	}
	for i, r := range s.Rules {
		c.rule = i
		c.compileRule(r, s)
	}
}

func (c *compiler) compileRule(src RuleSource, layer Source) {
	if src.Origin == "" {
		src.Origin = layer.Origin
	}
	before := len(c.clauses)
	r := c.compileConditions(src)
	allow := rankAllow
	if layer.Grants {
		allow = rankGrant
	}
	c.compileTargets(r, src, "deny", rankDeny, src.Deny)
	c.compileTargets(r, src, "ask", rankAsk, src.Ask)
	c.compileTargets(r, src, "allow", allow, src.Allow)
	if len(src.Allow)+len(src.Deny)+len(src.Ask) == 0 {
		c.problem("allow", -1, errors.New(`the rule has no targets; write allow, deny or ask, such as allow = ["example.com"]`))
	}
	if r.budget != nil && len(src.Allow)+len(src.Ask) == 0 {
		field := "max_upload"
		if src.MaxUpload == "" {
			field = "max_download"
		}
		c.problem(field, -1, errors.New("there is nothing to count where the rule only denies"))
	}
	if src.Enabled != nil && !*src.Enabled {
		c.clauses = c.clauses[:before] // checked all the same
	}
}

func (c *compiler) compileConditions(src RuleSource) *rule {
	r := &rule{expires: src.Expires}
	c.problem("name", -1, checkRuleName(src.Name))
	c.problem("protocol", -1, r.protocol.UnmarshalText([]byte(src.Protocol)))
	for i, m := range src.Methods {
		c.problem("methods", i, checkMethod(m))
		r.methods = append(r.methods, strings.ToUpper(m))
	}
	for i, p := range src.Paths {
		pattern, err := parsePathPattern(p)
		c.problem("paths", i, err)
		r.paths = append(r.paths, pattern)
	}
	if len(r.methods)+len(r.paths) > 0 && (r.protocol == TCP || r.protocol == UDP) {
		field := "methods"
		if len(r.methods) == 0 {
			field = "paths"
		}
		c.problem(field, -1, fmt.Errorf("only HTTP requests have them, and the rule is for %s", r.protocol))
	}
	c.problem("inspect", -1, r.compileInspect(src))
	c.problem("tls", -1, r.compileTLS(src))
	up := c.size("max_upload", src.MaxUpload)
	down := c.size("max_download", src.MaxDownload)
	if up != 0 || down != 0 {
		r.budget = &Budget{Rule: budgetName(src), MaxUpload: up, MaxDownload: down}
	}
	return r
}

func (r *rule) compileInspect(src RuleSource) error {
	r.inspect = src.Inspect
	switch {
	case !src.Inspect:
	case r.protocol != Any && r.protocol != TLS:
		return fmt.Errorf("it is about TLS, and the rule is for %s", r.protocol)
	case len(src.Allow)+len(src.Ask) == 0:
		return errors.New("there is nothing to look at where the rule only denies")
	}
	return nil
}

func (r *rule) compileTLS(src RuleSource) error {
	r.pass = src.TLS == "pass"
	switch {
	case src.TLS == "":
	case !r.pass:
		return fmt.Errorf(`%s is not "pass"`, quote(src.TLS))
	case r.protocol != Any && r.protocol != TLS:
		return fmt.Errorf("it is about TLS, and the rule is for %s", r.protocol)
	case len(src.Allow)+len(src.Ask) == 0:
		return errors.New("there is nothing to pass where the rule only denies")
	case src.Inspect || len(src.Methods)+len(src.Paths) > 0:
		return errors.New("the rule looks at requests, which TLS hides")
	}
	return nil
}

func (c *compiler) size(field, s string) int64 {
	if s == "" {
		return 0
	}
	n, err := ParseSize(s)
	c.problem(field, -1, err)
	return n
}

func (c *compiler) compileTargets(r *rule, src RuleSource, field string, rk rank, texts []string) {
	for i, text := range texts {
		t, err := ParseTarget(text)
		if err != nil {
			c.problem(field, i, err)
			continue
		}
		if t.kind != group {
			c.add(r, src, rk, t, "")
			continue
		}
		members, err := findGroup(t.host)
		c.problem(field, i, err)
		for _, m := range members {
			if rk == rankDeny {
				m.ports = nil // who refuses a group does not mean two ports of it
			}
			c.add(r, src, rk, m, t.host)
		}
	}
}

func (c *compiler) add(r *rule, src RuleSource, rk rank, t Target, group string) {
	if len(c.clauses) > maxTargets {
		return
	}
	text := ruleText(rk.verdict(), t.String(), src)
	d := Decision{Verdict: rk.verdict(), Rule: src.Name, Origin: src.Origin, Protocol: r.protocol}
	if d.Rule == "" {
		d.Rule = text
	}
	where := ""
	if d.Origin != "" {
		where = " (" + d.Origin + ")"
	}
	d.Reason = fmt.Sprintf("rule %q%s %s", d.Rule, where, verbs[rk])
	if rk != rankDeny {
		d.Budget = r.budget
	}
	one := clause{rule: r, rank: rk, target: t, protos: r.protocol.matches(rk), text: text, group: group, decision: d}
	if one.aboutRequests() && r.protocol == Any {
		one.protos = only(TLS, HTTP)
	}
	one.decision.Request = one.aboutRequests()
	if one.decision.Request && !one.cautious() {
		one.others = fmt.Sprintf("no rule allows this request: rule %q%s is only for %s", d.Rule, where, requestText(src))
	}
	c.clauses = append(c.clauses, one)
}

var verbs = [...]string{rankDeny: "denies it", rankGrant: "allows it", rankAsk: "asks the user first", rankAllow: "allows it"}

func (r rank) verdict() Verdict {
	switch r {
	case rankGrant, rankAllow:
		return Allow
	case rankAsk:
		return Ask
	}
	return Deny
}

// ruleText is what a rule without a name is called.
func ruleText(v Verdict, target string, src RuleSource) string {
	words := []string{v.String(), target}
	if src.Protocol != "" {
		words = append(words, src.Protocol)
	}
	if len(src.Methods) > 0 {
		words = append(words, strings.ToUpper(strings.Join(src.Methods, ",")))
	}
	if len(src.Paths) > 0 {
		words = append(words, strings.Join(src.Paths, ","))
	}
	if src.Inspect {
		words = append(words, "inspect")
	}
	if src.TLS != "" {
		words = append(words, "tls="+src.TLS)
	}
	return strings.Join(words, " ")
}

// requestText says which requests a rule is about.
func requestText(src RuleSource) string {
	methods, paths := strings.ToUpper(strings.Join(src.Methods, ", ")), strings.Join(src.Paths, ", ")
	switch {
	case paths == "":
		return methods
	case methods == "":
		return paths
	}
	return methods + " of " + paths
}

// budgetName must be the same for all targets of a rule: they share its counters.
func budgetName(src RuleSource) string {
	if src.Name != "" {
		return src.Name
	}
	v, targets := Allow, append(src.Allow[:len(src.Allow):len(src.Allow)], src.Ask...)
	if len(src.Allow) == 0 {
		v = Ask
	}
	if len(targets) == 0 {
		return ""
	}
	text := ruleText(v, targets[0], src)
	if more := len(targets) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// checkRuleName: names are shown on terminals, and come with repositories.
func checkRuleName(name string) error {
	const most = 100
	if utf8.RuneCountInString(name) > most {
		return fmt.Errorf("is longer than %d characters", most)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return fmt.Errorf("has the character %+q, which cannot be shown", r)
		}
	}
	return nil
}

func checkMethod(m string) error {
	if m == "" {
		return errors.New("is empty")
	}
	if strings.Trim(strings.ToUpper(m), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || len(m) > 32 {
		return fmt.Errorf("%s is no HTTP method", quote(m))
	}
	return nil
}

// ParseSize reads an amount of data as people write it: 512k, 10MB, 1.5GiB. Units are
// powers of 1024 as everywhere in coffer, in either case and with or without "b" or
// "ib". (The limits of a machine have a parser too, in a package that does I/O.)
func ParseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit := slices.Index(units, cmp.Or(strings.TrimSpace(text[len(number):]), "b"))
	power := math.Pow(1024, float64((unit+2)/3))
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || unit < 0 || strings.Trim(number, "0123456789.") != "" || unit == 0 && strings.Contains(number, "."):
		err = errors.New("want a number and a unit, such as 512k, 10MB or 1.5GiB")
	case n*power >= math.MaxInt64:
		err = errors.New("is too large")
	case n*power < 1:
		err = errors.New("cannot be zero; deny the destination, or leave the limit out")
	}
	if err != nil {
		return 0, fmt.Errorf("size %s: %w", quote(s), err)
	}
	return int64(n * power), nil
}

var units = strings.Fields("b k kb kib m mb mib g gb gib t tb tib")
