package main

import (
	"fmt"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
)

func engines() []engine.Engine { return []engine.Engine{engine.Container{}} }

func defaultEngine() engine.Engine { return engine.Container{} }

// jailReport says whether a jail can be had, which a run takes where no engine works.
func jailReport() engine.Report {
	c := engine.Check{What: "Landlock, its wall", Needed: true, OK: true}
	if version := confine.LandlockABI(); version > 0 {
		c.Detail = fmt.Sprintf("version %d; see 'coffer jail --explain' for all of it", version)
	} else {
		c.OK, c.Detail, c.Fix = false, "this kernel has none", "boot a kernel from 5.13 on with 'landlock' in the lsm= list"
	}
	r := engine.Report{Usable: c.OK, Checks: []engine.Check{c}}
	if later := confine.LandlockABI() < 9; c.OK && later {
		r.Checks = append(r.Checks, engine.Check{What: "sockets made while a jail runs", Detail: jail.LaterSockets.What, Fix: jail.LaterSockets.Needs})
	}
	return r
}

func missingWalls() []engine.Check { return engine.Missing() }

// programs are what this binary is by other names.
var programs = map[string]func() int{
	guest.Name: guest.Main, guest.LeadName: guest.LeadMain, guest.RootName: guest.RootMain,
	jail.Name: jail.Main, engine.PurgeName: engine.PurgeMain,
}

func purge(tree string) error {
	_, _ = forgetGit(tree, false)
	return purgeForgotten(tree)
}

// purgeForgotten is purge for whoever has taken it out of the user's repositories.
func purgeForgotten(tree string) error {
	if err := supervisor.Forget(tree); err != nil {
		return err
	}
	return purgeSupervised(tree)
}

// purgeSupervised is purge for whoever supervised the sandbox and puts the rest right.
func purgeSupervised(tree string) error {
	if err := sandbox.KeepAudit(tree); err != nil {
		return err
	}
	return purgeFiles(tree)
}

func purgeFiles(tree string) error {
	defer ui.Busy("removing the files of a sandbox")()
	return engine.Purge(tree)
}
