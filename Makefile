# One line per step; `make` alone lists the targets. VENV= puts the environment elsewhere, PYTHON= picks the interpreter.

VENV    ?= .venv
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
ROWS    ?= 1000000
TURNS   ?= 5
PORT    ?= 8080
LINES   := oldest 2.11 3.0 3.1 3.2 3.3
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
PIP     := $(BIN)/python -m pip --disable-pip-version-check -q

# Of make fuzz.
SCENARIOS ?= 2000
SEED      ?= 1
PROCESSES ?= 2

# Jobs, tests and tools all find this environment's programs (spark-submit, airflow) first.
export PATH := $(abspath $(BIN)):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help env demo airflow test fuzz chaos lint types imports check format coverage bench bench-page bench-planning matrix $(LINES:%=matrix-%) docs build wheel-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%.-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(READY) ## create the environment and fetch Delta's jars, once

$(READY): pyproject.toml constraints/dev.txt tools/fetch_jars.py
	@test -x $(BIN)/python || { echo "env: creating $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "env: Python 3.11 or later is needed; say which: make env PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "env: installing the pinned packages (minutes the first time)"
	@$(PIP) install -c constraints/dev.txt -e '.[spark,fast,postgres,docs,dev]'
	@$(BIN)/python tools/fetch_jars.py
	@touch $@

demo: $(READY) ## run the main job: a flow over two days with late rows, and a backfill
	@$(BIN)/python -m tools.demo

airflow: $(READY) ## open Airflow over the demo's tables: the page, a backfill, its approval: PORT=8080
	@$(BIN)/python -m tools.demo_site --port $(PORT)

test: $(READY) ## run the whole test suite
	@$(BIN)/python -m tools.run_tests --lanes 2 spark e2e spark/fresh chaos airflow browser spark/differential unit

fuzz: $(READY) ## random worlds against recomputing by hand: SCENARIOS=2000 SEED=1 PROCESSES=2
	@$(BIN)/python -m pytest tests/spark/differential -m long
	@$(BIN)/python -m tests.spark.differential --scenarios $(SCENARIOS) --seed $(SEED) --processes $(PROCESSES)

chaos: $(READY) ## drivers and workers killed at every point (an hour)
	@$(BIN)/python -m pytest tests/chaos -m "long or not long"

lint: $(READY) ## ruff: rules and format
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check . && echo "lint: ok"

format: $(READY) ## ruff: repair what can be repaired
	@$(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q .

types: $(READY) ## mypy --strict
	@$(BIN)/mypy --no-error-summary && echo "types: ok"

imports: $(READY) ## the contract between the floors
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }
	@echo "imports: ok"

check: lint types imports ## lint, types and imports

coverage: $(READY) ## branch coverage of the pure floors
	@$(BIN)/python -m pytest -q tests/unit --cov --cov-report=term

bench: $(READY) ## benchmarks, then docs/benchmarks.md; ROWS= source rows, TURNS= how often each (half an hour and up)
	@$(BIN)/python -m benchmarks.incremental --rows $(ROWS) --turns $(TURNS)
	@$(BIN)/python -m benchmarks.submit --rows $(ROWS) --turns $(TURNS)
	@$(BIN)/python -m benchmarks.warehouse --rows $(ROWS)
	@$(BIN)/python -m benchmarks.alternatives --rows $(ROWS) --turns $(TURNS)
	@$(BIN)/python -m benchmarks.page

bench-page: $(READY) ## docs/benchmarks.md from the results that are there
	@$(BIN)/python -m benchmarks.page

bench-planning: $(READY) ## what planning costs as the ledger grows (minutes)
	@$(BIN)/python -m benchmarks.planning

matrix: $(LINES:%=matrix-%) ## the Airflow-side tests on every Airflow line (one: matrix-2.11)

$(LINES:%=matrix-%): matrix-%: $(READY)
	@$(BIN)/python -m tools.matrix $*

docs: $(READY) ## the documentation site, in build/site; a warning is an error
	@# With --quiet, MkDocs would not see its own warnings, and so none would be an error.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict >$(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }
	@echo "docs: build/site"

build: $(READY) ## the wheel and the source archive, in dist/
	@rm -rf dist && { $(BIN)/python -m build . >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }; }
	@echo "build:" dist/*

wheel-test: build ## install the wheel alone in a clean environment
	@$(BIN)/python -m tools.wheel_test

clean: ## remove what was built here (the environment stays)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov spark-warehouse metastore_db
