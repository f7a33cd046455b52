# `make` alone lists the targets.

SHELL := bash

# Every module of the tree but tools/, which has no code of ours. Found, not
# listed, so that a new nested module is tested and linted from its first day.
MODULES := $(shell find . -name '.?*' -prune -o -name testdata -prune -o -path ./tools -prune -o -name go.mod -exec dirname {} \; | sort)

# Tools run from source at the versions that tools/go.mod pins.
TOOL          := go tool -modfile=$(CURDIR)/tools/go.mod
GOFUMPT       := $(TOOL) gofumpt
GOLANGCI_LINT := $(TOOL) golangci-lint
BUF           := $(TOOL) buf

# Arguments added to each `go test` of `make test`, as in TESTFLAGS='-run TestBudget'.
TESTFLAGS ?=
# How long each Fuzz target runs, in any form that go test -fuzztime takes.
FUZZTIME ?= 10s

# $(call each,FOLDERS,COMMAND) runs COMMAND in each of FOLDERS. It goes on after
# a failure, so that one run shows all of them, and fails at the end.
define each
@set -uo pipefail; failed=; \
for dir in $(1); do (cd "$$dir" && $(2)) || failed+=" $$dir"; done; \
if [[ -n "$$failed" ]]; then echo "$@: failed in:$$failed" >&2; exit 1; fi
endef

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## Run the tests of every module under the race detector.
	$(call each,$(MODULES),go test -race -timeout=15m $(TESTFLAGS) ./... | awk '!/\[no test files\]$$/ { print; fflush() }')

.PHONY: check
check: check-format check-vet check-lint check-tidy check-proto ## Run every static check; changes nothing.

.PHONY: check-format
check-format: ## Fail on Go code that gofumpt would change.
	@$(GOFUMPT) -d . || { echo 'check-format: run make fmt' >&2; exit 1; }

.PHONY: check-vet
check-vet: ## Run go vet in every module.
	$(call each,$(MODULES),go vet ./...)

.PHONY: check-lint
check-lint: ## Run golangci-lint in every module.
	$(call each,$(MODULES),$(GOLANGCI_LINT) run --config=$(CURDIR)/.golangci.yml ./...)

.PHONY: check-tidy
check-tidy: ## Fail on a go.mod or go.sum that go mod tidy would change.
	$(call each,$(MODULES) ./tools,go mod tidy -diff)

.PHONY: check-proto
check-proto: ## Lint the protos and fail on stale generated code.
	@$(BUF) lint
	@$(BUF) format --diff --exit-code
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(BUF) generate --output "$$tmp"; \
	diff -ru --exclude='*.proto' proto "$$tmp/proto" || { echo 'check-proto: run make generate' >&2; exit 1; }

.PHONY: generate
generate: ## Generate the Go code of the protos anew.
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(BUF) generate --output "$$tmp"; \
	find proto -name '*.pb.go' -delete; \
	cp -R "$$tmp/proto/." proto/

.PHONY: fmt
fmt: ## Format the Go code and the protos.
	@$(GOFUMPT) -w .
	@$(BUF) format --write

.PHONY: table
table: ## Print the table of docs/budgets.md: what each budget does in simulated outages.
	@go -C internal/overload test -count=1 -timeout=30m -run TestTable -seeds 5

.PHONY: bench
bench: ## Run the benchmarks of the bench module.
	@go -C bench run .

.PHONY: fuzz
fuzz: ## Run every Fuzz target for FUZZTIME each.
	$(call each,$(MODULES),$(CURDIR)/tools/fuzz.sh $(FUZZTIME))
