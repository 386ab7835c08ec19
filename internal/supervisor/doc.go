// Package supervisor keeps one sandbox running, on the host's side of the wall.
//
// There is one supervisor per running sandbox: a process of its own for a sandbox
// that lasts, the command itself for a throw-away one. It holds the sandbox's lock
// for as long as it lives, the control stream to the guest agent, and a Unix socket in
// the sandbox's folder on which commands of the same user reach it. Programs are
// asked for in the language of package wire, and their streams are passed through.
//
// Ports and sockets that lead through the wall are package forward's.
//
// If the supervisor dies, the kernel ends the sandbox with it, and the next command
// finds a free lock. If the guest dies, the supervisor cleans up and ends.
package supervisor
