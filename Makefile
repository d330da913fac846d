# Everything starts from Python 3.11+ and make. Each target sets up what it needs in .venv, once per pyproject.toml.
#
#   make demo      the main job on embedded real data
#   make check     what a change concerns, in a minute or so: lint, contracts, ledger, a sample of the frozen tables
#   make test      the fast tests          make test-all  every test, slow ones included
#   make test-papers   the fast tests of the papers and of the bench
#   make lint      ruff and basedpyright   make docs      the generated pages and the site, build/docs/index.html
#   make bench     measured against others (bench-full: at length; DATA=DIR names the folder of the datasets)
#   make dist      wheel and sdist of a release, hashed pins, bill of materials, provenance (KEY=FILE signs it)
#   make clean     remove everything made here
#
# Another interpreter: make PYTHON=python3.13 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n auto --maxprocesses 2 --dist worksteal
CONTRACTS := tests/contract tests/test_layers.py tests/test_exports.py tests/ledger tests/frozen tests/golden

EXTRAS_run := demo,reproduce,secure,sign
EXTRAS_test := demo,reproduce,secure,numpyro,arviz,cluster,test
EXTRAS_docs := demo,reproduce,secure,sign,docs
# Engines that only the slow tests start.
EXTRAS_engines := spark,postgresql
EXTRAS_lint := demo,reproduce,secure,numpyro,arviz,cluster,test,lint

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Most of the tests' time was spent in compiling the same small programs; the processes of a run share what is compiled.
check test test-papers test-all: export JAX_COMPILATION_CACHE_DIR := $(abspath $(VENV))/compiled
check test test-papers test-all: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
check test test-papers test-all: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := 0
# There is a process for every core already: threads of linear algebra would only wait for each other.
check test test-papers test-all: export OPENBLAS_NUM_THREADS := 1
check test test-papers test-all: export OMP_NUM_THREADS := 1
# Every process of the tests would compile the package and the tests anew where this is set.
check test test-papers test-all: export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo check test test-papers test-all lint docs dist bench bench-full clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.ready-run
	$(BIN)/sordino demo

# Tests near what changed since the last commit, or since the commit BASE; of the frozen and golden tables every 20th row.
check: $(VENV)/.ready-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m tests.changed --source $(BASE) | xargs -r $(BIN)/basedpyright --pythonpath $(BIN)/python
	$(PYTEST) $(PARALLEL) -m "not slow" --sample 20 $(CONTRACTS) $$($(BIN)/python -m tests.changed $(BASE))

test: $(VENV)/.ready-test
	$(PYTEST) $(PARALLEL) -m "not slow" tests src

test-papers: $(VENV)/.ready-test
	$(PYTEST) $(PARALLEL) -m "not slow" papers bench/tests

test-all: $(VENV)/.ready-test $(VENV)/.ready-engines $(VENV)/.ready-docs
	$(PYTEST) $(PARALLEL)

lint: $(VENV)/.ready-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python

docs: $(VENV)/.ready-docs
	$(BIN)/python docs/build.py
	rm -rf build/docs
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --doctree-dir build/doctrees docs build/docs
	@echo build/docs/index.html

# The wheel of a release, hashed pins of all it needs, and a bill of materials (CycloneDX).
dist: $(VENV)/.ready-test
	rm -rf dist
	$(BIN)/python release/build.py dist $(if $(KEY),--key "$(KEY)")

bench bench-full: $(VENV)/.ready-run
	$(if $(DATA),SORDINO_DATA="$(DATA)") $(BIN)/python bench/run.py $(if $(findstring full,$@),--full)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find docs/api -name '*.md' ! -name index.md -delete
	find src tests papers bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ready-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS_$*)]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Sordino needs Python 3.11 or newer, got " + sys.version.split()[0] + "; run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
