package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/wire"
)

// peer is one end of a connection, on the host or, in a copy, inside a sandbox:
//
//	serve NET ADDRESS           answer each connection with what it said, up to its end
//	once NET ADDRESS            the same for one connection, and exit
//	hold NET ADDRESS            accept, and never read or write
//	pour NET ADDRESS N          send N bytes to each connection
//	call NET ADDRESS WORDS      say the words, and print the answer
//	flood NET ADDRESS N         open N connections, hold them until input ends
//	ask REQUEST                 ask the guest agent from inside, and print the answer
//
// or no end of any:
//
//	no-landlock ARG…            coffer, on a kernel without Landlock
func peer(args []string) {
	var err error
	switch args[0] {
	case "serve", "once", "hold", "pour":
		err = peerServe(args[0], args[1], args[2], args[3:])
	case "call":
		err = peerCall(args[1], args[2], args[3])
	case "flood":
		err = peerFlood(args[1], args[2], args[3])
	case "ask":
		err = peerAsk(args[1])
	case "no-landlock":
		err = withoutLandlock(args[1:])
	default:
		err = errors.New("unknown")
	}
	if err != nil {
		die(fmt.Errorf("peer %s: %w", args[0], err))
	}
	os.Exit(0)
}

func peerServe(how, network, address string, more []string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	n := 0
	if len(more) > 0 {
		if n, err = strconv.Atoi(more[0]); err != nil {
			return err
		}
	}
	serve := func(c net.Conn) {
		defer c.Close()
		switch how {
		case "pour":
			io.CopyN(c, endless{}, int64(n))
		case "hold":
			time.Sleep(time.Hour)
		default:
			said, _ := io.ReadAll(c)
			fmt.Fprintf(c, "you said: %s\n", said)
		}
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if how == "once" {
			serve(c)
			return nil
		}
		go serve(c)
	}
}

// endless is zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func peerCall(network, address, words string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, words); err != nil {
		return err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}

func peerFlood(network, address, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for range n {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		defer c.Close()
	}
	fmt.Println("flooded")
	io.Copy(io.Discard, os.Stdin)
	return nil
}

func peerAsk(request string) error {
	c, err := net.Dial("unix", guest.Socket)
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(patience))
	if err := wire.WriteMessage(c, json.RawMessage(request)); err != nil {
		return err
	}
	said, err := io.ReadAll(c)
	if len(said) == 0 && err == nil {
		fmt.Println("hung up on")
		return nil
	}
	fmt.Printf("answered: %q\n", said)
	return err
}
