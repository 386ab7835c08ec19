package mask

import "strings"

// A list is rules in order, of which the last that matches counts. A tree has many
// entries, and most rules tell by a name's last byte or its first that they are not about
// it, so they are sorted by these.
type list struct {
	rules  []Rule
	byLast [256][]int32
	byHead [256][]int32
	others []int32
	// named are names of directories that rules speak of: those of dependencies are
	// looked into if they are among them.
	named map[string]bool
}

func newList(rules []Rule) *list {
	l := &list{}
	for _, r := range rules {
		l.add(r)
	}
	return l
}

func (l *list) add(r Rule) {
	i := int32(len(l.rules))
	l.rules = append(l.rules, r)
	l.name(r)
	put := func(table *[256][]int32, c byte) {
		table[c] = append(table[c], i)
		if r.glob.fold && lower(c) {
			c -= 'a' - 'A'
			table[c] = append(table[c], i)
		}
	}
	p := r.glob.pattern
	switch {
	case p == "":
	case r.literal == len(p) || plain(p[len(p)-1]) && (len(p) == 1 || plain(p[len(p)-2]) || p[len(p)-2] == '*'):
		put(&l.byLast, p[len(p)-1])
	case r.anyDir && r.literal > 0:
		put(&l.byHead, p[0])
	default:
		l.others = append(l.others, i)
	}
}

// name notes which directories a rule speaks of.
func (l *list) name(r Rule) {
	if r.Negated || r.From == Builtin {
		return
	}
	for part := range strings.SplitSeq(r.base+"/"+r.glob.pattern, "/") {
		if Dependencies[part] {
			if l.named == nil {
				l.named = map[string]bool{}
			}
			l.named[part] = true
		}
	}
}

// plain says whether a byte can be neither special itself nor the end of something that is.
func plain(c byte) bool { return alnum(c) || c == '_' || c == '.' }

// last returns the last rule that is about an entry; nil if there is none.
func (l *list) last(in, name string, dir bool, e *effort) *Rule {
	if len(l.rules) == 0 || name == "" {
		return nil
	}
	best := int32(-1)
	for _, some := range [...][]int32{l.byLast[name[len(name)-1]], l.byHead[name[0]], l.others} {
		for k := len(some) - 1; k >= 0 && some[k] > best; k-- {
			r := &l.rules[some[k]]
			yes, steps := r.matches(in, name, dir)
			if e.steps += steps; e.steps > maxEach {
				return e.tooMuch(r)
			}
			if yes {
				best = some[k]
			}
		}
	}
	if best < 0 {
		return nil
	}
	return &l.rules[best]
}
