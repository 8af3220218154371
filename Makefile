# Two commands: `make demo` and `make test`. Each installs what it needs once, into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# A file's tests stay on one worker, which makes their fixtures once; slow files go first.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: demo test lint clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp
	$(BIN)/ipl demo

test: lint
	$(BIN)/pytest $(PARALLEL) --durations 20

lint: .venv/test.stamp
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests benchmarks docs *.md

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ipl needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing ipl into .venv (once; torch is large) ..."
	$(PIP) -e .
	@touch $@

.venv/test.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing ipl and its test tools into .venv (once; torch is large) ..."
	$(PIP) -e '.[test]'
	@touch $@ .venv/demo.stamp

clean:
	rm -rf .venv

.PHONY: setup wheel lowest
setup: .venv/test.stamp
	$(PIP) pre-commit
	$(BIN)/pre-commit install

wheel: .venv/test.stamp
	$(BIN)/python -m hatchling build --clean
	@ls -l dist

# The tests with the oldest torch and transformers that ipl supports, in an environment of their own.
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip --disable-pip-version-check install --quiet -e '.[test]' 'torch==2.6.*' 'transformers==5.0.*'
	.venv-lowest/bin/pytest $(PARALLEL)
