# Every command a developer types. `make` alone lists them.
SHELL   := /bin/bash
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
CLASSES := $(VENV)/spark-classes.jsa
NAME    ?= all
QUICK   ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-oldest docs loops classes check laws mutants bench figures runners format clean java

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) ## a month of flights from two live collectors that fail, counted on Spark by a query that is killed; DAYS=365 for a year
	@$(BIN)/python -u examples/flights_live/demonstration.py $(if $(DAYS),--days $(DAYS))

test: $(READY) ## ruff, mypy and all tests; in the end, how many of the lines they run
	@$(MAKE) --no-print-directory -j 2 check loops
	@$(BIN)/python -m pytest -q -n 2 --ignore tests/runners/spark --cov --cov-report=
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder tests/runners/spark --cov --cov-append --cov-report=
	@echo "coverage: $$($(BIN)/python -m coverage report --format=total --precision=1) % of the lines of src/slackwater"

loops: $(READY) ## compile all loops ahead, each once: tests in two processes would compile many of them twice
	@$(BIN)/python -m slackwater.kernels.warm_up

classes: $(CLASSES) ## archive the classes that Spark loads: each Java of the tests then starts faster, which pays from the second run on

check: $(READY) ## ruff and mypy only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

laws: $(READY) ## only the laws (nothing lost, punctuations never go back, ...), with more examples each
	@$(BIN)/python -m pytest -q tests/laws --hypothesis-profile=thorough

test-long: $(READY) $(CLASSES) ## Spark killed at 230 moments, SEED=7 for others, KILLS=4 for fewer; laws and merges with 10,000 examples each: for nights
	@$(BIN)/python -m pytest -q -m long
	@$(BIN)/python -m pytest -q tests/laws tests/operators/replicas --hypothesis-profile=nightly

test-oldest: $(READY) ## the runner on Spark 4.1.0, the oldest that is accepted, with the least versions of all libraries
	@$(BIN)/python tools/oldest/oldest_spark.py

docs: $(READY) ## build the site of the documents in build/site: open index.html there
	@NO_COLOR=1 $(BIN)/zensical build --strict --clean
	@echo "open build/site/index.html"

mutants: $(READY) ## plant small bugs in kernels, operators, runners and sinks, and list those that no test notices; OF=path MOST=60 SEED=1
	@$(BIN)/python tools/mutants --folder build/mutants $(if $(OF),--of $(OF)) --most $(or $(MOST),60) --seed $(or $(SEED),1)

bench: $(READY) ## NAME=ets|union|sort|sort_as_needed|bands|merge|deduplicate|heartbeats|spark|spark_held|all, QUICK=1 for the short run: a table, then one JSON line
	@$(BIN)/python benchmarks/run.py $(NAME) $(if $(QUICK),--quick)

figures: $(READY) ## redraw docs/figures and fill the figures of README.md and benchmarks/README.md from benchmarks/results
	@$(BIN)/python benchmarks/figures.py
	@$(BIN)/python benchmarks/quote.py

runners: $(READY) ## write docs/runners.md: which feature runs where, and why not where it does not
	@$(BIN)/python tools/runners/write_page.py

format: $(READY) ## let ruff lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only -q .

clean: ## remove the virtual environment and all caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache build src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up: redone only when the pins or the project's metadata change.
$(READY): constraints.txt pyproject.toml
	@$(MAKE) --no-print-directory java
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "slackwater needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "cannot make a virtual environment: install python3-venv"; exit 1; }
	@echo "installing into $(VENV) ..."
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt -e '.[dev,bench]'
	@touch $@

# What Spark's tests start faster with; without it they pass, too.
$(CLASSES): $(READY)
	@$(BIN)/python tests/runners/spark/class_archive.py $@ 2>/dev/null || echo "no archive of classes was made: Spark's tests take longer"

# Spark needs a Java runtime of version 17 or newer.
java:
	@v=$$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1); \
	if [ "$${v:-0}" -ge 17 ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Java 17 or newer is missing: installing it with apt ..."; \
		apt-get update -qq && { apt-get install -qq -y openjdk-17-jre-headless || apt-get install -qq -y default-jre-headless; } >/dev/null; \
	else \
		echo "Java 17 or newer is missing. Install it (Debian: apt install default-jre-headless) and call make again."; exit 1; \
	fi
