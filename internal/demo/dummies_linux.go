package demo

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A bystander is a process of the user's.
type bystander struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startBystander starts a process with a secret in its environment. It ends with us, because we hold its
// standard input.
func startBystander(program, secret string) (*bystander, error) {
	b := &bystander{cmd: exec.Command(program, "demo", ActCommand, roleBystander)}
	b.cmd.Env = []string{secret}
	// Ctrl-C is for us; what it is told is told by us.
	b.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if !b.lives() {
		b.end()
		return nil, fmt.Errorf("the demo's own process does not answer")
	}
	return b, nil
}

// lives asks it. A killed process does not answer.
func (b *bystander) lives() bool {
	if _, err := fmt.Fprintln(b.in, "are you there"); err != nil {
		return false
	}
	answer, err := b.out.ReadString('\n')
	return err == nil && answer == "are you there\n"
}

func (b *bystander) end() {
	b.in.Close()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// A door is a socket that records a visit with the right word.
type door struct {
	listener net.Listener
	serving  sync.WaitGroup
	opened   atomic.Bool
}

func openDoor(network, address, word string) (*door, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	d := &door{listener: l}
	d.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.answer(c, word)
		}
	})
	return d, nil
}

// answer records the visit before it answers it.
func (d *door) answer(c net.Conn, word string) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(knockTime))
	said, err := bufio.NewReader(io.LimitReader(c, 1024)).ReadString('\n')
	if err == nil && strings.TrimSpace(said) == word {
		d.opened.Store(true)
		fmt.Fprintln(c, "come in")
	}
}

func (d *door) address() string { return d.listener.Addr().String() }

func (d *door) port() int { return d.listener.Addr().(*net.TCPAddr).Port }

func (d *door) close() {
	d.listener.Close()
	d.serving.Wait()
}
