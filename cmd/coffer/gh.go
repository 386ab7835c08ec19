package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/origin"
)

// ghMain is the program gh inside a sandbox: it has the host run the user's gh. Files and commits are read here.
func ghMain(args []string) int {
	code, err := runGH(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gh:", err)
		return 1
	}
	return code
}

func runGH(args []string) (code int, err error) {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "version") {
		fmt.Fprintln(stdout, "gh of a coffer sandbox", version())
		return 0, nil
	}
	asked, err := origin.Parse(args, readBody)
	switch {
	case err != nil:
		return 2, fmt.Errorf("%w; see 'gh --help'", err)
	case asked.Help:
		fmt.Fprintf(stdout, ghHelp, origin.Verbs("pr"), origin.Verbs("run"), origin.Verbs("issue"))
		return 0, nil
	case asked.Fill:
		if err = fill(&asked); err == nil {
			err = asked.Check()
		}
	}
	if err != nil {
		return 1, err
	}
	answer, err := askHost(asked.Request)
	if err != nil {
		return 1, err
	}
	fmt.Fprint(os.Stderr, answer.Err)
	if asked.Query != "" && answer.Exit == 0 {
		return query(asked.Query, answer.Out)
	}
	fmt.Fprint(stdout, answer.Out)
	return answer.Exit, nil
}

const ghHelp = `usage: gh pr %s
       gh run %s
       gh issue %s

The user's machine runs gh for this sandbox, with the user's login: for the repository
that this one came from, and changing only pull requests of branches that were pushed
from here. It may have to wait for the user's yes. Options are those of gh; one that is
not known here is refused, with those that are.
`

func readBody(name string) (string, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return "", err
		}
		defer f.Close()
	}
	b, err := io.ReadAll(io.LimitReader(f, origin.MaxRequest)) // which is too long then
	return string(b), err
}

func askHost(r origin.Request) (*origin.Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{}} // by no proxy
	answer, err := client.Post(repositoryURL()+"/gh", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the user's machine cannot be asked: this sandbox has no network, or it has just ended")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		return nil, errors.New(strings.TrimSpace(string(why)))
	}
	for in := json.NewDecoder(io.LimitReader(answer.Body, origin.MaxAnswer)); ; {
		var m origin.Message
		if err := in.Decode(&m); err != nil {
			return nil, fmt.Errorf("the user's machine did not answer: %w", err)
		}
		if m.Answer != nil {
			return m.Answer, nil
		}
		fmt.Fprintln(os.Stderr, "gh:", m.Say)
	}
}

// repositoryURL is where the host is asked about this repository; the host checks that it is one of this sandbox's.
func repositoryURL() string {
	const host = "http://" + link.AboutName
	out, _ := exec.Command("git", "config", "--get", "remote.origin.pushurl").Output()
	if url := strings.TrimSpace(string(out)); strings.HasPrefix(url, host+"/") {
		return url
	}
	return host + "/git"
}

// query has jq make something of an answer.
func query(what, of string) (int, error) {
	c := exec.Command("jq", "-rc", what)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(of), stdout.To, os.Stderr
	err := c.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("--jq needs the program jq in the sandbox: %w", err)
	}
	return 0, nil
}

// fill makes a title and a body of the commits that are new, where none are given.
func fill(a *origin.Asked) error {
	base := ""
	for _, g := range a.Flags {
		if g.Name == "base" {
			base = g.Value
		}
	}
	since, err := baseOf(base)
	if err != nil {
		return err
	}
	out, err := exec.Command("git", "log", "--reverse", "--max-count=100", "--format=%s%x1f%b%x1e", since+"..HEAD").Output()
	if err != nil {
		return fmt.Errorf("read the commits: %w", err)
	}
	commits := strings.Split(strings.TrimSuffix(strings.TrimSpace(string(out)), "\x1e"), "\x1e")
	title, body, _ := strings.Cut(strings.TrimSpace(commits[0]), "\x1f")
	if title == "" {
		return errors.New("there is no commit to make a title of; use --title and --body")
	}
	if len(commits) > 1 {
		var list strings.Builder
		for _, c := range commits {
			subject, _, _ := strings.Cut(strings.TrimSpace(c), "\x1f")
			fmt.Fprintf(&list, "- %s\n", subject)
		}
		head, err := exec.Command("git", "rev-parse", "--abbrev-ref", "HEAD").Output()
		if err != nil {
			return fmt.Errorf("read the branch: %w", err)
		}
		name := strings.TrimSpace(string(head))
		title = strings.NewReplacer("-", " ", "_", " ").Replace(name[strings.LastIndexAny(name, "/@")+1:])
		body = list.String()
	}
	a.Default("title", title)
	a.Default("body", strings.TrimSpace(body))
	return nil
}

func baseOf(base string) (string, error) {
	names := []string{"main", "master"}
	if base != "" {
		names = []string{base}
	}
	for _, name := range names {
		for _, remote := range []string{"upstream", "origin"} {
			ref := "refs/remotes/" + remote + "/" + name
			if exec.Command("git", "rev-parse", "--verify", "-q", ref).Run() == nil {
				return ref, nil
			}
		}
	}
	return "", errors.New("it cannot be told which commits are new; say --base, or use --title and --body")
}
