package checkpoint

import (
	"path"

	"github.com/cofferhq/coffer/internal/mask"
)

// Ignore decides which files git would not look at, as gitignore(5) says. It is made for
// a directory and covers all that is below.
type Ignore struct {
	above *Ignore
	rules []mask.Rule
	n     int // rules, with those above
	all   bool
}

// everything is ignored in an ignored directory, whatever the rules in it say.
var everything = &Ignore{all: true}

// maxPatterns bounds what a stranger's rules can cost.
const maxPatterns = 20000

// NewIgnore makes rules for the top of a tree; later texts count more.
func NewIgnore(texts ...string) *Ignore {
	i := &Ignore{}
	for _, t := range texts {
		i = i.Below("", t)
	}
	return i
}

// Below adds the rules of a directory.
func (i *Ignore) Below(dir, text string) *Ignore {
	rules, _ := mask.Parse(text, dir, ".gitignore") // without the lines that are no patterns
	if i.all || len(rules) == 0 || i.n+len(rules) > maxPatterns {
		return i
	}
	return &Ignore{above: i, rules: rules, n: i.n + len(rules)}
}

// Match says whether a path is ignored. Its directories are not, or nobody would ask.
func (i *Ignore) Match(rel string, isDir bool) bool {
	dir, name := path.Dir(rel), path.Base(rel)
	if dir == "." {
		dir = ""
	}
	for ; i != nil; i = i.above {
		if i.all {
			return true
		}
		for k := len(i.rules) - 1; k >= 0; k-- {
			if r := &i.rules[k]; r.Matches(dir, name, isDir) {
				return !r.Negated
			}
		}
	}
	return false
}
