package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/ui"
)

// Everything that is printed goes through stdout, which notices what could not be written.
func TestPrintedIsChecked(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		// It speaks to git, which hears of nothing that is missing.
		if strings.HasSuffix(name, "_test.go") || name == "upstream.go" {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch of, _ := s.X.(*ast.Ident); {
			case of == nil:
			case of.Name == "os" && s.Sel.Name == "Stdout":
				t.Errorf("%v: write to stdout instead of os.Stdout", set.Position(s.Pos()))
			case of.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Print"):
				t.Errorf("%v: print with fmt.F%s(stdout, …)", set.Position(s.Pos()), strings.ToLower(s.Sel.Name))
			}
			return true
		})
	}
}

// A program of the user's writes to where we do itself, not by way of us: gh asks nothing of who
// has no terminal.
func TestTheirOutput(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer func(was *ui.Output) { stdout = was }(stdout)
	stdout = &ui.Output{To: f}
	if err := runTheirs("sh", "/", []string{"-c", `[ /dev/fd/1 -ef "$0" ]`, f.Name()}); err != nil {
		t.Error(err)
	}
}

func TestChecked(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	gone, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	defer ours.Close()
	const lost = "the output could not be written: no space left on device"
	other := errors.New("other")
	for _, c := range []struct {
		to   *os.File
		err  error
		want string
	}{
		{nil, nil, "<nil>"},
		{nil, other, "other"},
		{full, nil, lost},
		{full, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, lost},
		{full, status(1), lost},
		{full, givenUp(2), "exit status 130"},
		{full, other, "other"},
		{ours, nil, "<nil>"},
		{ours, fmt.Errorf("write: %w", syscall.EPIPE), "<nil>"},
		{ours, other, "other"},
	} {
		o := &ui.Output{To: c.to}
		if c.to != nil {
			fmt.Fprint(o, "x")
		}
		if got := fmt.Sprint(checked(o, c.err)); got != c.want {
			t.Errorf("%v after %v: %q, want %q", c.err, o.Failed(), got, c.want)
		}
	}
}
