package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A repository may not be the user's making: it came in an archive, or a sandbox over a
// directory above has made it. Its git directory and its own config are a stranger's words
// then. What git would be led to by them, out of that directory, is not shown inside; and
// programs that they name are not run by us. The user's own config is another matter.

// openIn opens a regular file of a git directory. A link that leads out of it is not
// followed, and nothing is waited for.
func openIn(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", filepath.Join(root.Name(), name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readIn reads a file of a git directory.
func readIn(dir, name string, limit int64) ([]byte, error) {
	f, err := openIn(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Join(dir, name), limit)
	}
	return b, err
}

// maxInfo bounds the files of a git directory that are shown inside as they are.
const maxInfo = 16 << 20

// copyIn copies a file of a git directory.
func copyIn(dir, name, to string) error {
	in, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// isRealDir says whether a path without links is a directory.
func isRealDir(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && real == path && isDir(path)
}

// A setting is one line of git's configuration, and whether it is the repository's own.
type setting struct {
	key, value string
	own        bool
}

// settings lists what git's configuration says, by git's own reading, without what we say
// on the command line.
func (h host) settings(ctx context.Context) (all []setting, err error) {
	h.mind = false
	out, err := h.run(ctx, "", "config", "--list", "-z", "--show-scope")
	if err != nil {
		return nil, err
	}
	words := strings.Split(out, "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == "command" {
			continue
		}
		key, value, _ := strings.Cut(words[i+1], "\n")
		all = append(all, setting{key, value, words[i] == "local" || words[i] == "worktree"})
	}
	return all, nil
}

// largeFiles are what git-lfs writes into a repository's own config.
var largeFiles = map[string]bool{
	"git-lfs clean -- %f": true, "git-lfs smudge -- %f": true, "git-lfs filter-process": true,
	"git-lfs smudge --skip -- %f": true, "git-lfs filter-process --skip": true, "true": true,
}

// leadsLargeFiles says whether git-lfs would run what a setting names.
func leadsLargeFiles(key string) bool {
	return key == "core.sshcommand" || key == "core.askpass" || key == "core.gitproxy" || key == "lfs.standalonetransferagent" ||
		strings.HasPrefix(key, "lfs.customtransfer.") || strings.HasPrefix(key, "lfs.extension.") ||
		strings.HasPrefix(key, "credential.") && strings.HasSuffix(key, "helper")
}

// filtersOff are the variables by which git runs none of the programs through which a
// repository's own config wants files to be passed.
func filtersOff(all []setting) (env []string) {
	names := map[string]bool{}
	for _, s := range all {
		if !s.own {
			continue
		}
		if rest, ok := strings.CutPrefix(s.key, "filter."); ok {
			name := rest[:max(strings.LastIndexByte(rest, '.'), 0)]
			names[name] = names[name] || name != "lfs" || !largeFiles[s.value]
		}
		names["lfs"] = names["lfs"] || leadsLargeFiles(s.key)
	}
	n := 0
	for name, off := range names {
		if !off {
			continue
		}
		for _, c := range [][2]string{{"clean", ""}, {"smudge", ""}, {"process", ""}, {"required", "false"}} {
			// Not by -c, in which a name with a = in it is another.
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=filter.%s.%s", n, name, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, c[1]))
			n++
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
