package config

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A compose file's services run on this machine, beside sandboxes. The ports that they are
// reached by are proposed for host_ports. The file is YAML, of which only lines that are
// surely about ports are read: what is missed is not proposed.

// mostPorts is how many are worth proposing.
const mostPorts = 20

// composePorts finds the ports of this machine that a compose file publishes.
func composePorts(root, name string) []uint16 {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil
	}
	defer r.Close()
	f, err := r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, _ := io.ReadAll(io.LimitReader(f, maxFile))
	return publishedPorts(string(data))
}

// publishedPorts reads "ports:" with a list on the same line or on the lines below it, in the
// short form ("8080:80") and the long one (published: 8080).
func publishedPorts(text string) (ports []uint16) {
	add := func(p uint16) {
		if p > 0 && len(ports) < mostPorts && !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	inside, depth := false, 0
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		word := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		if rest, ok := strings.CutPrefix(word, "ports:"); ok {
			inside, depth = true, indent
			for item := range strings.SplitSeq(strings.Trim(strings.TrimSpace(rest), "[]"), ",") {
				add(hostPort(item))
			}
			continue
		}
		if inside = inside && (indent > depth || indent == depth && strings.HasPrefix(word, "-")); !inside {
			continue
		}
		item := strings.TrimSpace(strings.TrimPrefix(word, "-"))
		if published, ok := strings.CutPrefix(item, "published:"); ok {
			n, _ := strconv.ParseUint(strings.Trim(published, " \"'"), 10, 16)
			add(uint16(n))
		} else if strings.HasPrefix(word, "-") {
			add(hostPort(item))
		}
	}
	return ports
}

// hostPort is the port of this machine in "8080:80", "127.0.0.1:8080:80/tcp" and the like, 0 if
// there is none, or if it is not known.
func hostPort(item string) uint16 {
	item = strings.Trim(item, " \"'")
	if item, tcp := strings.CutSuffix(item, "/tcp"); !tcp && strings.Contains(item, "/") {
		return 0
	}
	parts := strings.Split(strings.TrimSuffix(item, "/tcp"), ":")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.ParseUint(parts[len(parts)-2], 10, 16)
	if _, inner := strconv.ParseUint(parts[len(parts)-1], 10, 16); err != nil || inner != nil {
		return 0
	}
	return uint16(n)
}
