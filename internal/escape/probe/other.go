//go:build !linux

// Command probe makes the attempts of the escape corpus, on Linux.
package main

func main() {}
