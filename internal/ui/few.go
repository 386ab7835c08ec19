package ui

import (
	"fmt"
	"strings"
)

// Few lists the first three of several names in a sentence, and says how many more there are.
func Few(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
