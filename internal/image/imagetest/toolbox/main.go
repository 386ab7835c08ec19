// Command toolbox is what images for tests have for programs: a shell that knows how to start
// others, and a few of these. It is linked statically, so that an image needs nothing else.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string, args []string) error {
	switch name {
	case "sh":
		return shell(args)
	case "echo":
		fmt.Println(strings.Join(args, " "))
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "id":
		fmt.Printf("%d:%d\n", os.Getuid(), os.Getgid())
	case "write":
		return os.WriteFile(args[0], []byte(args[1]+"\n"), 0o644)
	case "mkdir":
		return os.Mkdir(args[0], 0o755)
	default:
		for _, path := range args {
			if err := file(name, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// file does something with one file.
func file(name, path string) error {
	switch name {
	case "cat":
		data, err := os.ReadFile(path)
		os.Stdout.Write(data)
		return err
	case "ls":
		all, err := os.ReadDir(path)
		for _, e := range all {
			fmt.Println(e.Name())
		}
		return err
	case "rm":
		return os.RemoveAll(path)
	case "mode":
		info, err := os.Lstat(path)
		if err == nil {
			fmt.Println(info.Mode(), path)
		}
		return err
	}
	return fmt.Errorf("there is no %s", name)
}

// shell runs the commands of -c, which are divided by semicolons, until one fails.
func shell(args []string) error {
	if len(args) < 2 || args[0] != "-c" {
		return fmt.Errorf("this shell knows -c only")
	}
	for command := range strings.SplitSeq(args[1], ";") {
		words := strings.Fields(command)
		if len(words) == 0 {
			continue
		}
		c := exec.Command(words[0], words[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return err
		}
	}
	return nil
}
