package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/intercept/middleware"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func policyTest() *cobra.Command {
	var requestFile, responseFile string
	var env []string
	c := &cobra.Command{
		Use:   "test SCRIPT.lua",
		Short: "Run a Lua script on a request, without a network",
		Long: `Run a Lua script on one request and say what it did: whether it lets the request pass,
what it changes in it and in the response, and what it logs. Nothing is sent. The request
is a GET of https://api.example.com/ and the response an empty one, unless files have
others, as HTTP/1.1 writes them. The exit code is 1 if the script denies or fails.`,
		Example: "  coffer policy test token.lua --request request.txt --env TOKEN=abc",
		RunE: func(c *cobra.Command, args []string) error {
			source, err := readText(args[0])
			if err != nil {
				return err
			}
			script, err := middleware.Compile(filepath.Base(args[0]), source)
			if err != nil {
				return err
			}
			script.Env = map[string]string{}
			for _, e := range env {
				name, value, ok := strings.Cut(e, "=")
				if !ok {
					return usagef("--env wants NAME=VALUE")
				}
				script.Env[name] = value
			}
			req, err := readMessage(requestFile, "GET / HTTP/1.1\nHost: api.example.com\n", http.ReadRequest)
			if err == nil && req.Host == "" {
				err = errors.New("it has no Host")
			}
			if err != nil {
				return ui.Hint(fmt.Errorf("read the request in %s: %w", requestFile, err), "it begins as in: GET /v1 HTTP/1.1, and then Host: api.example.com")
			}
			req.URL.Scheme, req.URL.Host, req.RequestURI = "https", req.Host, ""
			resp, err := readMessage(responseFile, "HTTP/1.1 200 OK\n", func(r *bufio.Reader) (*http.Response, error) { return http.ReadResponse(r, req) })
			if err != nil {
				return ui.Hint(fmt.Errorf("read the response in %s: %w", responseFile, err), "it begins as in: HTTP/1.1 200 OK")
			}
			return tryScript(script, req.WithContext(c.Context()), resp)
		},
	}
	c.Flags().StringVar(&requestFile, "request", "", "run it on the request in this `FILE`")
	c.Flags().StringVar(&responseFile, "response", "", "answer with the response in this `FILE`")
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "have the script see `NAME=VALUE` in env")
	return c
}

// maxText bounds the files of a test.
const maxText = 16 << 20

// readText reads a file, which may be one of a stranger's repository.
func readText(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file of at most 16 MB", terminal.Escape(file)))
	}
	return io.ReadAll(io.LimitReader(f, maxText))
}

// readMessage reads a message from a file, whose body is all that follows the head.
func readMessage[M any](file, usual string, read func(*bufio.Reader) (M, error)) (m M, err error) {
	text := []byte(usual)
	if file != "" {
		if text, err = readText(file); err != nil {
			return m, err
		}
	}
	head, body, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n\n")
	head = strings.TrimRight(head, "\n") + "\nContent-Length: " + strconv.Itoa(len(body)) + "\n\n"
	return read(bufio.NewReader(strings.NewReader(head + body)))
}

// tryScript runs a script and prints what it did.
func tryScript(s *middleware.Script, req *http.Request, resp *http.Response) error {
	s.Log = func(line string) { fmt.Fprintln(stdout, "log:", terminal.Escape(line)) }
	asked, err := httputil.DumpRequest(req, true)
	if err != nil {
		return err
	}
	answered, err := httputil.DumpResponse(resp, true)
	if err != nil {
		return err
	}
	got, err := s.Exchange(req, sender(func(r *http.Request) (*http.Response, error) {
		sent, err := httputil.DumpRequest(r, true)
		printChange("request", asked, sent)
		return resp, err
	}))
	var now []byte
	if err == nil {
		now, err = httputil.DumpResponse(got, true)
	}
	var refused *intercept.Refusal
	switch {
	case errors.As(err, &refused) && refused.Status == 0:
		fmt.Fprintf(stdout, "deny: %s\n", terminal.Escape(refused.Reason))
		return status(1)
	case err != nil:
		fmt.Fprintf(stdout, "fail: %s\n", terminal.Escape(err.Error()))
		return status(1)
	}
	printChange("response", answered, now)
	fmt.Fprintln(stdout, "allow")
	return nil
}

type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// printChange prints the lines of a message that went, and those that came.
func printChange(what string, was, is []byte) {
	if bytes.Equal(was, is) {
		fmt.Fprintf(stdout, "%s: unchanged\n", what)
		return
	}
	fmt.Fprintf(stdout, "%s:\n", what)
	before, after := strings.Split(string(was), "\n"), strings.Split(string(is), "\n")
	for _, side := range []struct {
		sign        string
		lines, than []string
	}{{"-", before, after}, {"+", after, before}} {
		for _, line := range side.lines {
			// It is how a response without a length is written.
			if line != "Connection: close\r" && !slices.Contains(side.than, line) {
				fmt.Fprintf(stdout, "  %s %s\n", side.sign, terminal.Escape(strings.TrimRight(line, "\r")))
			}
		}
	}
}
