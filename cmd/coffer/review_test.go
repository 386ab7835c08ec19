package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cofferhq/coffer/internal/review"
)

// However many trifles were found before, what matters is said.
func TestTriflesHideNothing(t *testing.T) {
	r := &reviewed{}
	for i := range 2 * maxFindings {
		r.add([]review.Finding{{Level: review.Low, Path: fmt.Sprint(i)}})
	}
	r.add([]review.Finding{{Level: review.High, Path: "z"}})
	r.sort()
	if len(r.Findings) != maxFindings+1 || !slices.Contains(r.Findings[:1], review.Finding{Level: review.High, Path: "z"}) {
		t.Errorf("%d findings, the first is %v", len(r.Findings), r.Findings[0])
	}
}
