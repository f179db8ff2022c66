# The commands of the project; `make help` lists them. `make demo` and `make test` install what is missing.

GO        ?= go
BIN       := bin
PREFIX    ?= /usr/local
CNI_BIN   ?= /opt/cni/bin
CNI_CONF  ?= /etc/cni/net.d
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
SANDBOX   := $(CURDIR)/sandbox.sh
SUM       := $(GO) run ./internal/testsum $(if $(CLEAT_COUNTS),-o $(CLEAT_COUNTS))
PACKAGES  := ./...
FUZZTIME  ?= 5s
CRASH     ?= -crash.chains=all -crash.time=0 -crash.kills=500 -crash.rounds=20 -crash.workers=4
N         ?= 2000
RELIABILITY ?= -reliability.every -reliability.rounds=50 -reliability.walks=20 -reliability.steps=200

.PHONY: help demo build test check bench bench1 install race test-uml fuzz crash soak reliability interop fmt vet staticcheck fix cross tidy generated clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r t what; do printf '  make %-12s %s\n' "$$t" "$$what"; done

demo: build ## two pods on a bridge with a published port, in scratch namespaces
	@scripts/setup demo
	@$(BIN)/cleat demo

build: ## bin/cleat, bin/cleat-cni and bin/cleatd
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

test: ## all tests, each package in a sandbox of its own
	@scripts/setup test
	@$(GO) test -json -exec $(SANDBOX) $(PACKAGES) | $(SUM)

check: fmt vet staticcheck fix tidy generated cross race interop bench1 fuzz ## what CI runs besides make test

fmt: ## is the code formatted?
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet: ## go vet
	@$(GO) vet ./...

staticcheck: ## staticcheck, in the version of go.mod
	@$(GO) tool staticcheck ./...

fix: ## does go fix find nothing to modernise?
	@out=$$($(GO) fix -diff ./... 2>&1); test -z "$$out" || { echo "go fix would change:"; echo "$$out"; exit 1; }

tidy: ## are go.mod and go.sum as they should be?
	@$(GO) mod tidy -diff
	@$(GO) mod verify >/dev/null

generated: ## are generated files current?
	@out=$$($(GO) test -count=1 -run '^TestGenerated' ./internal/schema ./internal/lint ./internal/doctor 2>&1) || { echo "$$out"; exit 1; }
	@out=$$(git grep -l '^// Code generated' -- '*.go' || true); test -z "$$out" || { $(GO) generate ./... && git diff --exit-code; }

cross: ## what builds on every OS, and all of it on every Linux
	@for os in darwin windows freebsd; do GOOS=$$os $(GO) build ./cni ./libcni ./plugin ./netstate || exit 1; done
	@for arch in arm64 arm 386 riscv64; do GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/cleat-cni || exit 1; \
		GOOS=linux GOARCH=$$arch $(GO) vet $$($(GO) list ./... | grep -v -e /internal/agent -e /internal/daemon -e /cmd/cleatd) || exit 1; done
	@GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/cleatd

race: ## all tests with the race detector
	@scripts/setup test
	@GORACE=atexit_sleep_ms=0 $(GO) test -race -json -exec $(SANDBOX) $(PACKAGES) | $(SUM)

test-uml: ## what needs another kernel, in user-mode Linux: scripts/uml says what
	@scripts/setup uml
	@scripts/uml | $(SUM)

interop: ## our plugins under the reference runtime and the reverse, and under containerd and podman
	@scripts/setup peers
	@CLEAT_PEERS=$$(scripts/peers) $(GO) test -json -count=1 -tags peers -exec $(SANDBOX) ./test/peers/ | $(SUM)
	@CLEAT_PEERS=$$(scripts/peers) $(GO) test -json -count=1 -tags peers -exec $(SANDBOX) -run '^TestModelWithTheReference$$' ./test/reliability | $(SUM)
	@mkdir -p $(BIN) && rm -f $(BIN)/matrix
	@CLEAT_PEERS=$$(scripts/peers) CLEAT_SANDBOX_PIDS=1 CLEAT_MATRIX=$(CURDIR)/$(BIN)/matrix \
		$(GO) test -json -count=1 -tags peers -exec $(SANDBOX) ./test/runtimes | $(SUM)
	@cat $(BIN)/matrix

versus: ## how fast, on a machine that does nothing else: against the reference, the kernel alone, and an empty host; PAIRS=40
	@scripts/setup peers
	@CLEAT_TIMED=1 $(GO) test -v -count=1 -run 'TestChainIsNearTheFloor|TestChainAmongMany' -exec $(SANDBOX) ./internal/kernel/
	@CLEAT_TIMED=1 CLEAT_PEERS=$$(scripts/peers) $(GO) test -v -count=1 -tags peers -run TestVersus -exec $(SANDBOX) \
		./test/peers/ -versus.pairs=$(or $(PAIRS),40)

bench: ## the benchmarks, ten rounds, for benchstat
	@scripts/setup test
	@$(GO) test -run '^$$' -bench . -benchtime 200x -count 10 -exec $(SANDBOX) ./internal/... ./plugins/... ./libcni ./test/...

bench1: ## each benchmark once, so that none rots
	@$(GO) test -json -run '^$$' -bench . -benchtime 1x -exec $(SANDBOX) ./... | $(SUM) -bench

fuzz: ## each fuzz target for FUZZTIME
	@scripts/fuzz $(FUZZTIME)

crash: ## kill and fail the programs at every system call, in every way, for hours; CRASH="-crash.chains=all -crash.time=1m" is a sample
	@scripts/setup peers
	@CLEAT_PEERS=$$(scripts/peers) $(GO) test -count=1 -timeout 0 -v -exec $(SANDBOX) ./test/crash $(CRASH)

soak: ## N pairs of ADD and DEL of the whole chain in one process, with the race detector, some killed; nothing grows (N=20000 takes a quarter of an hour or more)
	@scripts/setup test
	@$(GO) test -race -count=1 -timeout 0 -v -run '^TestSoak$$' -exec $(SANDBOX) ./test/reliability -reliability.soak=$(N)

reliability: ## deadlines, power cuts, boots, cold ADDs and random walks at length; docs/reliability.md
	@scripts/setup test
	@$(GO) test -count=1 -timeout 0 -v -exec $(SANDBOX) ./test/reliability $(RELIABILITY)

install: build ## cleat and cleatd, the plugins with a link for each (INSTALLFLAGS=--force: also in place of others), and a default network if there is none
	@install -d $(DESTDIR)$(PREFIX)/bin
	@install -m 0755 $(BIN)/cleat $(BIN)/cleatd $(DESTDIR)$(PREFIX)/bin/
	@$(BIN)/cleat install --bin-dir $(DESTDIR)$(CNI_BIN) --conf-dir $(DESTDIR)$(CNI_CONF) $(INSTALLFLAGS)

clean: ## remove bin
	@rm -rf $(BIN)
