# `make help` lists the targets.
CARGO ?= cargo
FUZZ_SECONDS ?= 300
# --realtime, on a machine that is never quiet.
BENCH_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help build run test deps fmt bench fuzz clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the optimised program, target/release/containerpilot
	$(CARGO) build --release

run: ## build and run examples/hello.json5; end it with Ctrl-C
	$(CARGO) run -- -config examples/hello.json5

deps: ## install what the tests need and this machine lacks
	./scripts/install-test-deps.sh
	@./scripts/fetch-consul.sh >/dev/null

test: deps ## everything that must hold: format, lints, tests, documentation
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) test
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

fmt: ## format the code
	$(CARGO) fmt

bench: ## measure our parts, then the program beside its peers: docs/benchmarks
	$(CARGO) bench --bench config --bench lifecycle --bench logging --bench metrics --bench registry -- \
		--warm-up-time 0.5 --measurement-time 1
	$(CARGO) build --release
	./benches/peers/run.py $(BENCH_FLAGS)

fuzz: ## run every fuzz target for FUZZ_SECONDS each (needs nightly Rust and cargo-fuzz)
	@for target in $$($(CARGO) +nightly fuzz list); do \
		echo "== $$target"; \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

clean: ## delete what was built
	$(CARGO) clean
