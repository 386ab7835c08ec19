package halt

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Processes lists all that this one can see.
func Processes() ([]int, error) { return numbers("/proc") }

// field is one of a status file.
func field(dir, name string) string {
	text, _ := os.ReadFile(dir + "status")
	_, rest, _ := strings.Cut(string(text), "\n"+name+":\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// numbers lists entries of a directory that are numbers.
func numbers(path string) (all []int, err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}

// children lists those that threads of a process have forked. (A kernel may not tell.)
func children(pid int) (all []int) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(maxMany)
	for _, thread := range threads {
		for f := range bytes.FieldsSeq(beginning(tasks + "/" + thread + "/children")) {
			if child, err := strconv.Atoi(string(f)); err == nil && len(all) < maxMany {
				all = append(all, child)
			}
		}
	}
	return all
}

// beginning is that of a list of numbers, which may be of any length: as many as are looked at.
func beginning(list string) []byte {
	f, err := os.Open(list)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, int64(maxMany*len("4194304 "))))
	return text[:bytes.LastIndexByte(text, ' ')+1] // one that is cut off is another's
}
