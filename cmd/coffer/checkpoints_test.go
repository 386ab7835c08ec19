package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/checkpoint"
)

func TestMoment(t *testing.T) {
	now := time.Date(2026, 3, 14, 23, 59, 0, 0, time.Local)
	today := time.Date(2026, 3, 14, 9, 26, 53, 0, time.Local)
	for _, tt := range []struct {
		at            time.Time
		command, want string
	}{
		{today, "make test", "09:26:53, after 'make test'"},
		{today, `/bin/sh -c if [ -x "$1" ]; then exec "$1"; fi; exec /bin/sh "$1" setup ./.coffer/setup.sh`, "09:26:53, after '.coffer/setup.sh'"},
		{today, "(start)", "09:26:53, start"},
		{today, "(back to 2)", "09:26:53, back to 2"},
		{today.AddDate(0, 0, -1), "(between commands)", "2026-03-13 09:26:53, between commands"},
		{today.AddDate(-1, 0, 0), "x", "2025-03-14 09:26:53, after 'x'"},
		{today, "(", "09:26:53, after '('"},
		{today, "", "09:26:53, after ''"},
		{today, "a\x1b[2Jb", "09:26:53, after 'a\\x1b[2Jb'"},
		{today, "(" + strings.Repeat("é", 99) + ")", "09:26:53, " + strings.Repeat("é", 30) + "…"},
	} {
		if got := moment(checkpoint.Checkpoint{Time: tt.at, Command: tt.command}, now); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.command, got, tt.want)
		}
	}
}
