package safepath

import "strings"

// Within says whether path lies below dir. Both are clean and absolute.
func Within(path, dir string) bool {
	if dir == "/" {
		return path != "/"
	}
	return strings.HasPrefix(path, dir+"/")
}

// Covers says whether path is dir or lies below it. Both are clean and absolute.
func Covers(dir, path string) bool { return path == dir || Within(path, dir) }
