package rootfs

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// What is read of git's configuration is bounded, and so is what it can refer to: each is looked
// for, and somebody hostile may have written it.
const (
	maxConfig = 1 << 20
	maxFiles  = 100
	maxNamed  = 1000
)

// gitConfig is what a file of git's configuration, and all that it includes, refer to.
// Conditions of includes are not looked at: it is about what may count, not about what
// does.
type gitConfig struct {
	files []string // that are included, there or not
	hooks []string // values of core.hooksPath
}

// readGitConfig reads a file of git's configuration.
func readGitConfig(file string) (c gitConfig) {
	seen := map[string]bool{file: true}
	for todo := []string{file}; len(todo) > 0 && len(seen) < maxFiles; todo = todo[1:] {
		f, err := openRegular(todo[0])
		if err != nil {
			continue
		}
		for k, v := range parseGitConfig(io.LimitReader(f, maxConfig)) {
			if len(c.files)+len(c.hooks) == maxNamed {
				break
			}
			switch k {
			case "core.hookspath":
				c.hooks = append(c.hooks, v)
			case "include.path", "includeif.path":
				if v = expandHome(v); !filepath.IsAbs(v) {
					v = filepath.Join(filepath.Dir(todo[0]), v)
				}
				if v = filepath.Clean(v); !seen[v] {
					seen[v] = true
					c.files = append(c.files, v)
					todo = append(todo, v)
				}
			}
		}
		f.Close()
	}
	return c
}

func expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(os.Getenv("HOME"), rest)
	}
	return path
}

// parseGitConfig yields keys and values in order.
func parseGitConfig(r io.Reader) func(yield func(key, value string) bool) {
	return func(yield func(string, string) bool) {
		section := ""
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxConfig)
		for lines.Scan() {
			line := strings.TrimSpace(lines.Text())
			for strings.HasSuffix(line, "\\") && !strings.HasSuffix(line, "\\\\") && lines.Scan() {
				line = line[:len(line)-1] + strings.TrimSpace(lines.Text())
			}
			if strings.HasPrefix(line, "[") {
				head, rest, _ := strings.Cut(line[1:], "]")
				name, sub, _ := strings.Cut(head, " ")
				section = strings.ToLower(strings.TrimSpace(name))
				if sub = unquoteGit(strings.TrimSpace(sub)); sub != "" && section != "includeif" {
					section += "." + sub // [core "x"] is another key than core
				}
				line = strings.TrimSpace(rest)
			}
			name, value, ok := strings.Cut(line, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" || name[0] == '#' || name[0] == ';' {
				continue
			}
			if !ok {
				value = "true"
			}
			if !yield(section+"."+name, unquoteGit(strings.TrimSpace(value))) {
				return
			}
		}
	}
}

// unquoteGit takes quotes, escapes and comments out of a value.
func unquoteGit(s string) string {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 't':
				out.WriteByte('\t')
			default:
				out.WriteByte(s[i])
			}
		case (c == '#' || c == ';') && !quoted:
			return strings.TrimSpace(out.String())
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}
