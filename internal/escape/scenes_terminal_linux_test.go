package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"
)

// onTerminal runs a command on a terminal and returns all that reaches it.
func (s *stage) onTerminal(c *exec.Cmd) string {
	s.t.Helper()
	c.Env = append(c.Env, "TERM=xterm-256color")
	t, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 200})
	must(s.t, err)
	defer t.Close()
	watch := time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
	defer watch.Stop()
	var got bytes.Buffer
	io.Copy(&got, t) // ends with EIO when the last program has closed it
	c.Wait()
	return got.String()
}

// outcomes are those of several probes that printed to one terminal.
func outcomes(text string) (all []outcome) {
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.Index(line, `{"wall"`); i >= 0 {
			var o outcome
			if json.Unmarshal([]byte(strings.TrimSpace(line[i:])), &o) == nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// terminalCalls: reaching through the terminal that the user sits at.
func terminalCalls(s *stage) {
	list := []struct{ n, name, do, free, why string }{
		{"42", "type into the terminal (TIOCSTI)", "tty-ioctl TIOCSTI", "", "this kernel allows it to nobody"},
		{"43", "the same with a bit set above", "tty-ioctl TIOCSTI high", "", "this kernel allows it to nobody"},
		{"44", "reach the console's clipboard (TIOCLINUX)", "tty-ioctl TIOCLINUX", "ENOTTY", ""},
		{"44.ld", "load a line discipline (TIOCSETD)", "tty-ioctl TIOCSETD", "EINVAL EPERM", ""},
	}
	var words []string
	for _, a := range list {
		words = append(append(words, strings.Fields(a.do)...), "--")
	}
	free := outcomes(s.onTerminal(s.bed.Program(s.probe, append([]string{"each"}, words...)...)))
	kept := outcomes(s.onTerminal(s.bed.Command(append([]string{"run", "--", s.probe, "each"}, words...)...)))
	if len(free) != len(list) || len(kept) != len(list) {
		s.t.Fatalf("terminal: %d results outside, %d inside, want %d", len(free), len(kept), len(list))
	}
	for i, a := range list {
		control := free[i].Wall == a.free || met(free[i], a.free)
		held := kept[i].Wall == "EPERM"
		if held && !control && a.why != "" {
			s.r.add(row{n: a.n, name: a.name, control: free[i].String(), inside: kept[i].String(), verdict: uncontrolled, why: a.why})
			continue
		}
		s.r.judge(a.n, a.name, control, free[i].String(), held, kept[i].String())
	}
	// A terminal that coffer has, but did not hand on.
	file := filepath.Join(s.fresh("tty"), "out")
	open := func(prefix string) outcome {
		s.onTerminal(s.bed.Program("/bin/sh", "-c", prefix+` "$0" open-tty </dev/null >"$1" 2>&1`, s.probe, file))
		b, _ := os.ReadFile(file)
		return result{out: string(b)}.probed()
	}
	out, in := open(""), open(s.bed.Coffer+" run --")
	s.r.judge("45", "open /dev/tty without a terminal of one's own", out.Wall == "", out.String(), in.Wall == "ENXIO", in.String())
}

// terminalBytes: what a program prints is read by an interpreter, the terminal.
func terminalBytes(s *stage) {
	list := []struct{ n, name, bytes, evil string }{
		{"46.clip", "write to the clipboard (OSC 52)", "\x1b]52;c;Y2FuYXJ5\x07", "52;c"},
		{"46.read", "read the clipboard", "\x1b]52;c;?\x07", "52;c"},
		{"46.title", "have the title typed back", "\x1b]0;canary\x07\x1b[21t", "\x1b[21t"},
		{"46.link", "link to a file of the host (OSC 8)", "\x1b]8;;file:///etc/passwd\x07x\x1b]8;;\x07", "file:///etc/passwd"},
		{"46.scheme", "link to a program of the host (OSC 8)", "\x1b]8;;vscode://evil/run\x07x\x1b]8;;\x07", "vscode://evil"},
		{"46.cwd", "claim another directory (OSC 7)", "\x1b]7;file://evil/etc\x07", "file://evil"},
		{"46.iterm", "write a file by the terminal (OSC 1337)", "\x1b]1337;File=name=eA==:Y2FuYXJ5\x07", "1337;File"},
		{"46.dcs", "ask for settings (DECRQSS)", "\x1bP$q\"p\x1b\\", "$q\"p"},
		{"46.tmux", "reach through tmux", "\x1bPtmux;\x1b\x1b]52;c;Y2FuYXJ5\x07\x1b\\", "tmux;"},
		{"46.c1", "use 8-bit controls", "\xc2\x9d52;c;Y2FuYXJ5\xc2\x9c", "\xc2\x9d"},
		{"46.apc", "send a program command", "\x1b_canary\x1b\\", "\x1b_canary"},
		{"46.enq", "ask for the answerback", "\x05", "\x05"},
		{"46.print", "print on paper", "\x1b[5icanary\x1b[4i", "\x1b[5i"},
	}
	var all strings.Builder
	for i, a := range list {
		fmt.Fprintf(&all, "<%d>%s</%d>", i, a.bytes, i)
	}
	script := `printf '` + octal(all.String()) + `'`
	free := s.onTerminal(s.bed.Program("/bin/sh", "-c", script))
	kept := s.onTerminal(s.bed.Command("run", "--", "/bin/sh", "-c", script))
	for i, a := range list {
		out, _ := between(free, i)
		in, ok := between(kept, i)
		s.r.judge(a.n, "terminal: "+a.name, strings.Contains(out, a.evil), "arrives", ok && !strings.Contains(in, a.evil), stripped(in, a.evil))
	}
}

// between cuts out what was printed between two marks, if both arrived.
func between(text string, i int) (string, bool) {
	_, text, begun := strings.Cut(text, fmt.Sprintf("<%d>", i))
	text, _, ended := strings.Cut(text, fmt.Sprintf("</%d>", i))
	return text, begun && ended
}

func stripped(got, evil string) string {
	if strings.Contains(got, evil) {
		return "arrives"
	}
	return "stripped"
}

// octal writes bytes for printf.
func octal(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// messages: text of a stranger's within coffer's own messages, and in its logs.
func messages(s *stage) {
	evil := "x\r\n\x1b[2K\x1b]52;c;Y2FuYXJ5\x07hint: type your password"
	free := s.onTerminal(s.bed.Program("/bin/sh", "-c", `printf '`+octal(evil)+`'`))
	kept := s.onTerminal(s.bed.Command("run", "--", evil))
	bad := func(text string) bool {
		return strings.Contains(text, "\x1b]52") || strings.Contains(text, "\x1b[2K") || strings.Contains(text, "\nhint: type")
	}
	s.r.judge("47", "forge a message of coffer's by a command's name", bad(free), "arrives", strings.Contains(kept, "hint: type") && !bad(kept), "escaped")

	dir := s.fresh("logs")
	id := strings.TrimSpace(s.coffer(dir, "run", "--detach", "--name", "logs", "--", "/bin/sh", "-c", `printf '`+octal(evil+"END\n")+`'`).out)
	var text string
	poll(s.t, "the log is written", func() bool {
		text = s.onTerminal(s.bed.Command("logs", id))
		return strings.Contains(text, "END")
	})
	clip := strings.Contains(text, "52;c")
	s.r.judge("113", "print controls into a log that the user looks at", bad(free), "arrives", strings.Contains(text, "END") && !clip, stripped(text, "52;c"))
	list := s.onTerminal(s.bed.Command("list"))
	s.r.judge("113.ls", "print controls into the list of sandboxes", bad(free), "arrives", strings.Contains(list, "logs") && !bad(list), stripped(list, "\x1b]52"))
	s.coffer(dir, "rm", "--force", id)
}
