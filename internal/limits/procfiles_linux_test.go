package limits

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseMountinfo(t *testing.T) {
	text := `23 1 0:21 / /proc rw - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/1f /mnt/with\040blank\134 ro master:1 propagate_from:2 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
half a line
42 31 0:38 / relative rw - cgroup2 cgroup2 rw
43 31 0:38 / /x - cgroup2
`
	want := []mount{
		{root: "/", point: "/sys/fs/cgroup/cpu,cpuacct", options: []string{"rw", "cpu", "cpuacct"}},
		{root: "/docker/1f", point: `/mnt/with blank\`, options: []string{"rw", "memory"}},
		{root: "/", point: "/sys/fs/cgroup/unified", unified: true, options: []string{"rw", "nsdelegate"}},
	}
	if got := parseMountinfo(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseCgroup(t *testing.T) {
	got := parseCgroup("9:name=systemd:/\n4:cpu,cpuacct:/a:b\n3:memory:relative\nrubbish\n0::/user.slice/x.scope\n")
	want := membership{
		unified: "/user.slice/x.scope",
		v1:      map[string]string{"name=systemd": "/", "cpu": "/a:b", "cpuacct": "/a:b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVisible(t *testing.T) {
	for _, tt := range []struct{ root, path, want string }{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/docker/1f", "/docker/1f", "/m"},
		{"/docker/1f", "/docker/1f/sub", "/m/sub"},
		{"/docker/1f", "/docker/1fff", ""},
		{"/docker/1f", "/", ""},
		{"/", "/../outside", ""},
		{"/..", "/", ""},
	} {
		got, ok := mount{root: tt.root, point: "/m"}.visible(tt.path)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("root %s, path %s: got %q %v, want %q", tt.root, tt.path, got, ok, tt.want)
		}
	}
}

func TestParseParent(t *testing.T) {
	if pid, ok := parseParent("12 (a) b) (c) S 7 12 12 0"); !ok || pid != 7 {
		t.Errorf("got %d %v, want 7", pid, ok)
	}
	for _, bad := range []string{"", "12 (a", "12 (a) S", "12 (a) S x"} {
		if _, ok := parseParent(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Whatever the files hold, a directory that comes out lies below its mount.
func FuzzProcFiles(f *testing.F) {
	f.Add("35 31 0:32 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/a/b\n0::/../x\n")
	f.Add("41 31 0:38 / /m\\0404 rw - cgroup2 cgroup2 rw\n", "0::/\n")
	f.Fuzz(func(t *testing.T, mountinfo, cgroup string) {
		in := parseCgroup(cgroup)
		paths := []string{in.unified}
		for _, path := range in.v1 {
			paths = append(paths, path)
		}
		for _, m := range parseMountinfo(mountinfo) {
			for _, path := range paths {
				dir, ok := m.visible(path)
				point := filepath.Clean(m.point)
				if ok && dir != point && !strings.HasPrefix(dir, strings.TrimSuffix(point, "/")+"/") {
					t.Errorf("mount %+v and path %q give %q, outside of the mount", m, path, dir)
				}
			}
		}
		parseParent(mountinfo)
	})
}
