package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// The private git directory of a repository has its settings already; one that programs make
// inside has none. So the user's own are also the sandbox's system-wide settings, where anything
// that a repository or the sandbox sets counts more.

// identity are the settings that commits need.
var identity = []string{"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email", "init.defaultbranch"}

// styles are further settings that come along. None names a program, a file, a machine or a
// credential. Those that end in a dot are whole sections: values there are colours, formats
// and yes or no.
var styles = []string{
	"advice.", "color.", "column.", "pretty.",
	"branch.sort", "commit.cleanup", "commit.verbose", "core.abbrev", "core.quotepath", "core.whitespace",
	"diff.algorithm", "diff.colormoved", "diff.colormovedws", "diff.context", "diff.indentheuristic", "diff.interhunkcontext",
	"diff.mnemonicprefix", "diff.noprefix", "diff.renamelimit", "diff.renames", "diff.statgraphwidth", "diff.submodule",
	"diff.suppressblankempty", "diff.wserrorhighlight",
	"fetch.prune", "format.pretty", "help.autocorrect",
	"log.abbrevcommit", "log.date", "log.decorate", "log.follow",
	"merge.conflictstyle", "merge.ff", "merge.log", "merge.renames", "merge.stat", "pull.ff", "pull.rebase",
	"rebase.abbreviatecommands", "rebase.autosquash", "rebase.autostash", "rebase.missingcommitscheck", "rebase.stat", "rebase.updaterefs",
	"rerere.enabled", "stash.showpatch", "status.branch", "status.short", "status.showstash", "status.showuntrackedfiles", "tag.sort",
}

// maxSetting and maxSettings bound what comes along.
const (
	maxSetting  = 4096
	maxSettings = 500
)

// comesAlong says whether a setting of the user's is one of his styles, or an alias that is not
// a shell command.
func comesAlong(key, value string) bool {
	if len(value) > maxSetting || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		return false
	}
	if name, ok := strings.CutPrefix(key, "alias."); ok {
		return plainName(name) && !strings.HasPrefix(strings.TrimSpace(value), "!")
	}
	section, name, _ := strings.Cut(key, ".")
	for part := range strings.SplitSeq(name, ".") {
		if !plainName(part) {
			return false
		}
	}
	return slices.Contains(styles, key) || slices.Contains(styles, section+".")
}

// plainName says whether a word needs no quotes in a file of git's configuration.
func plainName(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// SystemConfig is the text of the sandbox's system-wide git settings: those in the directory
// etc, who the user is, and with settings his aliases and styles. It is empty if the user has
// said nothing. Only the system's files and the user's own are read, by git if they include
// others.
func SystemConfig(ctx context.Context, etc string, settings bool) string {
	own, included := map[string]string{}, false
	for _, file := range configFiles() {
		rootfs.GitConfig(file, func(key, value string) {
			own[key] = value
			included = included || strings.HasPrefix(key, "include")
		})
	}
	if included { // by rules of git's own
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
	keys := slices.Clone(identity)
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if settings && len(keys) < maxSettings && comesAlong(key, own[key]) {
			keys = append(keys, key)
		}
	}
	var c strings.Builder
	for _, key := range keys {
		if value, ok := own[key]; ok && !strings.ContainsRune(value, 0) {
			writeSetting(&c, key, value)
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

// configFiles are the system's and the user's own, in the order in which they count. They are
// read here, as every sandbox starts with them, and git would take longer.
func configFiles() (files []string) {
	if os.Getenv("GIT_CONFIG_NOSYSTEM") == "" {
		files = append(files, cmp.Or(os.Getenv("GIT_CONFIG_SYSTEM"), "/etc/gitconfig"))
	}
	if f, ok := os.LookupEnv("GIT_CONFIG_GLOBAL"); ok {
		return append(files, f)
	}
	return append(files, filepath.Join(userConfigDir(), "config"), filepath.Join(os.Getenv("HOME"), ".gitconfig"))
}

// maxSystemConfig bounds the machine's file.
const maxSystemConfig = 1 << 16
