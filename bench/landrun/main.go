// Landrun-standin stands in for landrun in the benchmark where landrun itself cannot be
// installed. It is written for that and has none of landrun's code: a Go program that uses
// the same two libraries, urfave/cli and go-landlock, takes flags of the same meaning,
// makes rules from them and becomes the program. What such a program costs is mostly the
// start of a Go program with these libraries, so its times are close to landrun's, but
// they are not landrun's, and the benchmark says whose they are.
//
// It is a module of its own, so that coffer does not depend on what it needs.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/urfave/cli/v2"
)

func main() {
	app := &cli.App{
		Name: "landrun-standin", Usage: "Run a command under Landlock", Version: "stand-in, not landrun itself",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "log-level", Value: "error", EnvVars: []string{"LANDRUN_LOG_LEVEL"}},
			&cli.StringSliceFlag{Name: "ro"}, &cli.StringSliceFlag{Name: "rox"},
			&cli.StringSliceFlag{Name: "rw"}, &cli.StringSliceFlag{Name: "rwx"},
			&cli.IntSliceFlag{Name: "bind-tcp"}, &cli.IntSliceFlag{Name: "connect-tcp"},
			&cli.BoolFlag{Name: "best-effort"}, &cli.StringSliceFlag{Name: "env"},
			&cli.BoolFlag{Name: "unrestricted-filesystem"}, &cli.BoolFlag{Name: "unrestricted-network"},
			&cli.BoolFlag{Name: "ldd"}, &cli.BoolFlag{Name: "add-exec"},
		},
		Action: run,
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(c *cli.Context) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return fmt.Errorf("missing command")
	}
	binary, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	var env []string
	for _, e := range c.StringSlice("env") {
		if strings.Contains(e, "=") {
			env = append(env, e)
		} else if v, ok := os.LookupEnv(e); ok {
			env = append(env, e+"="+v)
		}
	}
	const read = llsys.AccessFSReadFile | llsys.AccessFSReadDir
	const write = llsys.AccessFSWriteFile | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile | llsys.AccessFSMakeChar | llsys.AccessFSMakeDir | llsys.AccessFSMakeReg | llsys.AccessFSMakeSock | llsys.AccessFSMakeFifo | llsys.AccessFSMakeBlock | llsys.AccessFSMakeSym | llsys.AccessFSTruncate | llsys.AccessFSRefer | llsys.AccessFSIoctlDev
	var rules []landlock.Rule
	add := func(flag string, rights landlock.AccessFSSet) {
		for _, p := range c.StringSlice(flag) {
			if info, err := os.Stat(p); err == nil && !info.IsDir() {
				rights &= llsys.AccessFSReadFile | llsys.AccessFSWriteFile | llsys.AccessFSExecute | llsys.AccessFSTruncate | llsys.AccessFSIoctlDev
			}
			rules = append(rules, landlock.PathAccess(rights, p))
		}
	}
	add("rox", read|llsys.AccessFSExecute)
	add("rwx", read|write|llsys.AccessFSExecute)
	add("ro", read)
	add("rw", read|write)
	var ports []landlock.Rule
	for _, p := range c.IntSlice("bind-tcp") {
		ports = append(ports, landlock.BindTCP(uint16(p)))
	}
	for _, p := range c.IntSlice("connect-tcp") {
		ports = append(ports, landlock.ConnectTCP(uint16(p)))
	}
	cfg := landlock.V5
	if c.Bool("best-effort") {
		cfg = cfg.BestEffort()
	}
	if err := cfg.RestrictPaths(rules...); err != nil {
		return err
	}
	if err := cfg.RestrictNet(ports...); err != nil {
		return err
	}
	return syscall.Exec(binary, args, env)
}
