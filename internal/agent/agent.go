package agent

import (
	"slices"
	"strings"
)

// An Agent is what is known about a coding agent.
type Agent struct {
	Name    string // as users call it
	Title   string // as its makers do
	Command string // the program
	Package string // of npm, to install it from; "" if it is not there
	Least   string // the oldest version that these facts hold for

	// Env are variables that it runs with: above all no telemetry and no update of
	// itself, whose files are not its own here.
	Env map[string]string
	// Pass are variables of the user's that it is passed, if they are set: which model,
	// and with which key.
	Pass []string
	// CA are the variables that name a file of certificates to trust besides its own.
	CA []string

	// Dir is its directory in the home, where DirVar is known: the variable by which a user
	// has that directory elsewhere.
	Dir, DirVar string
	// Talks is where, in the home, conversations are: a directory with files in it, or a
	// file. TalkIn is a directory below it, where there are other things too.
	Talks, TalkIn string
	// Credentials are files in the home.
	Credentials []Credential
	// Settings are files in the home in which it has settings, and to which it writes.
	Settings []string
	// Hosts are what it reaches besides the network's group agents.
	Hosts []string

	// Bypass switches its questions off.
	Bypass []string
	// Argv is how it is started.
	Argv func(a *Agent, t Turn) []string
	// ByInput says that it changes a prompt that is an argument, when nobody watches, and
	// wants it on its standard input to take it as it is.
	ByInput bool
	// Files are written to the home before that.
	Files func(a *Agent, s Scene) []File

	// Login is how it is started to log in; the host's ports of LoginPorts lead to it,
	// for a browser that comes back with the answer.
	Login      []string
	LoginPorts []int
	// LoginHelp is a line for the user.
	LoginHelp string

	// Jail is for one that runs in place.
	Jail func() Jail
}

// A Turn is what an agent is started for.
type Turn struct {
	Prompt   string   // "" for none
	Headless bool     // it answers and ends; nobody is there to talk to
	Resume   bool     // go on with the last conversation
	Extra    []string // arguments of the user's own
	Dir      string   // where it works
	Guide    string   // the path inside of the file that tells where it is
	Text     string   // what is in that file
	// Read reads a file of the home, that a program inside may have written.
	Read func(name string) ([]byte, error)
}

// A Scene is what the files depend on.
type Scene struct {
	Home  string // the path of the home inside
	Dir   string // where the agent works
	Guide string // the path inside of the text for it
	Text  string // what is in it
	// Has says whether the agent has a credential file in this home.
	Has func(name string) bool
	// Variable finds one that the agent will be given.
	Variable func(name string) string
}

// A File of the home is replaced or, if Merge is set, changed: it is JSON in which nil removes a key
// and a list gets the items it lacks.
type File struct {
	Name    string // relative to the home
	Content []byte
	Merge   map[string]any
}

// A Credential is a file of JSON by which an agent is who the user is.
type Credential struct {
	Name string `json:"name"` // relative to the home
	// Tokens are the dotted names of what a sandbox may renew, in which * stands for any name. Of
	// an object with a type, only oauth is. Without any, see tokenNames.
	Tokens []string `json:"tokens,omitempty"`
	// Same are the dotted names of what must not change then: whose it is.
	Same []string `json:"same,omitempty"`
	// Optional is for one without which the agent is logged in all the same.
	Optional bool `json:"optional,omitempty"`
}

// Managed is where files of ours are, relative to the home inside.
const Managed = ".local/share/coffer"

// PromptFile is the file, in Managed, with the prompt for those who want it on standard
// input.
const PromptFile = Managed + "/prompt"

// Guide is the file, in Managed, that tells the agent where it is.
const Guide = Managed + "/AGENTS.md"

// known makes the agents that are known by name. They are functions, so that who starts
// coffer for something else does not wait for them.
var known = []func() *Agent{claude, codex, gemini, opencode, pi}

// Known are the agents that are known by name, sorted.
func Known() (all []*Agent) {
	for _, make := range known {
		all = append(all, make())
	}
	return all
}

// Find finds one of a list by name, nil if it is not there.
func Find(all []*Agent, name string) *Agent {
	if i := slices.IndexFunc(all, func(a *Agent) bool { return a.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Names are those of a list.
func Names(all []*Agent) (names []string) {
	for _, a := range all {
		names = append(names, a.Name)
	}
	return names
}

// Words are how an agent is spoken to. Its command line is the program, Bypass, these, and the
// arguments of the user's own before the prompt.
type Words struct {
	First            []string // headless, before all others
	Text, Guide      string   // the flag for the text that tells where it is, or for its path
	Resume           []string
	Headless, Prompt []string // before the prompt, if nobody watches and otherwise
	// HeadlessIn and PromptIn are flags that end in the prompt.
	HeadlessIn, PromptIn string
	Lists                bool   // its flags may take any number of words
	Special              string // a prompt that begins with one of these gets a space before
}

func (w Words) argv(a *Agent, t Turn) []string {
	args := []string{a.Command}
	before, in := w.Prompt, w.PromptIn
	if t.Headless {
		args = append(args, w.First...)
		before, in = w.Headless, w.HeadlessIn
	}
	args = append(args, a.Bypass...)
	if w.Text != "" && t.Text != "" {
		args = append(args, w.Text, t.Text)
	}
	if w.Guide != "" && t.Guide != "" {
		args = append(args, w.Guide, t.Guide)
	}
	if t.Resume {
		args = append(args, w.Resume...)
	}
	args = append(args, t.Extra...)
	if t.Headless || t.Prompt != "" {
		args = append(args, before...)
	}
	switch {
	case t.Prompt != "" && in != "":
		return append(args, in+t.Prompt)
	case t.Prompt != "" && strings.IndexByte(w.Special, t.Prompt[0]) >= 0:
		t.Prompt = " " + t.Prompt
	}
	if w.Lists {
		return wordsAfter(t.Extra, args, t.Prompt)
	}
	return words(args, t.Prompt)
}

// words ends a command line with a prompt, which is no flag even if it looks like one.
func words(args []string, prompt string) []string {
	switch {
	case prompt == "":
		return args
	case strings.HasPrefix(prompt, "-"):
		return append(args, "--", prompt)
	}
	return append(args, prompt)
}

// wordsAfter is words for an agent with flags that take any number of words: one of them may
// be the last that the user gave, and would take the prompt too.
func wordsAfter(extra, args []string, prompt string) []string {
	if prompt != "" && len(extra) > 0 && !slices.Contains(extra, "--") {
		return append(args, "--", prompt)
	}
	return words(args, prompt)
}

// Variables are what the agent's environment has beyond that of any program, as
// NAME=value, sorted. lookup finds a variable of the user's.
func (a *Agent) Variables(lookup func(string) (string, bool)) (list []string) {
	for name, value := range a.Env {
		list = append(list, name+"="+value)
	}
	for _, name := range a.Pass {
		if _, ours := a.Env[name]; ours {
			continue
		}
		if v, ok := lookup(name); ok && v != "" {
			list = append(list, name+"="+v)
		}
	}
	slices.Sort(list)
	return list
}
