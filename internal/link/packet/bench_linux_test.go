package packet

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/linktest"
	"golang.org/x/sys/unix"
)

// BenchmarkBulk compares a link with direct loopback, in the same run: up and down,
// and connecting until the first byte is back. Through the link means through a relay
// to a server on the loopback interface, as in a gateway.
//
//	go test -run '^$' -bench Bulk -benchtime 1x ./internal/link/packet
func BenchmarkBulk(b *testing.B) {
	uid := linktest.Users()[len(linktest.Users())-1]
	server := serve(b)
	machines := map[string]linktest.Machine{
		"socket": overSocket(b, uid),
		"stream": overStream(b, uid), // with the cost of what stands for QEMU
	}
	compare(b, machines, server)
}

const (
	volume = 1 << 30
	rounds = 3
)

// A dialer makes ready to connect: what it returns does so.
type dialer func() func() (*net.TCPConn, error)

func compare(b *testing.B, machines map[string]linktest.Machine, server string) {
	dialers := map[string]dialer{"direct": func() func() (*net.TCPConn, error) {
		return func() (*net.TCPConn, error) {
			c, err := net.Dial("tcp", server)
			if err != nil {
				return nil, err
			}
			return c.(*net.TCPConn), nil
		}
	}}
	for name, m := range machines {
		go relay(m.Link, server)
		dialers[name] = func() func() (*net.TCPConn, error) {
			d, err := m.Dialer(netip.MustParseAddrPort("192.0.2.7:80"))
			if err != nil {
				b.Fatal(err)
			}
			return d
		}
	}
	names := []string{"direct"}
	for name := range machines {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	for range b.N {
		got, spent := map[string][]float64{}, map[string][]float64{}
		for range rounds { // interleaved: the machine may be busy with other things
			for _, name := range names {
				for _, what := range []string{"up", "down", "first byte"} {
					key := name + " " + what
					before := processorTime()
					got[key] = append(got[key], measure(b, dialers[name], what))
					spent[key] = append(spent[key], processorTime()-before)
				}
			}
		}
		for _, what := range []string{"up", "down", "first byte"} {
			base := median(got["direct "+what])
			for _, name := range names {
				v := median(got[name+" "+what])
				unit := "Gbit/s"
				if what == "first byte" {
					unit = "µs"
				}
				fmt.Printf("%-10s %-10s %8.1f %s  %5.0f %%  %5.2f s of processor time\n", what, name, v, unit, 100*v/base, median(spent[name+" "+what]))
			}
		}
	}
}

// processorTime is less shaken by what else the machine does than time is.
func processorTime() float64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func measure(b *testing.B, ready dialer, what string) float64 {
	if what == "first byte" {
		var took []float64
		for range 200 {
			dial := ready()
			start := time.Now()
			c, err := dial()
			if err != nil {
				b.Fatal(err)
			}
			c.Write([]byte{'e'})
			io.ReadFull(c, make([]byte, 1))
			took = append(took, float64(time.Since(start).Nanoseconds())/1000)
			c.Close()
		}
		return median(took)
	}
	c, err := ready()()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 256<<10)
	start := time.Now()
	if what == "up" {
		c.Write([]byte{'u'})
		for n := 0; n < volume; {
			w, err := c.Write(buf)
			if err != nil {
				b.Fatal(err)
			}
			n += w
		}
	} else {
		c.Write([]byte{'d'})
		for n := 0; n < volume; {
			r, err := c.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			n += r
		}
		c.Write([]byte{0})
		return 8 * volume / time.Since(start).Seconds() / 1e9
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	return 8 * volume / time.Since(start).Seconds() / 1e9
}

// serve is the server: what it does is in the first byte it gets.
func serve(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				what := make([]byte, 1)
				io.ReadFull(c, what)
				buf := make([]byte, 256<<10)
				switch what[0] {
				case 'e':
					c.Write(what)
				case 'u':
					for n := 0; n < volume; {
						r, err := c.Read(buf)
						if err != nil {
							return
						}
						n += r
					}
					c.Write(what)
				case 'd':
					for n := 0; n < volume; n += len(buf) {
						if _, err := c.Write(buf); err != nil {
							return
						}
					}
				}
				io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}

// relay does what a gateway does, without asking anybody.
func relay(l link.Link, server string) {
	for {
		f, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			out, err := net.Dial("tcp", server)
			if err != nil {
				f.Refuse()
				return
			}
			defer out.Close()
			in, err := f.Accept()
			if err != nil {
				return
			}
			defer in.Close()
			var both sync.WaitGroup
			both.Go(func() {
				pour(out, in)
				out.(*net.TCPConn).CloseWrite()
			})
			both.Go(func() {
				pour(in, out)
				in.CloseWrite()
			})
			both.Wait()
		}()
	}
}

var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

func pour(to io.Writer, from io.Reader) {
	b := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(b)
	io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, b[:])
}
