// Command gendoc writes docs/config.md and the JSON Schema from the types of package
// config and their comments, so that what is documented is what is read.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root, err := filepath.Abs("../..") // go generate runs in internal/config
	if err == nil {
		err = write(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := generate(root)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
	}
	return err
}

// generate makes all files; the names are relative to the root of the project.
func generate(root string) (map[string][]byte, error) {
	docs, err := readComments(filepath.Join(root, "internal/config/schema.go"), filepath.Join(root, "internal/config/floor.go"),
		filepath.Join(root, "internal/policy/source.go"))
	if err != nil {
		return nil, err
	}
	schema, err := docs.jsonSchema()
	return map[string][]byte{"docs/config.md": docs.markdown(), "internal/config/schema.json": schema}, err
}
