package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// How much the projects depend on: a middling service, a small front end.
const (
	goModules   = 40
	npmPackages = 60
	npmFiles    = 20 // of each package
	npmDelay    = 50 // milliseconds until the registry answers
)

// goProject writes a program that imports many modules, and a module proxy in a directory
// that has them.
func goProject(dir, proxy string) error {
	var requires, imports, calls strings.Builder
	for i := range goModules {
		name := fmt.Sprintf("example.test/dep%d", i)
		mod := "module " + name + "\n\ngo 1.21\n"
		fmt.Fprintf(&requires, "require %s v1.0.0\n", name)
		fmt.Fprintf(&imports, "import \"%s\"\n", name)
		fmt.Fprintf(&calls, "\tprintln(dep%d.Step0(3))\n", i)
		files := map[string]string{"go.mod": mod}
		for f := range 5 {
			var body strings.Builder
			fmt.Fprintf(&body, "package dep%d\n", i)
			for s := range 8 {
				fmt.Fprintf(&body, "\nfunc Step%d(n int) int {\n\tfor i := 0; i < n; i++ {\n\t\tn -= i %% %d\n\t}\n\treturn n\n}\n", f*8+s, s+2)
			}
			files[fmt.Sprintf("file%d.go", f)] = body.String()
		}
		archive, err := zipped(name+"@v1.0.0/", files)
		if err != nil {
			return err
		}
		if err := writeAll(filepath.Join(proxy, name, "@v"), map[string]string{
			"list": "v1.0.0\n", "v1.0.0.info": `{"Version":"v1.0.0"}`, "v1.0.0.mod": mod, "v1.0.0.zip": archive,
		}); err != nil {
			return err
		}
	}
	return writeAll(dir, map[string]string{
		"go.mod":  "module example.test/app\n\ngo 1.21\n\n" + requires.String(),
		"main.go": "package main\n\n" + imports.String() + "\nfunc main() {\n" + calls.String() + "}\n",
	})
}

func zipped(prefix string, files map[string]string) (string, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(prefix + name)
		if err != nil {
			return "", err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return "", err
		}
	}
	err := z.Close()
	return b.String(), err
}

// registryProgram answers with the packages while npm ci runs, and fails if it was not asked
// for as many as it should have been: an empty cache asks for all, a full one for none. It
// takes its time for an answer, as one at the other end of a network does.
const registryProgram = `const http = require("http"), fs = require("fs"), path = require("path");
const [port, want, delay] = process.argv.slice(2).map(Number);
let asked = 0;
process.chdir(__dirname);
const server = http.createServer((request, answer) => {
  asked++;
  setTimeout(() => fs.createReadStream(path.join("tarballs", path.basename(request.url))).pipe(answer), delay);
});
server.listen(port, "127.0.0.1", () => {
  const options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--registry", "http://127.0.0.1:" + port];
  require("child_process").spawn("npm", ["ci", ...options], {stdio: "inherit"}).on("exit", (code) => {
    if (code === 0 && asked !== want) {
      console.error("npm asked for " + asked + " packages, not for " + want);
      code = 1;
    }
    process.exit(code === null ? 1 : code);
  });
});
`

// npmProject writes a package that depends on many, with a lock file that names them on the
// loopback's port, and the registry.
func npmProject(dir string, port int) error {
	depends := map[string]string{}
	type locked struct {
		Version      string            `json:"version"`
		Resolved     string            `json:"resolved,omitempty"`
		Integrity    string            `json:"integrity,omitempty"`
		Dependencies map[string]string `json:"dependencies,omitempty"`
	}
	packages := map[string]locked{}
	files := map[string]string{"registry.js": registryProgram}
	for i := range npmPackages {
		name := fmt.Sprintf("bench-dep%d", i)
		archive, err := packed(name, i)
		if err != nil {
			return err
		}
		sum := sha512.Sum512([]byte(archive))
		files["tarballs/"+name+".tgz"] = archive
		depends[name] = "1.0.0"
		packages["node_modules/"+name] = locked{
			Version:   "1.0.0",
			Resolved:  fmt.Sprintf("http://127.0.0.1:%d/%s.tgz", port, name),
			Integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}
	}
	packages[""] = locked{Version: "1.0.0", Dependencies: depends}
	for name, v := range map[string]any{
		"package.json":      map[string]any{"name": "app", "version": "1.0.0", "dependencies": depends},
		"package-lock.json": map[string]any{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "packages": packages},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		files[name] = string(text)
	}
	return writeAll(dir, files)
}

// packed is one package as npm fetches it.
func packed(name string, seed int) (string, error) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	t := tar.NewWriter(zip)
	add := func(file, text string) error {
		if err := t.WriteHeader(&tar.Header{Name: "package/" + file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err := io.WriteString(t, text)
		return err
	}
	if err := add("package.json", fmt.Sprintf(`{"name":%q,"version":"1.0.0"}`, name)); err != nil {
		return "", err
	}
	for f := range npmFiles {
		text := strings.Repeat(fmt.Sprintf("exports.f%d = (n) => n + %d;\n", f, seed), 100)
		if err := add(fmt.Sprintf("lib/file%d.js", f), text); err != nil {
			return "", err
		}
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	err := zip.Close()
	return b.String(), err
}

// writeAll writes files below a directory.
func writeAll(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
