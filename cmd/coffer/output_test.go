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
)

// Everything that is printed goes through stdout, which notices what could not be written.
func TestPrintedIsChecked(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		// The second one speaks to git, which hears of nothing that is missing.
		if strings.HasSuffix(name, "_test.go") || name == "output.go" || name == "upstream.go" {
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
				t.Errorf("%v: write to stdout, see output.go, instead of os.Stdout", set.Position(s.Pos()))
			case of.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Print"):
				t.Errorf("%v: print with fmt.F%s(stdout, …), see output.go", set.Position(s.Pos()), strings.ToLower(s.Sel.Name))
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
	defer func(was *output) { stdout = was }(stdout)
	stdout = &output{to: f}
	if err := runTheirs("sh", "/", []string{"-c", `[ /dev/fd/1 -ef "$0" ]`, f.Name()}); err != nil {
		t.Error(err)
	}
}

func TestChecked(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	other := errors.New("other")
	for _, c := range []struct {
		failed, err error
		want        string
	}{
		{nil, nil, "<nil>"},
		{nil, other, "other"},
		{syscall.ENOSPC, nil, "the output could not be written: no space left on device"},
		{syscall.ENOSPC, full, "the output could not be written: no space left on device"},
		{syscall.ENOSPC, status(1), "the output could not be written: no space left on device"},
		{syscall.ENOSPC, givenUp(2), "exit status 130"},
		{syscall.ENOSPC, other, "other"},
		{syscall.EPIPE, nil, "<nil>"},
		{syscall.EPIPE, fmt.Errorf("write: %w", syscall.EPIPE), "<nil>"},
		{syscall.EPIPE, other, "other"},
	} {
		o := &output{failed: c.failed}
		if got := fmt.Sprint(o.checked(c.err)); got != c.want {
			t.Errorf("%v after %v: %q, want %q", c.err, c.failed, got, c.want)
		}
	}
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	o := &output{to: closed} // which cannot be written to
	if fmt.Fprint(o, "x"); o.failed == nil {
		t.Error("a failure was not noticed")
	}
	if n, err := fmt.Fprint(hushed{o}, "xy"); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
