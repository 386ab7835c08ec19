package main

import (
	"archive/tar"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts about images know, besides what all know,
//
//	mkimage DIR KIND        makes an OCI layout; see testImage for the kinds
//	registry ADDRFILE KIND  is a registry that has one as test:1, until it is killed

// toolboxVariable says where the programs of test images are.
const toolboxVariable = "COFFER_TEST_TOOLBOX"

// TestImages runs the scripts about images.
func TestImages(t *testing.T) {
	box := toolbox(t)
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		runScripts(t, b, testscript.Params{Files: scripts(t, aboutImages)}, toolboxVariable+"="+box)
	})
}

// toolbox builds the programs of test images.
func toolbox(t *testing.T) string {
	box := filepath.Join(t.TempDir(), "toolbox")
	c := exec.Command("go", "build", "-o", box, "../../internal/image/imagetest/toolbox")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build the toolbox: %v\n%s", err, out)
	}
	// Its parents are closed to others.
	for dir := filepath.Dir(box); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return box
}

func aboutImages(name string) bool { return strings.HasPrefix(name, "image") }

// mkimage writes an image.
func mkimage() {
	i, err := testImage(os.Getenv(toolboxVariable), os.Args[2])
	drop()
	if err == nil {
		err = i.Write(os.Args[1], "1")
	}
	if err != nil {
		die(err)
	}
}

// serveImage is a registry, until it is killed.
func serveImage() {
	i, err := testImage(os.Getenv(toolboxVariable), os.Args[2])
	if err != nil {
		die(err)
	}
	drop()
	g := &imagetest.Registry{Images: map[string]*imagetest.Image{"test:1": i}}
	if os.Args[2] == "login" {
		g.Token, g.User = "token", "me:secret"
	}
	g.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if os.Args[2] != "stuck" || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Write([]byte("beginning"))
		http.NewResponseController(w).Flush()
		fmt.Fprintln(os.Stderr, "stuck")
		if f, err := os.Create(os.Args[1] + ".stuck"); err == nil {
			f.Close()
		}
		<-r.Context().Done()
		return true
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		die(err)
	}
	if err := os.WriteFile(os.Args[1]+".new", []byte(l.Addr().String()), 0o644); err != nil {
		die(err)
	}
	if err := os.Rename(os.Args[1]+".new", os.Args[1]); err != nil {
		die(err)
	}
	die(http.Serve(l, g))
}

// testImage is an image with programs and a few files, and something of its kind.
func testImage(toolbox, kind string) (*imagetest.Image, error) {
	box, err := os.ReadFile(toolbox)
	if err != nil {
		return nil, err
	}
	type file = imagetest.File
	files := []file{
		{Name: "usr/bin/toolbox", Data: string(box), Mode: 0o4755}, {Name: "bin", Link: "/usr/bin"}, {Name: "etc/os-release", Data: "ID=test\n"},
		{Name: "etc/passwd", Data: "root:x:0:0::/root:/bin/sh\nother:x:7:7::/:/bin/sh\n"}, {Name: "etc/resolv.conf", Link: "/run/elsewhere"},
		{Name: "usr/share/mine", Data: "of the image\n"}, {Name: "app/data", Data: "beside it\n"}, {Name: "home/inimage/file", Data: "in a home\n"},
		{Name: "var/lib/theirs", Data: "state\n"}, {Name: "var/mail", Link: "spool"}, {Name: "tmp/leftover", Data: "x"}, {Name: "root/.profile", Data: "of root\n"}, {Name: "entry.sh", Data: "entry\n", Mode: 0o755},
	}
	names := "sh echo env id write mkdir cat ls rm mode"
	switch kind {
	case "git": // which need not do anything
		names += " git"
	case "shell-less":
		names = "echo cat"
	}
	for name := range strings.FieldsSeq(names) {
		files = append(files, file{Name: "usr/bin/" + name, Link: "toolbox"})
	}
	second := []file{{Name: "usr/.wh.nothing"}, {Name: "second", Data: kind}}
	switch kind {
	case "up":
		second = append(second, file{Name: "../../../up", Data: "x"})
	case "through":
		second = append(second, file{Name: "out", Link: filepath.Dir(os.Args[1])}, file{Name: "out/victim", Data: "x"})
	case "hard":
		second = append(second, file{Name: "h", Type: tar.TypeLink, Link: "../../../../etc/passwd"})
	case "names": // that mean something elsewhere
		for _, name := range strings.Fields("a:b x,upperdir=y ready bones system-var home-inimage var-lib .coffer .host -d %s") {
			second = append(second, file{Name: name + "/f", Data: "f\n"})
		}
	case "device":
		second = append(second, file{Name: "null", Type: tar.TypeChar})
	}
	i := imagetest.New([]string{"PATH=/bin", "FROM_IMAGE=yes", "HOME=/nowhere"}, imagetest.Tar(files...), imagetest.Tar(second...), imagetest.Tar(file{Name: "third", Data: "by zstd\n"}))
	if kind == "damaged" {
		for d, data := range i.Blobs {
			if len(data) > 100000 {
				i.Blobs[d] = append([]byte("x"), data[1:]...)
			}
		}
	}
	i.Index()
	return i, nil
}
