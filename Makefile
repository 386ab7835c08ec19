# Two commands do everything: make demo, make test. See README.md.

export CGO_ENABLED = 0
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: build demo test lint escape bench bench-setup fuzz clean

build:
	go build -trimpath -ldflags "-s -w -X main.release=$(VERSION)" -o bin/coffer ./cmd/coffer

demo: build
	./bin/coffer demo

test: lint build
	go test -timeout 20m ./...

lint:
	@test -z "$$(gofmt -l cmd internal bench)" || { echo "gofmt would change:"; gofmt -l cmd internal bench; exit 1; }
	go vet ./...
	GOOS=darwin go vet ./...
	go tool staticcheck ./...

# The escape corpus: a table of attempts, inside and outside.
escape:
	go test -count=1 -v -run 'TestEscape' ./internal/escape

bench-setup:
	bench/setup

bench: build bench-setup
	go run ./bench -coffer bin/coffer

# A short turn of every fuzz target.
fuzz:
	@for p in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s $$p || exit 1; \
	  done; \
	done

clean:
	rm -rf bin
