# The project's verbs. `make demo` and `make test` need the Rust toolchain alone; `make e2e` needs Go too.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Tests that start a peer (kubectl, terraform) run where it is found; those on kube-apiserver run in `make e2e`.
TEST_FLAGS ?= --workspace --locked
# Where `make install` puts things.
PREFIX ?= $(HOME)/.local

.PHONY: help build install demo test lint e2e attack soak bench fuzz crds docs fmt peers tools

help: ## List the verbs
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## Build the capt binary
	$(CARGO) build --locked --release -p capt

install: ## Install capt, kubectl capt, man pages and completion below PREFIX (~/.local)
	$(CARGO) install --locked --path crates/cli --root "$(PREFIX)" --no-track --force
	ln -sf capt "$(PREFIX)/bin/kubectl-capt"
	ln -sf capt "$(PREFIX)/bin/kubectl_complete-capt"
	"$(PREFIX)/bin/capt" man --output-dir "$(PREFIX)/share/man/man1"
	mkdir -p "$(PREFIX)/share/bash-completion/completions"
	"$(PREFIX)/bin/capt" completion bash >"$(PREFIX)/share/bash-completion/completions/capt"

demo: opentofu ## Build a whole cluster on this machine, offline, and show it
	@$(CARGO) build --locked --quiet -p capt
	@capt="$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/capt"; \
	peers="$$(e2e/peers/build --print-dir)"; PATH="$$PATH:$$peers" "$$capt" up --demo --wait; \
	command -v tofu >/dev/null || command -v terraform >/dev/null || \
	  echo "OpenTofu is not on your PATH; in each terminal, first: export PATH=\"\$$PATH:$$peers\""

# Runs tests, and tells at the end how many were skipped and for want of what.
define telling_skips
	@export CAPT_SKIPPED="$$(mktemp)"; ended=0; { $(1); } || ended=$$?; e2e/skipped "$$CAPT_SKIPPED" || ended=1; \
	rm -f "$$CAPT_SKIPPED"; exit $$ended
endef

test: opentofu ## Run every test that this machine can run without kube-apiserver
	$(call telling_skips,$(CARGO) test $(TEST_FLAGS))

# Both of the above run modules: OpenTofu is built, or downloaded, where neither it nor Terraform is installed.
.PHONY: opentofu
opentofu:
	@command -v tofu >/dev/null || command -v terraform >/dev/null || e2e/peers/build tofu

lint: ## Check formatting, lints, dependencies and generated files
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --all-features check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies are not checked (make tools)"; fi

ON_KUBE := rules kubectl workspaces machines clusters clusters_core beside_core scale rollout_live commands differential edge describe \
  record stream typed mismatch versions rights binaries engine sandbox model
e2e: peers aws-double ## Run the tests that need a real kube-apiserver, and those of the AWS double
	$(call telling_skips,export CAPT_E2E=1; \
	  CAPT_CRASH_ROUNDS=200 CAPT_KILL_ROUNDS=100 CAPT_MODEL=large $(CARGO) test $(TEST_FLAGS) --lib $(ON_KUBE:%=--test %) && \
	  STREAM_SEED=2000 STREAM_REQUESTS=2500 $(CARGO) test $(TEST_FLAGS) --test stream && \
	  STREAM_SEED=3000 STREAM_REQUESTS=2500 $(CARGO) test $(TEST_FLAGS) --test stream)

# With the AWS provider, where Terraform and a mirror that has it are found.
.PHONY: aws-double
aws-double: moto ## Test the AWS double of e2e/aws
	@cache="$${CAPT_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/capt}"; \
	if [[ -x $$cache/moto/bin/python ]]; then "$$cache/moto/bin/python" -m unittest discover -s e2e/aws; \
	else echo "moto is not installed in the cache: the AWS double is not tested"; fi

attack: ## Attack runs, tenants, the API and damaged folders (docs/security.md), in the long form
	CAPT_ATTACK=long $(CARGO) test $(TEST_FLAGS) --test attack
	CAPT_ATTACK=long $(CARGO) test --locked -p capt-apiserver --lib store::tests::damage

soak: ## Kill capt, Terraform and the API under load again and again, with release builds, and print the totals
	CAPT_UP_KILLS=1000 CAPT_SERVER_KILLS=200 $(CARGO) test --locked --release -p capt --test attack kills -- --nocapture
	CAPT_KILL_ROUNDS=40 CAPT_KILLS=300 $(CARGO) test --locked --release -p capt-terraform --test engine killed -- --nocapture
	CAPT_CRASH_ROUNDS=200 $(CARGO) test --locked --release -p capt-apiserver --lib store::tests::crash -- --nocapture

bench: ## Measure, beside a peer where there is one
	$(CARGO) bench --locked --workspace --bench validate
	$(CARGO) bench --locked --workspace --bench store
	$(CARGO) bench --locked --workspace --bench server
	$(CARGO) bench --locked --workspace --bench engine
	$(CARGO) bench --locked --workspace --bench workspaces
	$(CARGO) bench --locked --workspace --bench machines
	$(CARGO) bench --locked --workspace --bench up

fuzz: ## Try to break what reads requests, patches, schemas, states, records and paths, for some minutes
	CAPT_FUZZ_SEED=$${CAPT_FUZZ_SEED:-$$RANDOM} CAPT_FUZZ_CASES=$${CAPT_FUZZ_CASES:-1000000} $(CARGO) test --locked --release --workspace --test fuzz -- --nocapture
	CAPT_FUZZ_SEED=$${CAPT_FUZZ_SEED:-$$RANDOM} CAPT_FUZZ_CASES=$${CAPT_FUZZ_CASES:-1000000} $(CARGO) test --locked --release -p capt-terraform --lib fuzz:: -- --nocapture

crds: ## Write config/crd from the types
	$(CARGO) run --locked --quiet -p capt -- crds --output-dir config/crd

docs: ## Write docs/reference from the program and the CRDs
	mkdir -p docs/reference
	$(CARGO) run --locked --quiet -p capt -- reference cli >docs/reference/cli.md
	$(CARGO) run --locked --quiet -p capt -- reference api >docs/reference/api.md

.PHONY: book
book: ## Build docs/ as a book into target/book
	@if command -v mdbook >/dev/null; then mdbook build docs && echo "book: target/book/index.html"; \
	else echo "mdbook is not installed: get it with $(CARGO) install --locked mdbook, or read docs/introduction.md" >&2; exit 1; fi

fmt: ## Format the code
	$(CARGO) fmt --all

peers: ## Build kube-apiserver, etcd, kubectl, OpenTofu, Cluster API core and clusterctl where they are missing
	e2e/peers/build

tools: moto ## Get what the other verbs can use and the machine lacks
	@if command -v tofu >/dev/null || command -v terraform >/dev/null; then echo "tools: Terraform or OpenTofu is installed"; \
	else e2e/peers/build tofu && echo "tools: add OpenTofu to your PATH: export PATH=\"$$(e2e/peers/build --print-dir):\$$PATH\""; fi
	@if command -v cargo-deny >/dev/null; then echo "tools: cargo-deny is installed"; \
	else $(CARGO) install --locked --quiet cargo-deny@0.20.2; fi

# A server that answers as AWS does; where Python is, it is installed below the cache.
.PHONY: moto
moto:
	@cache="$${CAPT_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/capt}"; \
	if command -v moto_server >/dev/null || [[ -x $$cache/moto/bin/moto_server ]]; then :; \
	elif command -v python3 >/dev/null; then \
	  python3 -m venv "$$cache/moto" && "$$cache/moto/bin/pip" install --quiet 'moto[server]==5.2.1'; \
	else echo "Python is not installed: moto is left out"; fi
