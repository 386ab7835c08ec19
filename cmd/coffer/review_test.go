package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
)

// However many trifles were found before, what matters is said.
func TestTriflesHideNothing(t *testing.T) {
	r := &reviewed{}
	for i := range 2 * maxFindings {
		r.add([]changes.Finding{{Level: changes.Low, Path: fmt.Sprint(i)}})
	}
	r.add([]changes.Finding{{Level: changes.High, Path: "z"}})
	r.sort()
	if len(r.Findings) != maxFindings+1 || !slices.Contains(r.Findings[:1], changes.Finding{Level: changes.High, Path: "z"}) {
		t.Errorf("%d findings, the first is %v", len(r.Findings), r.Findings[0])
	}
}

// Of files that are too many to be looked into, the names count, and it is said.
func TestNamesOfAll(t *testing.T) {
	r := &reviewed{}
	for range maxReviewed {
		if !r.file("x", changes.Added) {
			t.Fatal("too early")
		}
	}
	if r.Partial || len(r.Notes) > 0 {
		t.Errorf("said too early: %v", r.Notes)
	}
	for range 2 {
		if r.file("zz/.envrc", changes.Added) {
			t.Error("one more is looked into")
		}
	}
	if !r.Partial || len(r.Notes) != 1 {
		t.Errorf("partial: %v, notes: %v", r.Partial, r.Notes)
	}
	r.add(changes.Review(byName(checkpoint.Delta{Path: "zz/.envrc", New: checkpoint.Item{Mode: checkpoint.Regular}})))
	if len(r.Findings) != 1 || r.Findings[0].Level != changes.High {
		t.Errorf("found %v", r.Findings)
	}
}
