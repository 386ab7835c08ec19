package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// Where there is no repository, there is no private git directory to write settings of the
// user's into: 'git init' inside makes one, from what the system's settings say. So these are
// given there, where anything that the sandbox sets itself counts more.

// personal are those of the settings carried that do not depend on a repository.
var personal = []string{"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email", "init.defaultbranch"}

// SystemConfig is the text of git's system-wide settings for repositories that programs make:
// those in the directory etc, and who the user is. It is empty if the user has said nothing. Only
// the system's files and the user's own are read; files that these include only if there is time
// to ask git.
func SystemConfig(ctx context.Context, etc string, ask bool) string {
	own, included := map[string]string{}, false
	for _, file := range configFiles() {
		rootfs.GitConfig(file, func(key, value string) {
			own[key] = value
			included = included || strings.HasPrefix(key, "include")
		})
	}
	if included && ask { // by rules of git's own
		all, err := host{dir: "/"}.settings(ctx)
		if err != nil {
			all = nil // what is plain is better than nothing
		}
		for _, s := range all {
			if !s.own {
				own[s.key] = s.value
			}
		}
	}
	var c strings.Builder
	for _, key := range personal {
		if value, ok := own[key]; ok && !strings.ContainsRune(value, 0) {
			section, name, _ := strings.Cut(key, ".")
			fmt.Fprintf(&c, "[%s]\n\t%s = %s\n", section, name, quote(value))
		}
	}
	if c.Len() == 0 {
		return ""
	}
	system, err := readIn(etc, "gitconfig", maxSystemConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "" // what the machine says must not be lost
	}
	return string(slices.Concat(system, []byte("\n"), []byte(c.String())))
}

// maxSystemConfig bounds the machine's file.
const maxSystemConfig = 1 << 16
