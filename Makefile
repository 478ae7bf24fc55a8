# make test is the one test command. It needs Go; what else is missing is skipped by name, except with CI=true, where
# a missing tool or peer is a failure. `.ci/install` brings everything that is pinned.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

GO       ?= go
CACHE    := $(or $(MCPX_CI_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mcpx-ci)
GOFUMPT  := $(CACHE)/bin/gofumpt-v0.12.0
GOLANGCI := $(CACHE)/bin/golangci-lint-v2.15.0
FUZZTIME ?= 30s

# The packages that start the real binary: each has a tier of its own, and none runs twice.
DRIVEN := /internal/test/(story|wire|crashtest|peers)($$|/)
# What takes longest begins first, so that nothing is waited for at the end alone.
UNITS   = $$($(GO) list ./internal/work ./internal/shim ./internal/daemon ./... | grep -Ev '$(DRIVEN)')
# The race detector needs cgo and a C compiler; a machine with Go alone runs the same tests without it.
RACE    = $$(if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC) >/dev/null; then echo -race; \
             else echo 'skip: race detector: no C compiler' >&2; fi)
# needs FILE WHAT: true when the tool is there; false with a named skip, or a failure in CI.
needs    = [ -x "$(1)" ] || { if [ "$${CI:-}" = true ]; then echo "missing in CI: $(2)" >&2; exit 1; fi; \
             echo "skip: $(2) is not installed (run .ci/install)"; exit 0; }

.PHONY: test quick build static fmt vet lint unit story wire survive crash soak peers conformance certify bench fuzz tools

test: build static unit story wire survive peers
	@echo 'make test: all tiers passed'

# quick is for the edit loop: static checks without the linter, unit tests from the cache.
quick: build vet
	$(GO) test $(UNITS)

build:
	CGO_ENABLED=0 $(GO) build -o bin/mcpx .

static: fmt vet lint

fmt:
	@$(call needs,$(GOFUMPT),gofumpt v0.12.0); \
	bad=$$($(GOFUMPT) -l main.go arch_test.go internal); \
	[ -z "$$bad" ] || { echo "not formatted (gofumpt -w):"; echo "$$bad"; exit 1; }

# Every platform is vetted, tests included: a file that only builds on Linux must say so in its name.
vet:
	for p in linux/amd64 darwin/amd64 darwin/arm64 windows/amd64; do \
		GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) vet ./...; \
	done
	$(GO) vet -tags crash ./internal/crash ./internal/clientfile ./internal/secret

lint:
	@$(call needs,$(GOLANGCI),golangci-lint v2.15.0); $(GOLANGCI) run ./...

# What the race detector distorts, allocations and memory, is measured without it: under it these tests skip.
unit:
	$(GO) test $(RACE) -shuffle=on -timeout 20m $(UNITS)
	$(GO) test -run '^Test(Allocations|Memory)$$' -timeout 5m ./internal/gateway ./internal/shim
	$(GO) test -run '^TestSplice' -timeout 5m ./internal/clientfile # all generated files: under the detector a part
	$(GO) test -run '^Test(ThousandRuns|DW13Oversized|ReadLargeFile)$$' -timeout 5m ./internal/work # the thousand, and much: under the detector a part
	$(GO) test -run '^Test.*(AreLinear|AreFast)$$' -timeout 5m ./internal/text # 8 MB and no squares: under the detector a part
	$(GO) test -run '^TestRT83Cost$$' -timeout 5m ./internal/policy

story:
	$(GO) test -shuffle=on -timeout 10m ./internal/test/story/...

# wire: byte fidelity, hostile servers, isolation, on the real binary over raw sockets. The parallel tests only wait.
wire:
	$(GO) test -shuffle=on -parallel 8 -timeout 15m ./internal/test/wire/...

# survive: every crash point, and 50 kills under load. What is random comes from a seed that -v prints and a failure
# shows; MCPX_SEED repeats a run.
survive:
	$(GO) test -tags crash ./internal/crash
	$(GO) test -tags crash -run TestRealKills ./internal/clientfile ./internal/secret
	$(GO) test -count=1 -parallel 6 -timeout 40m ./internal/test/crashtest/...

# crash kills at the first and the last pass of every crash point, and again during recovery.
crash:
	$(GO) test -v -count=1 -parallel 6 -timeout 60m -run 'TestCrashPoints' ./internal/test/crashtest/...

# soak kills the daemon 500 times under the load of 16 clients.
soak:
	MCPX_SOAK_KILLS=$(or $(MCPX_SOAK_KILLS),500) $(GO) test -v -count=1 -timeout 60m -run 'Soak' ./internal/test/crashtest/...

# peers: the conformance suite, published clients and servers, real agents with a stub model.
peers:
	$(GO) test -timeout 30m ./internal/test/peers/...

conformance:
	$(GO) test -v -timeout 30m -run 'TestConformance' ./internal/test/peers/...

# certify tries all ten agents (CERTIFY=codex,qwen: only those) and writes docs/certifications. `.ci/install agents` brings them.
certify:
	MCPX_CERTIFY=$(or $(CERTIFY),all) $(GO) test -v -count=1 -timeout 180m -run '^TestCertify$$' ./internal/test/peers/...

# bench compares the program with a floor in one run; BENCH takes flags such as --check, --json, --quick.
bench:
	$(GO) run ./internal/test/bench $(BENCH)

# fuzz runs every fuzz target for FUZZTIME each; as seeds they run in `make unit`. Then a million calls of all tools.
fuzz:
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done
	MCPX_RANDOM_CALLS=$(or $(MCPX_RANDOM_CALLS),1000000) $(GO) test -v -count=1 -timeout 180m -run '^TestDW76RandomCalls$$' ./internal/work

tools:
	bash .ci/install
