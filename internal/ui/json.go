package ui

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/cofferhq/coffer/internal/terminal"
)

// JSON prints a value, indented. A terminal obeys nothing in it.
func JSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(terminal.JSON(b.Bytes()))
	return err
}
