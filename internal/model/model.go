package model

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A Server is the model.
type Server struct {
	// Before, if set, is called before every answer.
	Before func()

	mu    sync.Mutex
	asked []Question
}

// A Question is a request that was made.
type Question struct {
	Host, Path string
	Body       string
}

// Asked are the questions so far.
func (s *Server) Asked() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Question(nil), s.asked...)
}

// Told says whether a text was in a question that has another one in it.
func (s *Server) Told(about, text string) bool {
	for _, q := range s.Asked() {
		if strings.Contains(q.Body, quoted(about)) && strings.Contains(q.Body, quoted(text)) {
			return true
		}
	}
	return false
}

// quoted is a text as it stands in JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

// ServeHTTP answers by what the path looks like. Paths are those of the services, whatever
// comes before them.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, Question{r.Host, r.URL.Path, string(body)})
	s.mu.Unlock()
	var speak func(*talk, []byte) error
	t := &talk{w: w}
	switch path := r.URL.Path; {
	case r.Method != http.MethodPost:
	case strings.HasSuffix(path, "/messages"):
		speak = (*talk).anthropic
	case strings.HasSuffix(path, "/responses"):
		speak = (*talk).responses
	case strings.HasSuffix(path, "/chat/completions"):
		speak = (*talk).completions
	case strings.HasSuffix(path, ":streamGenerateContent"):
		t.stream = true
		speak = (*talk).gemini
	case strings.HasSuffix(path, ":generateContent"):
		speak = (*talk).gemini
	case strings.HasSuffix(path, "/count_tokens"), strings.HasSuffix(path, ":countTokens"):
		writeJSON(w, map[string]any{"input_tokens": 10, "totalTokens": 10})
		return
	}
	if s.Before != nil {
		s.Before()
	}
	if speak == nil {
		http.Error(w, `{"error":{"type":"not_found_error","message":"not found"}}`, http.StatusNotFound)
		return
	}
	if err := speak(t, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// A talk is one question and its answer.
type talk struct {
	w      http.ResponseWriter
	stream bool
}

// conversation is what matters of one, whatever the protocol.
type conversation struct {
	prompt  string   // the last one with something to run
	results []string // of what was run since
}

// user takes what the user said.
func (c *conversation) user(text string) {
	if strings.Contains(text, "RUN: ") {
		c.prompt, c.results = text, nil
	}
}

func (c *conversation) result(text string) { c.results = append(c.results, text) }

// next is what to run, or what to say.
func (c *conversation) next() (run, say string) {
	if c.prompt == "" {
		return "", "OK"
	}
	n := 0
	for line := range strings.Lines(c.prompt) {
		_, command, ok := strings.Cut(strings.TrimRight(line, "\n"), "RUN: ")
		if !ok {
			continue
		}
		if n == len(c.results) {
			return command, ""
		}
		n++
	}
	last := ""
	if len(c.results) > 0 {
		last = strings.TrimSpace(c.results[len(c.results)-1])
		last = last[max(0, len(last)-200):]
	}
	return "", "DONE " + last
}

// shell finds the tool that runs commands, and the name of its argument.
func shell(names []string, schema func(name string) map[string]any) (tool string, args func(command string) map[string]any) {
	for _, want := range []string{"bash", "shell", "exec_command", "run_shell_command", "shell_command", "local_shell"} {
		for _, name := range names {
			if !strings.EqualFold(name, want) {
				continue
			}
			properties, _ := schema(name)["properties"].(map[string]any)
			return name, func(command string) map[string]any {
				if _, ok := properties["cmd"]; ok {
					return map[string]any{"cmd": command}
				}
				if p, ok := properties["command"].(map[string]any); ok && p["type"] == "array" {
					return map[string]any{"command": []string{"sh", "-c", command}}
				}
				all := map[string]any{"command": command}
				if _, ok := properties["description"]; ok {
					all["description"] = "do what the user said"
				}
				return all
			}
		}
	}
	return "", nil
}

// id is new every time, also for an agent that was started again.
func id(prefix string) string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return fmt.Sprintf("%s%x", prefix, b)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// event writes a part of a stream.
func (t *talk) event(name string, v any) {
	h := t.w.Header()
	h.Set("Content-Type", "text/event-stream")
	if name != "" {
		fmt.Fprintf(t.w, "event: %s\n", name)
	}
	text, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v)
		text = string(b)
	}
	fmt.Fprintf(t.w, "data: %s\n\n", text)
	if f, ok := t.w.(http.Flusher); ok {
		f.Flush()
	}
}

type object = map[string]any

// text is what a value says: a text, or a list of parts with texts.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, part := range v {
			b.WriteString(text(part))
		}
		return b.String()
	case object:
		for _, name := range []string{"text", "content", "output"} {
			if s := text(v[name]); s != "" {
				return s
			}
		}
	}
	return ""
}

func list(v any) []any { l, _ := v.([]any); return l }

func field(v any, name string) any { o, _ := v.(object); return o[name] }

func word(v any, name string) string { s, _ := field(v, name).(string); return s }
