PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := $(sort $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml)))
READY := $(VENV)/.ready
RUNNABLE := $(VENV)/.runnable
PINS := requirements.lock pyproject.toml $(MEMBERS:%=%/pyproject.toml)
# The lock pins everything but our own members, which are installed editable from the tree.
NAMES := agentchat $(foreach m,$(MEMBERS),agentchat-$(notdir $(m)))

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow check format site browser simulate fuzz chaos step-matrix failover image bench bench-counts dist lock clean

help: ## list every target
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with everything pinned by requirements.lock

$(READY): $(PINS)
	@PYTHON="$(PYTHON)" sh deploy/setup-venv all "$(VENV)" $(MEMBERS)
	@touch $@

$(RUNNABLE): $(PINS)
	@PYTHON="$(PYTHON)" sh deploy/setup-venv run "$(VENV)" $(MEMBERS)
	@touch $@

# The port is checked before anything is installed. Without AGENTCHAT_PORT a free port is taken if 8080 is in use.
# Developers' tools are installed by the first target that needs them, and stay.
run: ## start the whole system on embedded servers (Ctrl-C stops it)
	@$(PYTHON) libs/ops/src/agentchat/ops/free_ports.py
	@$(MAKE) -s $(or $(wildcard $(READY)),$(RUNNABLE))
	@exec $(BIN)/agentchat up

test: $(READY) ## run every test on the real servers of the embedded stack (ARGS=)
	@$(BIN)/python -m pytest -n 3 $(ARGS)

test-slow: $(READY) ## run the slow proofs: kills, outages, hostile inputs, wheels, foreign clients, stacks of their own (nightly)
	@$(BIN)/python -m pytest -n 2 -m slow $(ARGS)

check: $(READY) ## lint, format, types, import boundaries
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: $(READY) ## rewrite the code to the house format, and docs/integrate/errors.md, which is generated
	@$(BIN)/ruff check --fix-only -q . ; $(BIN)/ruff format -q .
	@$(BIN)/python -m agentchat.contracts.error_page > docs/integrate/errors.md

SITE_VENV := .site/venv
site: $(SITE_VENV)/.ready ## build the documentation as a site in .site/html; broken links and anchors fail
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict
	@$(BIN)/python -m agentchat.contracts.schemas .site/html/reference

$(SITE_VENV)/.ready: docs/requirements.lock | $(READY)
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(SITE_VENV)
	@$(BIN)/uv pip sync -q --python $(SITE_VENV)/bin/python --require-hashes $<
	@touch $@

PLAYWRIGHT := .site/playwright
browser: $(PLAYWRIGHT)/.ready ## use every page of the console in a Chromium: both schemes, two widths, axe-core (ONLY=; nightly, needs Debian's chromium)
	@PYTHONPATH=$(PLAYWRIGHT) $(BIN)/python -m pytest -n 0 -rs tests/system/test_console_in_browser.py -k "$(ONLY)"

$(PLAYWRIGHT)/.ready: tests/console/requirements.lock | $(READY)
	@rm -rf $(PLAYWRIGHT)
	@$(BIN)/uv pip install -q --python $(BIN)/python --target $(PLAYWRIGHT) --no-deps --require-hashes -r $<
	@touch $@

simulate: $(READY) ## a million histories of the services' core under faults (SEEDS= FROM=), on all cores (nightly)
	@$(BIN)/python -m tests.simulator --seeds $(or $(SEEDS),1000000) --from $(or $(FROM),0)

fuzz: $(READY) ## 20,000 generated requests against the whole system, all checks (nightly)
	@$(BIN)/python -m tests.fuzz.run

chaos: $(READY) ## break everything while conversations run (SEED= REQUESTS= MINUTES=), and judge what came of it
	@$(BIN)/python -m tests.chaos.run faults --seed $(or $(SEED),1) --requests $(or $(REQUESTS),250) --minutes $(or $(MINUTES),5)

step-matrix: $(READY) ## kill, stop, fail processes at each step of a request (SEED= ROUNDS=), and judge what came of it
	@$(BIN)/python -m tests.chaos.run step-matrix --seed $(or $(SEED),1) --rounds $(or $(ROUNDS),113)

failover: $(READY) ## kill and replace Postgres and leaders of NATS under load (ROUNDS=, STREAMS=)
	@for way in synchronous asynchronous none nats; do \
	  $(BIN)/python -m tests.chaos.run failover --way $$way --rounds $(or $(ROUNDS),3) --streams $(or $(STREAMS),12) --seed $(or $(SEED),1) || exit; done

image: $(READY) ## build the image agentchat:VERSION by buildah (TESTS=tests/system: and run these with services in containers)
	@PYTHON=$(BIN)/python sh deploy/build-image $(TESTS)

BASELINES := .bench/venv
bench: $(READY) $(BASELINES)/.ready ## measure the complete system and hand-written baselines (10 min; OPTIONS=--quick: 2 min)
	@$(BIN)/python -m bench $(OPTIONS)

$(BASELINES)/.ready: bench/requirements.lock | $(READY)
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(BASELINES)
	@$(BIN)/uv pip install -q --python $(BASELINES)/bin/python --require-hashes --compile-bytecode -r $<
	@touch $@

bench-counts: $(READY) ## count what one chat costs: statements, transactions, WAL, messages, commands, tasks (30 s)
	@$(BIN)/python -m bench.counting

DIST ?= dist
dist: $(READY) ## build the wheels in dist/ (DIST=), for `pip install --find-links dist agentchat`, or agentchat-client
	@rm -rf $(DIST)
	@for member in $(MEMBERS); do \
	  $(BIN)/uv build -q --wheel --no-build-isolation --python $(BIN)/python -o $(DIST) $$member || exit 1; done

lock: $(READY) ## resolve requirements.lock again from the members' pyproject.toml files
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links $(NAMES:%=--no-emit-package %) \
	  pyproject.toml --group dev $(MEMBERS:%=%/pyproject.toml) -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links -c requirements.lock --group bench -o bench/requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --group generated-clients \
	  -o tests/system/generated_clients/requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --group site -o docs/requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --group browser -o tests/console/requirements.lock

clean: ## remove the virtual environment, run data and caches
	rm -rf $(VENV) dist .run .site .bench .cache .chaos .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
