package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/spf13/cobra"
)

// upstreamCommand is git's upload-pack for the remote upstream inside: it relays the host's notices, then the refs.
func upstreamCommand() *cobra.Command {
	return &cobra.Command{
		Use: git.UpstreamCommand + " PATH", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := passUpstream(args[0], os.Stdin, os.Stdout, os.Stderr); err != nil {
				git.RefuseFetch(os.Stdout, err) // git says it
				// But not if it is ended by what it still has to say, which nobody reads.
				_, _ = io.Copy(io.Discard, os.Stdin)
				return status(1)
			}
			return nil
		},
	}
}

// errNotFetched comes after the words that say why.
var errNotFetched = errors.New("the host did not fetch")

func passUpstream(path string, in io.Reader, out, words io.Writer) error {
	client := http.Client{Transport: &http.Transport{}} // by no proxy
	answer, err := client.Get("http://" + link.AboutName + path + "/refs")
	if err != nil {
		return errors.New("the user's machine cannot be asked: this sandbox has no network, or it has just ended")
	}
	defer answer.Body.Close()
	body := bufio.NewReader(answer.Body)
	for {
		line, err := body.ReadString('\n')
		if line == "\n" && answer.StatusCode == http.StatusOK {
			break // what follows is for git
		}
		if line != "" {
			fmt.Fprintln(words, "remote:", strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return errNotFetched
		}
	}
	if _, err := io.Copy(out, body); err != nil {
		return errNotFetched
	}
	var first [4]byte
	if _, err := io.ReadFull(in, first[:]); err != nil || string(first[:]) == "0000" {
		return nil // git has all it wants
	}
	return git.ErrNoObjects
}
