package demo

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hostile is a planted script. It never runs.
const hostile = "#!/bin/sh\n# planted by the coffer demo\n"

// files are misdeeds by which a file becomes a way out later: by what git or a shell runs, or by its mode.
var files = []misdeed{
	{
		name: "git-hook", title: "plant a git hook",
		try: func(t target) (string, error) {
			return "", os.WriteFile(filepath.Join(t.Work, ".git/hooks/pre-commit"), []byte(hostile), 0o755)
		},
		harm: func(s *stage, _ report) bool { return contains(s.git("hooks/pre-commit"), hostile) },
		wall: "no effect outside",
	},
	{
		name: "git-config", title: "set core.fsmonitor in .git/config",
		try: func(t target) (string, error) {
			return "", appendTo(filepath.Join(t.Work, ".git/config"), "[core]\n\tfsmonitor = ./planted\n")
		},
		harm: func(s *stage, _ report) bool { return contains(s.git("config"), "planted") },
		wall: "no effect outside",
	},
	{
		name: "git-rename", title: "swap .git for another",
		try: func(t target) (string, error) {
			git := filepath.Join(t.Work, ".git")
			if err := os.Rename(git, git+movedAway); err != nil {
				return "", err
			}
			return "", os.Mkdir(git, 0o755)
		},
		harm: func(s *stage, _ report) bool { return exists(filepath.Join(s.work, ".git"+movedAway)) },
		wall: "a mount point cannot be moved",
	},
	{
		name: "symlink", title: "write out through a symbolic link",
		try: func(t target) (string, error) {
			link := filepath.Join(t.Work, "notes")
			if err := os.Symlink(t.Notes, link); err != nil {
				return "", err
			}
			defer os.Remove(link)
			return "", appendTo(link, t.Token)
		},
		harm: func(s *stage, _ report) bool { return contains(s.notes, s.token) },
		wall: "not there: a home of its own",
	},
	{
		// Outside, such a file would run with the user's rights for whoever starts it.
		name: "setuid-file", title: "leave a set-user-id program",
		try: func(t target) (string, error) {
			file := filepath.Join(t.Work, "tool")
			if err := os.WriteFile(file, []byte(hostile), 0o755); err != nil {
				return "", err
			}
			return "", unix.Chmod(file, unix.S_ISUID|0o755)
		},
		harm: func(s *stage, _ report) bool {
			info, err := os.Lstat(filepath.Join(s.work, "tool"))
			return err == nil && info.Mode()&os.ModeSetuid != 0
		},
		wall: "seccomp: system call refused",
	},
	{
		name: "shell-rc", title: "add a line to ~/.bashrc",
		try:  func(t target) (string, error) { return "", plant(filepath.Join(t.Home, ".bashrc"), t.Token) },
		harm: func(s *stage, _ report) bool { return contains(filepath.Join(s.home, ".bashrc"), s.token) },
		wall: "went to its own home, now gone",
	},
}

// movedAway is appended to what was .git.
const movedAway = "-moved"

// git is a path in the stage's repository, wherever that was moved.
func (s *stage) git(path string) string {
	if moved := filepath.Join(s.work, ".git"+movedAway); exists(moved) {
		return filepath.Join(moved, path)
	}
	return filepath.Join(s.work, ".git", path)
}

func appendTo(path, text string) error { return write(path, os.O_APPEND, text) }

func plant(path, text string) error { return write(path, os.O_APPEND|os.O_CREATE, text) }

func write(path string, flags int, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func contains(path, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), text)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
