# `make help` lists the targets.
CARGO ?= cargo
FUZZ_SECONDS ?= 300
# How many seeds `make simulate` tries, from FIRST_SEED on.
SEEDS ?= 1000000
FIRST_SEED ?= 0
# One fuzz target, or all of them.
TARGET ?=
SOAK_SECONDS ?= 3600
DOCKER ?= docker
# `make image BASE=debian:bookworm-slim` also builds the Dockerfile upon that image.
BASE ?=
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# How many tests run at once: most of them wait most of the time.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# --realtime, on a machine that is never quiet.
BENCH_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help build run demo demo-down test test-recorded test-dist tools deps lint fmt simulate plant-bugs mutants bench fuzz soak dist image clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the optimised program, target/release/containerpilot
	$(CARGO) build --release

run: ## build and run examples/hello.json5; end it with Ctrl-C
	$(CARGO) run -- -config examples/hello.json5

demo: ## build and run examples/autopilot in containers; Ctrl-C ends it
	$(CARGO) build
	./examples/autopilot/demo.sh

demo-down: ## remove what a demo has left behind
	./examples/autopilot/demo.sh down

# What building and linting need.
tools:
	@./scripts/install-build-deps.sh

deps: tools ## install what the tests need and this machine lacks
	./scripts/install-test-deps.sh
	@./scripts/fetch-consul.sh >/dev/null
	@./scripts/base-image.sh >/dev/null || true

lint: tools ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

test: ## everything that must hold: format, lints, tests, documentation
	@# Packages are downloaded while clippy works.
	@$(MAKE) --no-print-directory --jobs=2 lint deps
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

# Not those that count threads and descriptors, nor those in containers.
test-recorded: deps ## the tests of supervision once more, each run recorded and replayed
	CONTAINERPILOT_RECORD_TESTS=1 RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --lib actors::tests
	CONTAINERPILOT_RECORD_TESTS=1 RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --test blackbox -- \
		startup:: restarts:: shutdown:: signals:: reload:: interval:: coprocess:: events:: job_control:: health_ \
		processes:: reaper:: exit_status:: consul_ readiness groups:: schedule:: restart_rules:: forward:: terminal:: \
		env_files:: output:: containerpilot_ known_defects:: control:: crashes:: examples:: cookbook:: hardening:: \
		hostile_clients:: autopilot:: why:: kept_logs:: operator:: --skip has_no_socket_timer_or_thread

test-dist: deps dist ## the black-box tests with what is shipped, for aarch64 under qemu-user
	CONTAINERPILOT_TESTED="$(CURDIR)/target/dist/containerpilot" RUST_TEST_THREADS=$(TEST_THREADS) \
		$(CARGO) test --test blackbox
	CARGO="$(CARGO)" ./scripts/test-emulated.sh

fmt: ## format the code
	$(CARGO) fmt --all

bench: dist ## measure our parts, then what we ship beside its peers: docs/benchmarks
	$(CARGO) bench --bench config --bench lifecycle --bench logging --bench metrics --bench registry -- \
		--warm-up-time 0.5 --measurement-time 1
	./benches/peers/run.py $(BENCH_FLAGS)

simulate: ## simulate the whole program from SEEDS seeds, on all cores: docs/testing.md
	SEEDS=$(SEEDS) FIRST_SEED=$(FIRST_SEED) $(CARGO) test --profile simulation --lib simulation:: -- --nocapture

plant-bugs: ## test the simulation with deliberate bugs
	./scripts/plant-bugs.py

mutants: ## mutation testing of the machines, config, logging and process; goes on where it was interrupted (hours)
	./scripts/mutants/mutants.sh

fuzz: ## run the fuzz targets for FUZZ_SECONDS each; TARGET=NAME: only that one (needs nightly Rust)
	@CARGO="$(CARGO)" FUZZ_SECONDS=$(FUZZ_SECONDS) ./scripts/fuzz.sh $(TARGET)

soak: build ## run 200 jobs for SOAK_SECONDS with clients, reloads and a Consul that fails; memory must stay flat
	./tests/soak/run.py --seconds $(SOAK_SECONDS)

dist: ## static programs for x86-64 and aarch64, completions and manual page: target/dist/*.tar.gz
	CARGO="$(CARGO)" ./scripts/dist.sh

image: dist ## the image containerpilot:VERSION with the program alone; BASE=IMAGE: a whole one too
	$(DOCKER) build --file scripts/scratch.Dockerfile --tag containerpilot:$(VERSION) --tag containerpilot:latest target/dist
ifneq ($(BASE),)
	$(DOCKER) build --build-arg BASE=$(BASE) --tag containerpilot:$(VERSION)-base .
endif

clean: ## delete what was built
	$(CARGO) clean
