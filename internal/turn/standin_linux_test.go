package turn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// standIn is an agent: it asks the model, runs what it is told to, and remembers the
// conversation.
//
//	standin [--continue] PROMPT    one turn
//	standin port                   is the port its own?
func standIn(args []string) error {
	if args[0] == "--version" {
		fmt.Println("standin 1.0.0")
		return nil
	}
	if args[0] == "port" {
		return ownPort()
	}
	home := os.Getenv("HOME")
	file := filepath.Join(home, ".standin", "talk.json")
	var talk []map[string]any
	if args[0] == "--continue" {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &talk); err != nil {
			return err
		}
	}
	guide, _ := os.ReadFile(filepath.Join(home, ".standin", "AGENTS.md"))
	client, err := newClient()
	if err != nil {
		return err
	}
	talk = append(talk, map[string]any{"role": "user", "content": args[len(args)-1]})
	for {
		if err := remember(file, talk); err != nil {
			return err
		}
		block, err := ask(client, string(guide), talk)
		if err != nil {
			return err
		}
		talk = append(talk, map[string]any{"role": "assistant", "content": []any{block}})
		if block["type"] != "tool_use" {
			fmt.Println(block["text"])
			return remember(file, talk)
		}
		input, _ := block["input"].(map[string]any)
		command, _ := input["command"].(string)
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		talk = append(talk, map[string]any{"role": "user", "content": []any{map[string]any{
			"type": "tool_result", "tool_use_id": block["id"], "content": string(out),
		}}})
	}
}

func remember(file string, talk any) error {
	data, err := json.Marshal(talk)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file+".new", data, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func newClient() (*http.Client, error) {
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(os.Getenv("STANDIN_CA"))
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: patience}, nil
}

func ask(client *http.Client, system string, talk any) (map[string]any, error) {
	body, err := json.Marshal(map[string]any{
		"model": "m", "system": system, "messages": talk,
		"tools": []any{map[string]any{"name": "bash", "input_schema": map[string]any{"properties": map[string]any{"command": map[string]any{"type": "string"}}}}},
	})
	if err != nil {
		return nil, err
	}
	r, err := client.Post("https://"+host+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct{ Content []map[string]any }
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err == nil && len(answer.Content) != 1 {
		err = fmt.Errorf("the model says %s: %.200q", r.Status, data)
	}
	if err != nil {
		return nil, err
	}
	return answer.Content[0], nil
}

// ownPort listens on a port that all its like listen on, and hears only itself.
func ownPort() error {
	me := os.Getenv("COFFER_SANDBOX")
	l, err := net.Listen("tcp", "127.0.0.1:8123")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, me)
			c.Close()
		}
	}()
	for range 20 {
		c, err := net.Dial("tcp", "127.0.0.1:8123")
		if err != nil {
			return err
		}
		said, err := io.ReadAll(c)
		c.Close()
		if err != nil || string(said) != me {
			return fmt.Errorf("%s hears %q, %v", me, said, err)
		}
	}
	fmt.Println("own port", strings.ToUpper(me))
	return nil
}
