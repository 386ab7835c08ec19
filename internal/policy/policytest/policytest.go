// Package policytest has rules for tests and measurements of policies.
package policytest

import (
	"fmt"

	"github.com/cofferhq/coffer/internal/policy"
)

// Rules are n rules of every kind, as nobody has them.
func Rules(n int) (list []policy.RuleSource) {
	for i := range n {
		var r policy.RuleSource
		switch i % 5 {
		case 0:
			r.Allow = []string{fmt.Sprintf("host%d.example.com:80,443", i)}
		case 1:
			r.Allow = []string{fmt.Sprintf("*.zone%d.example.com:443", i)}
		case 2:
			r.Deny = []string{fmt.Sprintf("bad%d.zone%d.example.com", i, i-1)}
		case 3:
			r.Allow = []string{fmt.Sprintf("10.%d.%d.0/24:5432", i/256, i%256)}
		case 4:
			r.Deny = []string{fmt.Sprintf("*:%d", 10000+i)}
		}
		list = append(list, r)
	}
	return list
}
