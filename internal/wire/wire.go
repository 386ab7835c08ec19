// Package wire is the language spoken with the guest agent, the first process
// inside a sandbox.
//
// One byte stream carries everything: a Unix socket today, a virtio-serial port
// for a virtual machine. A [Session] divides it into streams with flow control each, by yamux.
// Nothing here assumes that both ends share a kernel: no descriptors are passed.
//
// The first message on every stream is a [Request]. A program is one stream, opened
// with OpExec. What follows is frames: a kind, a length, and bytes of one of the
// program's descriptors, or a message about it.
//
//	client                               server
//	OpExec{argv, env, dir, tty}         →
//	                                    ←  started
//	input, input, Control{Resize}       →
//	                                    ←  output, errors, Event{Credit}
//	                                    ←  exited
//
// A stream opened with OpDial becomes a connection, see [Relay].
//
// Signals travel behind the input, and must not wait until the program reads it. So
// the server never stops reading: the client sends no more input than it has credit
// for, and gets new credit as the program reads. In the other direction nobody needs
// to overtake anybody, and a slow reader holds up the program as a pipe would.
//
// The supervisor speaks the same language to the commands of its user, and the agent
// to programs inside: there a stream is simply a connection to a Unix socket, which
// is simpler than a multiplexed one. A client cannot tell (and need not know) which
// of them it talks to.
//
// Both ends treat what they read as a stranger's: sizes are bounded before anything is allocated.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// The operations a stream can be opened with.
const (
	OpExec   = "exec"   // run a program
	OpStop   = "stop"   // end the sandbox
	OpAttach = "attach" // supervisor only: join a program that was kept
	OpStatus = "status" // supervisor only: who you are and what runs
	OpPolicy = "policy" // supervisor only: see and change what the network allows
	OpWatch  = "watch"  // supervisor only: hear what the user should know, as it happens

	OpDial       = "dial"       // connect this stream with something at the other end
	OpListen     = "listen"     // guest only: offer a socket inside that leads to the host
	OpPorts      = "ports"      // guest only: which ports are listened on
	OpForward    = "forward"    // supervisor only: change which ports of the host lead inside
	OpSync       = "sync"       // supervisor only: bring commits over, both ways
	OpUndo       = "undo"       // supervisor only: take and restore checkpoints
	OpMasks      = "masks"      // the guest hides files; the supervisor lists what is hidden
	OpBackground = "background" // guest only: which programs go on though their command has ended
)

// Urgent begins a notice that is shown though a program has the whole screen: nothing else is
// going to happen there.
const Urgent = "\a"

// NotThere is what a guest says of a place to hide that is not there.
const NotThere = "not there"

// Limits on one message, in bytes.
const (
	// MaxRequest leaves room for the longest argument list that Linux takes, 6 MiB, in base64.
	MaxRequest = 12 << 20
	// MaxReply bounds what comes out of a sandbox.
	MaxReply = 64 << 10
	// MaxList bounds what a supervisor answers to its own user's commands.
	MaxList = 4 << 20
)

// A Request is the first message on every stream.
type Request struct {
	Op   string `json:"op"`
	Exec *Exec  `json:"exec,omitempty"`
	Stop *Stop  `json:"stop,omitempty"`
	// Attach is the size of the terminal that joins.
	Attach *Size `json:"attach,omitempty"`
	// Policy is what OpPolicy is about, in the words of package supervisor.
	Policy json.RawMessage `json:"policy,omitempty"`

	// Undo is what OpUndo is about, in the words of package supervisor.
	Undo json.RawMessage `json:"undo,omitempty"`

	Sync    *Sync       `json:"sync,omitempty"`
	Dial    *Target     `json:"dial,omitempty"`
	Listen  *Target     `json:"listen,omitempty"`
	Ports   *Survey     `json:"ports,omitempty"`
	Watch   *Watch      `json:"watch,omitempty"`
	Forward *Forwarding `json:"forward,omitempty"`
	// Hide are the places inside that OpMasks hides: paths as bytes, as the kernel has them.
	Hide [][]byte `json:"hide,omitempty"`
}

// ReadRequest receives a request.
func ReadRequest(r io.Reader) (req Request, err error) {
	err = ReadMessage(r, MaxRequest, &req)
	return req, err
}

// Passes says whether this asks for a program that lives as long as its client.
func (r Request) Passes() bool {
	return r.Op == OpExec && r.Exec != nil && !r.Exec.Log && !r.Exec.Keep
}

// UsualUmask is the umask of a program that nobody says anything else of.
const UsualUmask = 0o022

// An Exec asks for a program. Arguments and environment are bytes, as the kernel
// has them: JSON strings would change what is not UTF-8.
type Exec struct {
	Argv [][]byte `json:"argv"`
	Env  [][]byte `json:"env"`
	Dir  string   `json:"dir"`
	Root bool     `json:"root,omitempty"` // as root of the sandbox
	TTY  *Size    `json:"tty,omitempty"`  // on a terminal of this size
	// Umask is the permissions that files are made without; nil for [UsualUmask].
	Umask *uint16 `json:"umask,omitempty"`
	// Apart asks for errors on a pipe beside the terminal: the user has sent them
	// somewhere else.
	Apart bool `json:"apart,omitempty"`
	// NoInput says that there is none, now or later.
	NoInput bool `json:"no_input,omitempty"`
	// Merged asks for one pipe for output and errors, so that they stay in order.
	Merged bool `json:"merged,omitempty"`
	// Log asks the supervisor to keep the output in the sandbox's log instead of
	// sending it, and the exec to outlive the client.
	Log bool `json:"log,omitempty"`
	// Keep asks the supervisor to let the program, and its terminal, outlive the client:
	// others can attach to it. With Log, the client leaves at once.
	Keep bool `json:"keep,omitempty"`
}

// Sync says what OpSync is to bring over, if not all that is on branches.
type Sync struct {
	Commit string `json:"commit"` // this one
	// Repository is the folder of the bridge that it is about.
	Repository string `json:"repository"`
}

// Watch asks for the lines that a supervisor has for the user since a time.
type Watch struct {
	Since time.Time `json:"since"`
}

// Stop asks for the end of the sandbox, at the latest after Grace.
type Stop struct {
	Grace time.Duration `json:"grace"`
}

// Size is a terminal's size.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Control is what a client says about a running exec.
type Control struct {
	Resize *Size          `json:"resize,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
	EOF    bool           `json:"eof,omitempty"`  // there is no more input
	Deaf   int            `json:"deaf,omitempty"` // nobody reads this descriptor any more
}

// An Event is what a server says about an exec. Exactly one field is set.
type Event struct {
	Credit int `json:"credit,omitempty"` // so many more bytes of input may come
	// Stopped says that a program on a terminal has stopped. It goes on when the client
	// sends it SIGCONT.
	Stopped bool `json:"stopped,omitempty"`
	// Connected answers OpDial and OpListen.
	Connected bool     `json:"connected,omitempty"`
	Failure   *Failure `json:"failure,omitempty"`
	Status    *Status  `json:"status,omitempty"`
	// Policy answers OpPolicy.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Notice is one line for the user's terminal, in answer to OpWatch.
	Notice string  `json:"notice,omitempty"`
	Ports  *Ports  `json:"ports,omitempty"`
	Synced *Synced `json:"synced,omitempty"`
	// Undone answers OpUndo.
	Undone json.RawMessage `json:"undone,omitempty"`
	// Masks answers OpMasks: what went wrong, place by place, or what is hidden, in the
	// words of package supervisor.
	Masks json.RawMessage `json:"masks,omitempty"`
	// Background answers OpBackground.
	Background *Background `json:"background,omitempty"`
}

// Background are programs that go on though the command that started them has ended. What daemons have
// started is not among them.
type Background struct {
	Count int `json:"count"`
	// Names are what the kernel calls them, of the first few.
	Names []string `json:"names,omitempty"`
}

// MaxNames bounds the names in a Background.
const MaxNames = 8

// Synced answers OpSync: what the user should know, and what went wrong.
type Synced struct {
	Notes []string `json:"notes,omitempty"`
	Error string   `json:"error,omitempty"`
	Hint  string   `json:"hint,omitempty"`
}

// Exit says how the program ended.
type Exit struct {
	Code   int
	Signal syscall.Signal
	// Refused are ports of localhost inside that nobody listened at; see the link.
	Refused []uint16
}

// Status is the exit status a shell would show.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Status describes a running sandbox.
type Status struct {
	PID   int       `json:"pid"` // of the supervisor
	Since time.Time `json:"since"`
	Execs int       `json:"execs"`
	// Programs are those of them that can be attached to, as they were started. The last one is.
	Programs []string `json:"programs,omitempty"`
	// Silent is how long the last of them has printed nothing.
	Silent time.Duration `json:"silent_ns,omitempty"`
	Ports  *Ports        `json:"ports,omitempty"` // if they were asked for
	// Background are programs that no command waits for.
	Background Background `json:"background"`
	// Daemons are how the sandbox's daemons are.
	Daemons []Daemon `json:"daemons,omitempty"`
	// Frozen says why the sandbox is frozen, in a sentence.
	Frozen string `json:"frozen,omitempty"`
}

// A Daemon says how one is.
type Daemon struct {
	Name     string `json:"name"`
	State    string `json:"state"` // in a few words
	Restarts int    `json:"restarts,omitempty"`
	Last     string `json:"last,omitempty"` // how it ended last
}

// A Failure says why a program could not be started. Code is what a shell would
// exit with: 127 not found, 126 not executable, 125 ours.
type Failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do about it; from a supervisor only
}

func (f *Failure) Error() string { return f.Message }

// ErrMessage is wrapped by every error about a message that breaks the rules.
var ErrMessage = errors.New("malformed message")

// WriteMessage sends v.
func WriteMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > MaxRequest {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrMessage, len(body), MaxRequest)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// ReadMessage receives v, refusing more than limit bytes.
func ReadMessage(r io.Reader, limit int, v any) error {
	body, err := readBody(r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return nil
}

// readBody receives a body. A long one is read as it comes, so a length that lies costs
// the liar its own bytes, not our memory.
func readBody(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMessage, n, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}
