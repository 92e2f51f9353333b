# Start with `make demo` and `make test`. Both install what they need.

PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
SITE := docs/_build/html
# `worksteal` keeps most tests of a file in one worker, so that they share fixtures.
SPREAD := -n auto --dist worksteal
# Tests start many processes: each would compile all libraries again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-more lint check fuzz studies docs oldest oldest-compiled faults browser dist clean
.DELETE_ON_ERROR:

demo: $(VENV)/.ready-demo  ## fit built-in data, compare, draw three figures
	@$(BIN)/dkmeans demo

test: lint check  ## lint, types, import layers, tests, doctests: what every change must pass

test-all:  ## the same, and slow tests
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-more

test-more: studies oldest oldest-compiled faults browser

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: $(VENV)/.ready-dev
	$(BIN)/python -m pytest $(SPREAD) --durations=10

studies: $(VENV)/.ready-dev  ## slow tests of the quality of results
	$(BIN)/python -m pytest $(SPREAD) -m "study and not faults"

# `make test` tries the same examples every time. Counterexamples are kept in fuzz-found.txt.
MINUTES ?= 10
TESTS ?= tests
fuzz: $(VENV)/.ready-dev  ## property tests with new random examples, for MINUTES
	$(BIN)/python tools/fuzz.py --minutes $(MINUTES) $(TESTS)

docs: $(VENV)/.ready-docs  ## build the site: run the gallery, check all links, load nothing from other servers
	@rm -rf docs/_build docs/api docs/gallery docs/notebooks  # remove stale files and run all examples
	$(BIN)/python tools/make_notebooks.py docs/notebooks
	$(BIN)/sphinx-build --nitpicky --fail-on-warning --keep-going --quiet docs $(SITE)
	@$(BIN)/python tools/check_site.py $(SITE)

oldest: $(OLDEST)/.ready  ## the contract on the oldest versions, without compiled loops
	NUMBA_DISABLE_JIT=1 $(OLDEST)/bin/python -m pytest $(SPREAD) -m "not faults and not browser" tests

faults: $(VENV)/.ready-dev  ## tests of dying workers and killed processes: some minutes
	$(BIN)/python -m pytest $(SPREAD) -m faults

# One process: each would start a browser of its own.
browser: $(VENV)/.ready-browser  ## the explorer in Chromium, and its widget in JupyterLab
	$(BIN)/python -m pytest -m browser tests --durations=5

oldest-compiled: $(OLDEST)/.ready  ## compiled loops on the oldest numba
	$(OLDEST)/bin/python -m pytest $(SPREAD) -m "not faults" tests/test_compiled.py

dist: $(VENV)/.ready-dist  ## build sdist and wheel, check them, try the wheel in an environment of its own
	$(BIN)/python tools/check_dist.py

# Virtual environments, rebuilt only when pyproject.toml changes.

$(VENV)/.ready-demo: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing dkmeans into $(VENV) ..."
	@tools/install $(VENV) --editable '.[all]'
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing dkmeans and the tools of its developers into $(VENV) ..."
	@tools/install $(VENV) --editable '.[dev]'
	@touch $@

$(VENV)/.ready-browser: pyproject.toml | $(VENV)/bin/pip
	@tools/install $(VENV) --editable '.[dev,browser]'
	@touch $@

$(VENV)/.ready-docs: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing dkmeans and what builds its site into $(VENV) ..."
	@tools/install $(VENV) --editable '.[docs]'
	@touch $@

$(VENV)/.ready-dist: pyproject.toml | $(VENV)/bin/pip
	@tools/install $(VENV) --editable '.[release]'
	@touch $@

$(OLDEST)/.ready: pyproject.toml tools/oldest.txt | $(OLDEST)/bin/pip
	@echo "Installing the oldest supported dependencies into $(OLDEST) ..."
	@tools/install $(OLDEST) --editable '.[test]' --constraint tools/oldest.txt
	@touch $@

%/bin/pip:
	@tools/make-venv $(PYTHON) $*

clean:
	rm -rf $(VENV) $(OLDEST) docs/_build docs/api docs/gallery docs/notebooks demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
