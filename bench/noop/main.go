// Noop is the smallest Go program: it starts and exits. Any command line
// written in Go, coffer's included, pays at least what noop pays, so noop is
// the base that `coffer exec` is compared with.
package main

func main() {}
