package policy

import (
	"errors"
	"fmt"
	"strings"
)

// schemes are what ParseURL knows. Port 0: the URL must have one.
var schemes = map[string]struct {
	protocol Protocol
	port     uint16
}{
	"http":  {HTTP, 80},
	"ws":    {HTTP, 80},
	"https": {TLS, 443},
	"wss":   {TLS, 443},
	"tls":   {TLS, 0},
	"ssh":   {TCP, 22},
	"git":   {TCP, 9418},
	"tcp":   {TCP, 0},
	"udp":   {UDP, 0},
}

// ParseURL reads a destination as people write it: a URL, host:port, what git calls
// account@host:path, or a host alone or with a path, which means its website.
func ParseURL(s string) (Query, error) {
	q, err := parseURL(s)
	if err != nil {
		return Query{}, fmt.Errorf("destination %s: %w", quote(s), err)
	}
	return q, nil
}

func parseURL(s string) (Query, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		account, far, _ := strings.Cut(s, "@")
		if host, path, _ := strings.Cut(far, ":"); !strings.ContainsAny(account, ":/") && strings.Contains(path, "/") {
			return parseURL("ssh://" + host)
		}
		if strings.Contains(s, "/") {
			return parseURL("https://" + s)
		}
		return parseHostPort(s)
	}
	scheme = strings.ToLower(scheme)
	known, ok := schemes[scheme]
	if !ok {
		return Query{}, errors.New("is a URL of an unknown kind; http, https, ssh, tcp and udp are known")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if strings.Contains(authority, `\`) {
		return Query{}, errors.New("has a backslash, which some programs take for the end of the host")
	}
	// An account, and perhaps its password, is no part of where it leads.
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	q, hasPort, err := splitAuthority(authority)
	if err != nil {
		return Query{}, err
	}
	if !hasPort {
		if q.Port = known.port; q.Port == 0 {
			return Query{}, fmt.Errorf("has no port; write %s://host:port", scheme)
		}
	}
	q.Protocol = known.protocol
	if q.Protocol == HTTP || scheme == "https" || scheme == "wss" {
		q.Method = "GET"
		q.Path, _, _ = strings.Cut(path, "#")
		if !strings.HasPrefix(q.Path, "/") {
			q.Path = "/" + q.Path
		}
	}
	return q, nil
}

// parseHostPort takes the ports of the web for what they are, and others for raw TCP.
func parseHostPort(s string) (Query, error) {
	q, hasPort, err := splitAuthority(s)
	if err != nil {
		return Query{}, err
	}
	switch {
	case !hasPort:
		q.Port, q.Protocol, q.Method, q.Path = 443, TLS, "GET", "/"
	case q.Port == 443:
		q.Protocol, q.Method, q.Path = TLS, "GET", "/"
	case q.Port == 80:
		q.Protocol, q.Method, q.Path = HTTP, "GET", "/"
	default:
		q.Protocol = TCP
	}
	return q, nil
}

func splitAuthority(s string) (q Query, hasPort bool, err error) {
	if s == "" {
		return q, false, errors.New("has no host")
	}
	host, portText, hasPort, err := splitPorts(s)
	if err != nil {
		return q, false, err
	}
	var port uint16
	if hasPort {
		if port, err = parsePort(portText); err != nil {
			return q, false, err
		}
	}
	q, err = NewQuery(host, port)
	return q, hasPort, err
}
