package supervisor

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// ends is a machine that is killed once.
type ends struct {
	engine.Instance
	once sync.Once
	done chan struct{}
}

func (e *ends) Kill()                 { e.once.Do(func() { close(e.done) }) }
func (e *ends) Done() <-chan struct{} { return e.done }

// order is what a guest was asked for, in turn.
type order struct {
	mu    sync.Mutex
	words []string
}

func (o *order) add(word string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.words = append(o.words, word)
}

func (o *order) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.words...)
}

// obey is a guest that notes when it has taken a program, and when it is to stop: then the
// machine ends. Before it takes a program it waits for the test.
func obey(guest *wire.Session, machine *ends, o *order, take <-chan struct{}) {
	for {
		stream, err := guest.Accept()
		if err != nil {
			return
		}
		go func() {
			defer wire.HangUp(stream)
			switch r, err := wire.ReadRequest(stream); {
			case err != nil:
			case r.Op == wire.OpStop:
				o.add("stop")
				machine.Kill()
			case r.Op == wire.OpExec:
				<-take
				o.add("taken")
				out := wire.NewFrameWriter(stream)
				_, _, _ = out.Taken(), out.Started(), out.Exited(wire.Exit{})
			}
		}()
	}
}

// openLine is a stream that is open already.
type openLine struct{ net.Conn }

func (o openLine) Open() (io.ReadWriteCloser, error) { return o.Conn, nil }

// runs asks a supervisor for a program, as a command does, and says whether it ran.
func (s *Supervisor) runs(t *testing.T, e wire.Exec) bool {
	near, far := net.Pipe()
	defer near.Close()
	near.SetDeadline(time.Now().Add(patience))
	go func() {
		defer far.Close()
		s.serve(far)
	}()
	p, err := wire.Start(openLine{near}, e)
	if err != nil {
		t.Error(err)
		return false
	}
	if p.WaitStart() != nil {
		return false
	}
	if !e.Log {
		_, _ = p.Wait(nil, nil)
	}
	return true
}

// A program is taken before the guest is told to stop, or not at all.
func TestNoProgramBehindTheEnd(t *testing.T) {
	program := wire.Exec{Argv: [][]byte{[]byte("true")}}
	detached, kept := program, program
	detached.Log = true
	kept.Log, kept.Keep = true, true
	for range 50 {
		s, guest := testSupervisor(t, sandbox.Record{})
		machine, o, take := &ends{done: make(chan struct{})}, &order{}, make(chan struct{})
		close(take)
		s.instance = machine
		go obey(guest, machine, o, take)
		var all sync.WaitGroup
		for _, e := range []wire.Exec{program, detached, kept, program, detached, kept} {
			all.Go(func() { s.runs(t, e) })
		}
		all.Go(func() { s.Stop(time.Minute, "the test") })
		all.Wait()
		for i, word := range o.all() {
			if word == "stop" && i != len(o.all())-1 {
				t.Fatalf("behind the end: %q", o.all())
			}
		}
		if s.runs(t, program) || s.runs(t, detached) || s.runs(t, kept) {
			t.Fatal("a program ran after the end")
		}
	}
}

// What was let in is waited for, and what comes meanwhile is not let in.
func TestEndWaitsForAProgram(t *testing.T) {
	s, guest := testSupervisor(t, sandbox.Record{})
	machine, o, take := &ends{done: make(chan struct{})}, &order{}, make(chan struct{})
	s.instance = machine
	go obey(guest, machine, o, take)
	ran, stopped := make(chan bool), make(chan struct{})
	program := wire.Exec{Argv: [][]byte{[]byte("true")}}
	go func() { ran <- s.runs(t, program) }()
	eventually(t, "it is let in", func() bool {
		s.activity.mu.Lock()
		defer s.activity.mu.Unlock()
		return s.activity.starting == 1
	})
	go func() { s.Stop(patience, "the test"); close(stopped) }()
	eventually(t, "it is about to end", s.activity.isEnding)
	if s.runs(t, program) {
		t.Error("a program was let in")
	}
	close(take)
	if !<-ran {
		t.Error("a program that was let in did not run")
	}
	<-stopped
	if got := o.all(); len(got) != 2 || got[0] != "taken" || got[1] != "stop" {
		t.Errorf("the guest heard %q", got)
	}
}

// An idle time that is over and a program that comes at that moment exclude each other.
func TestNobodyEntersAtRest(t *testing.T) {
	entered, refused := 0, 0
	for range 500 {
		a := newActivity(50 * time.Microsecond)
		a.used = true
		a.start()
		time.Sleep(50 * time.Microsecond)
		if !a.enter() {
			refused++
			<-a.rested
			continue
		}
		entered++
		select {
		case <-a.rested:
			t.Fatal("it came to rest with a program in it")
		default:
		}
	}
	t.Logf("%d entered, %d came too late", entered, refused)
}

// A program that has entered, and is being prepared for when the end is decided, is not
// handed to the guest.
func TestEndOvertakesAProgram(t *testing.T) {
	s, guest := testSupervisor(t, sandbox.Record{})
	machine, o, take := &ends{done: make(chan struct{})}, &order{}, make(chan struct{})
	close(take)
	go obey(guest, machine, o, take)
	program := wire.Exec{Argv: [][]byte{[]byte("true")}}
	if c := s.hand(wire.Request{Op: wire.OpExec, Exec: &program}); c == nil {
		t.Fatal("the guest takes nothing")
	} else {
		c.Close()
	}
	if !s.activity.enter() {
		t.Fatal("nobody is let in")
	}
	defer s.activity.leave()
	s.activity.end()
	if s.hand(wire.Request{Op: wire.OpExec, Exec: &program}) != nil {
		t.Error("it was handed over")
	}
	if _, _, err := s.launch(program); !errors.Is(err, errEnding) {
		t.Errorf("detached: %v", err)
	}
	if got := o.all(); len(got) != 1 {
		t.Errorf("the guest took %q", got)
	}
}
