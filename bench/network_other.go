//go:build !linux

package main

import (
	"context"
	"errors"
)

func playRole([]string) (bool, error) { return false, nil }

func measureNetwork(context.Context, *lab, *result) error {
	return errors.New("network namespaces are Linux's")
}
