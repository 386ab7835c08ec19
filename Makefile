# Two commands do everything: make demo, make test. See README.md.

export CGO_ENABLED = 0
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: build demo test test-big test-agents lint escape bench bench-ai bench-setup fuzz clean

build:
	go build -trimpath -ldflags "-s -w -X main.release=$(VERSION)" -o bin/coffer ./cmd/coffer

demo: build
	./bin/coffer demo

# Tests share one binary, which does not report progress: they compare all that it prints.
TESTED = $(CURDIR)/bin/tested/coffer
test: lint build
	go build -trimpath -ldflags "-s -w -X github.com/cofferhq/coffer/internal/ui.silent=yes" -o $(TESTED) ./cmd/coffer
	COFFER_TESTBED_PREBUILT=$(TESTED) internal/testbed/in-memory go test -timeout 40m ./...
	@$(MAKE) --no-print-directory fuzz FUZZ=500x PACKAGES="./internal/policy ./internal/gateway/..."

# What takes too long for every day: repositories with tens of thousands of files.
test-big:
	COFFER_BIG=1 go test -count=1 -timeout 20m -run TestBig ./cmd/coffer

# The real coding agents, as npm has them, against a scripted model, and the real mise:
# needs npm and its registry, and some 1.7 GB for all five.
AGENTS = pi claude codex gemini opencode
AGENTS_DIR = $(or $(TMPDIR),/tmp)/coffer-agents-$(shell id -u)
test-agents:
	internal/turn/install $(AGENTS_DIR) $(AGENTS) mise
	COFFER_AGENTS=$(AGENTS_DIR) go test -count=1 -timeout 40m -v -run 'Test(Real|Screen)/($(subst $(eval ) ,|,$(strip $(AGENTS) mise)))$$' ./internal/turn

lint:
	@test -z "$$(gofmt -l cmd internal bench)" || { echo "gofmt would change:"; gofmt -l cmd internal bench; exit 1; }
	go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	go tool staticcheck ./...

# The escape corpus: a table of attempts, inside and outside.
escape:
	go test -count=1 -v -run 'TestEscape' ./internal/escape

bench-setup:
	bench/setup

bench: build bench-setup
	go run ./bench -coffer bin/coffer
	@$(MAKE) --no-print-directory bench-ai

# What a sandbox costs a coding agent: a stand-in for one, in a fake internet.
bench-ai:
	COFFER_MEASURE=1 go test -count=1 -timeout 20m -v -run 'TestMeasure' ./internal/turn

# A turn of every fuzz target. make test has a short one for what strangers say first on
# the network.
FUZZ = 30s
PACKAGES = ./...
fuzz:
	@for p in $$(go list $(PACKAGES)); do \
	  for f in $$(go test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$p >$${TMPDIR:-/tmp}/coffer-fuzz.$$$$ || { cat $${TMPDIR:-/tmp}/coffer-fuzz.$$$$; exit 1; }; \
	    rm -f $${TMPDIR:-/tmp}/coffer-fuzz.$$$$; \
	  done; \
	done

clean:
	rm -rf bin
