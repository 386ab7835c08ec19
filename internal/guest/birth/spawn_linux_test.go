package birth

import (
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// Agents are started one after another while this process uses its memory, which they have
// in common for a moment: what is here stays as it is, and each of them comes to life.
func TestStartBesideWork(t *testing.T) {
	if os.Getuid() != 0 && Whoever().Helper {
		t.Skip("their ids would have to be written by a helper")
	}
	testbed.Namespaces(t, namespaces)
	stop := make(chan struct{})
	worked := make(chan bool)
	go func() {
		sound := true
		for {
			select {
			case <-stop:
				worked <- sound
				return
			default:
			}
			list := make([]int, 10000)
			for i := range list {
				list[i] = i
			}
			runtime.Gosched()
			for i, n := range list {
				sound = sound && i == n
			}
			runtime.GC()
		}
	}()
	for range 20 {
		p, err := Start(false)
		if err != nil {
			close(stop)
			<-worked
			t.Fatal(err)
		}
		// TestMain is in the place of an agent, and says so.
		said := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, p.Said)
			said <- n
		}()
		select {
		case n := <-said:
			if n == 0 && p.Err() != nil {
				t.Error(p.Err())
			} else if n == 0 {
				t.Error("it said nothing")
			}
		case <-time.After(time.Minute):
			t.Error("it does not end")
		}
		p.end()
	}
	close(stop)
	if !<-worked {
		t.Error("somebody wrote to our memory")
	}
}
