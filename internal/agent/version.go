package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/safepath"
)

// packageVersion reads the version of the npm package that a program belongs to.
func packageVersion(real string) string {
	for dir := filepath.Dir(real); strings.Contains(dir, "/node_modules/"); dir = filepath.Dir(dir) {
		data, err := safepath.ReadOwn(filepath.Join(dir, "package.json"), 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var p struct{ Version string }
		if err != nil || json.Unmarshal(data, &p) != nil {
			return ""
		}
		return VersionIn(p.Version)
	}
	return VersionIn(filepath.Base(real)) // installers name a directory or a file by it
}

var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.-]+)?`)
})

// VersionIn finds a version in what a program says about itself.
func VersionIn(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return versionPattern().FindString(s)
}

// compareVersions compares the numbers of two versions.
func compareVersions(a, b string) int {
	as, bs := numbers(a), numbers(b)
	for i := range as {
		if as[i] != bs[i] {
			return as[i] - bs[i]
		}
	}
	return 0
}

func numbers(v string) (n [3]int) {
	v, _, _ = strings.Cut(v, "-")
	for i, part := range strings.SplitN(v, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}

// TooOld says whether a version is older than what is known about the agent.
func (a *Agent) TooOld(version string) bool {
	return a.Least != "" && version != "" && compareVersions(version, a.Least) < 0
}
