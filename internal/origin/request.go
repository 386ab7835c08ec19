package origin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Request is what a program inside wants gh to do.
type Request struct {
	Group  string  `json:"group"`
	Verb   string  `json:"verb"`
	Number string  `json:"number,omitempty"`
	Flags  []Given `json:"flags,omitempty"`
}

// Given is an option, by its long name.
type Given struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// ErrRequest is wrapped by every error about a request that is not one.
var ErrRequest = errors.New("not a request for gh")

// Read reads a request and checks it. Nothing may follow it, and nothing may be in it that
// has no meaning.
func Read(in io.Reader) (r Request, err error) {
	text, err := io.ReadAll(io.LimitReader(in, MaxRequest+1))
	if err != nil || len(text) > MaxRequest {
		return r, fmt.Errorf("%w: cut off, or too long", ErrRequest)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return r, fmt.Errorf("%w: more than one", ErrRequest)
	}
	return r, r.Check()
}

// Check says what is wrong with a request.
func (r *Request) Check() error {
	v, err := find(r.Group, r.Verb)
	if err != nil {
		return err
	}
	if len(r.Flags) > maxFlags {
		return errors.New("too many options")
	}
	seen := map[string]bool{}
	for _, g := range r.Flags {
		f, ok := v.flag(g.Name)
		if !ok {
			return unknown(v, "--"+g.Name)
		}
		if repeats := f.kind == labels || f.kind == people; seen[g.Name] && !repeats {
			return fmt.Errorf("--%s is there twice", g.Name)
		}
		seen[g.Name] = true
		if err := f.check(g.Value); err != nil {
			return fmt.Errorf("--%s: %q %w", g.Name, ui.Clip(g.Value, 60), err)
		}
	}
	return r.complete(v, seen)
}

func (r *Request) complete(v verb, seen map[string]bool) error {
	name := v.group + " " + v.name
	switch {
	case r.Number != "" && (!v.number || !isNumber(r.Number)):
		return fmt.Errorf("gh %s: unexpected argument %q", name, ui.Clip(r.Number, 60))
	case r.Number == "" && v.needs && !seen["job"]:
		return fmt.Errorf("gh %s in a sandbox wants a number", name)
	case name == "pr create" && !(seen["title"] && seen["body"]):
		return errors.New("gh pr create in a sandbox wants --title and --body, or --fill")
	case name == "pr create" && r.value("title") == "", name == "pr comment" && r.value("body") == "":
		return fmt.Errorf("gh %s wants some words", name)
	case name == "pr edit" && len(seen) == 0:
		return errors.New("gh pr edit wants to know what to change, such as --title or --body")
	}
	return nil
}

func unknown(v verb, option string) error {
	var have []string
	for _, f := range v.flags {
		have = append(have, "--"+f.name)
	}
	return fmt.Errorf("gh %s %s in a sandbox does not know %s; it knows %s", v.group, v.name, terminal.Escape(ui.Clip(option, 60)), strings.Join(have, " "))
}

// Writes says whether it changes something that others see.
func (r *Request) Writes() bool {
	v, err := find(r.Group, r.Verb)
	return err != nil || v.writes
}

// OfBranch says whether it is about the pull request of a branch, as no number says which.
func (r *Request) OfBranch() bool {
	v, _ := find(r.Group, r.Verb)
	return v.group == "pr" && v.number && r.Number == ""
}

// Creates says whether it makes a pull request.
func (r *Request) Creates() bool { return r.Group == "pr" && r.Verb == "create" }

// Head is the branch that a pull request is to be made of, if the request says so.
func (r *Request) Head() string {
	if r.Creates() {
		return r.value("head")
	}
	return ""
}

func (r *Request) value(name string) string {
	for _, g := range r.Flags {
		if g.Name == name {
			return g.Value
		}
	}
	return ""
}

// A Command is a command line for gh, and what it is to read.
type Command struct {
	Args  []string
	Input string
}

// Command makes the command line. about is what it is about where the request has no
// number: a pull request's number, or its branch. head is the branch that one is made of.
func (r *Request) Command(to Repository, about, head string) Command {
	c := Command{Args: []string{r.Group, r.Verb, "--repo=" + to.String()}}
	for _, g := range r.Flags {
		v, _ := find(r.Group, r.Verb)
		f, _ := v.flag(g.Name)
		switch {
		case g.Name == "body":
			c.Input = g.Value
			c.Args = append(c.Args, "--body-file=-")
		case g.Name == "head" && r.Creates():
		case f.kind == none:
			c.Args = append(c.Args, "--"+g.Name)
		default:
			c.Args = append(c.Args, "--"+g.Name+"="+g.Value)
		}
	}
	if r.Creates() {
		c.Args = append(c.Args, "--head="+head)
	}
	if r.Number != "" {
		about = r.Number
	}
	if about != "" {
		c.Args = append(c.Args, "--", about)
	}
	return c
}

// String says what would happen, for the user to decide about.
func (r *Request) String() string {
	what := r.Group + " " + r.Verb
	if r.Number != "" {
		what += " " + r.Number
	}
	words := "use your gh for " + what
	switch {
	case !r.Writes():
		return "have your gh read: " + what
	case r.Creates():
		words = "open a pull request"
	case r.Verb == "comment":
		words = "comment on pull request " + r.Number
	case r.Verb == "edit":
		var names []string
		for _, g := range r.Flags {
			names = append(names, g.Name)
		}
		words = fmt.Sprintf("change pull request %s (%s)", r.Number, strings.Join(names, ", "))
	}
	for _, name := range []string{"base", "title", "body"} {
		if value := r.value(name); value != "" {
			words += fmt.Sprintf(", %s \"%s\"", name, terminal.Escape(ui.Clip(value, 120)))
		}
	}
	return words
}

// Words are the request in short, for a log: the names of options, and no texts.
func (r *Request) Words() []string {
	words := []string{r.Group, r.Verb}
	for _, g := range r.Flags {
		words = append(words, "--"+g.Name)
	}
	if r.Number != "" {
		words = append(words, r.Number)
	}
	return words
}
