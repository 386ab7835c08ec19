// Package turn tests that agents do their work in sandboxes: whole turns, from the prompt
// on the command line to the commit on the host's branch, over the gateway, against the
// scripted model of package model in the fake internet of package fakenet.
//
// There is always a stand-in for an agent, which speaks to the model as real ones do. The
// real ones run too where COFFER_AGENTS names a directory in which npm has installed
// them: see 'make test-agents'.
package turn
