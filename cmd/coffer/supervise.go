package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/spf13/cobra"
)

// superviseCommand is the supervisor process: descriptor 3 is the sandbox's lock, 4 where it reports that it is ready.
func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    supervisor.Command + " ID",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ready := os.NewFile(4, "ready")
			syscall.CloseOnExec(4)
			err := supervise(args[0], ready)
			if err != nil {
				supervisor.Tell(ready, err)
			}
			return err
		},
	}
}

func supervise(id string, ready *os.File) error {
	store, err := peekStore()
	if err != nil {
		return err
	}
	sb, err := store.Get(id)
	if err != nil {
		return err
	}
	lock, err := sb.Adopt(os.NewFile(3, "lock"))
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := holdToFloor(sb); err != nil {
		return err
	}
	// Terminals that close do not matter to it. Caught, not ignored: that would be inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	super, err := supervisor.Start(context.Background(), defaultEngine(), sb)
	if err != nil {
		return err
	}
	defer super.Close()
	socket, err := super.Listen()
	if err != nil {
		return err
	}
	defer socket.Close()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		super.Stop(0, "the supervisor was told to end")
	}()
	supervisor.Tell(ready, nil)
	super.LookBack(historyPlace(sb))
	super.Run()
	if why := super.Why(); why != "" {
		fmt.Fprintln(os.Stderr, why)
	}
	return nil
}
