// Package fault holds tests only: it does to coffer what life does. Processes are
// killed at every moment of their lives, disks fill up, files are damaged, many
// commands run at once, and after each of these the same is asked: is nothing left
// behind, is nothing lost, and does the next command work.
//
// All of it goes through the built binary and the host's /proc, as any user could, and
// waits for things to happen rather than for time to pass.
package fault
