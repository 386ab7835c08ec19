package audit

import (
	"net/netip"
	"path/filepath"
	"time"
)

// Dir is where the log of the sandbox with this folder is.
func Dir(folder string) string { return filepath.Join(folder, "audit") }

// The kinds of events.
const (
	KindStart  = "start"  // the sandbox started
	KindStop   = "stop"   // the sandbox stopped
	KindFlow   = "flow"   // a connection was refused, or was allowed and has ended
	KindDNS    = "dns"    // a name was refused, or records of it were looked up outside
	KindExec   = "exec"   // a program was run
	KindPolicy = "policy" // the rules changed, or a question was answered
	KindLimit  = "limit"  // a budget or another limit was hit
	KindPort   = "port"   // a port was forwarded, or is so no longer
	KindGit    = "git"    // the host pushed, fetched or ran gh for the sandbox, or would not

	// What the log writes about itself. A caller cannot add these.
	KindRotated   = "rotated"   // first line of a file but the first: Count events came before
	KindRecovered = "recovered" // the writer before this one did not close the log
)

// Kinds is all of them.
func Kinds() []string {
	return []string{KindStart, KindStop, KindFlow, KindDNS, KindExec, KindPolicy, KindLimit, KindPort, KindGit,
		KindRotated, KindRecovered}
}

// kindOther is what an event gets whose kind is not one word of lower case letters.
const kindOther = "other"

// Event is one thing that happened. Kind is needed; everything else is optional and
// left out of the line when it is zero.
type Event struct {
	Time     time.Time     `json:"time"` // when it began; zero: the time of Add
	Kind     string        `json:"kind"`
	Host     string        `json:"host,omitempty"`
	Addr     netip.Addr    `json:"addr,omitzero"`
	Port     uint16        `json:"port,omitempty"`
	Protocol string        `json:"protocol,omitempty"`
	Verdict  string        `json:"verdict,omitempty"` // "allow", "deny" or "ask"
	Rule     string        `json:"rule,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Sent     int64         `json:"sent,omitempty"`     // bytes that left the sandbox
	Received int64         `json:"received,omitempty"` // bytes that came into it
	Duration time.Duration `json:"duration,omitempty"` // in nanoseconds
	Close    string        `json:"close,omitempty"`    // why a flow ended
	Method   string        `json:"method,omitempty"`
	Path     string        `json:"path,omitempty"`
	Command  []string      `json:"command,omitempty"`
	Exit     *int          `json:"exit,omitempty"`
	User     string        `json:"user,omitempty"`
	Detail   string        `json:"detail,omitempty"`

	// Count is how many events this one stands for, when it is not one. In a flood,
	// Sent and Received are then sums, and Duration is from the first to the last.
	Count int64 `json:"count,omitempty"`
}

// Record is an event as it stands in the log.
type Record struct {
	Seq uint64 `json:"seq"`
	Event
	Prev string `json:"prev"`
	Hash string `json:"hash"`

	line []byte
}

// Line is the record's line in the file, without its end. It is valid until the function
// that got the record returns.
func (r *Record) Line() []byte { return r.line }
