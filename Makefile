# Two commands: `make demo` and `make test`. The first of them installs everything into .venv.
# `make faults` attacks the package for half an hour (docs/reliability.md).
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
TORCH := torch==2.13.0  # without a hash: its build depends on the machine's processor and GPU

# A file's tests stay on one worker, which makes their fixtures once; slow files go first.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: demo test docs notebook faults lint lock wheel lowest setup clean
.DELETE_ON_ERROR:

demo: .venv/stamp
	$(BIN)/ipl demo

test: lint
	$(BIN)/pytest $(PARALLEL) --durations 20

# The documentation site, in site/; a broken link or reference is an error.
docs: .venv/stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The first tutorial as an executed notebook; a test says when it has to be made again.
notebook: .venv/stamp
	$(BIN)/python -m tests.helpers.tutorial_notebook

faults: .venv/stamp
	$(BIN)/pytest tests/faults --faults long -o faulthandler_timeout=0 -n auto --maxschedchunk 1

lint: .venv/stamp
	$(BIN)/ruff check src tests conftest.py benchmarks docs/hooks.py
	$(BIN)/ruff format --check src tests conftest.py benchmarks docs/hooks.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests benchmarks docs *.md

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ipl needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

# The lock is complete except for torch, and without the torchvision that open_clip asks for: its
# build has to fit torch's, and the tests do without it (tests/helpers/open_clip_library.py).
.venv/stamp: pyproject.toml requirements.txt | .venv/bin/python
	@echo "Installing ipl and its tools into .venv (once; torch is large) ..."
	$(PIP) --no-deps --require-hashes -r requirements.txt
	$(PIP) --no-warn-conflicts $(TORCH)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# The versions and hashes of everything that is installed; UPGRADE=--upgrade takes the newest.
lock:
	uv pip compile -q $(UPGRADE) pyproject.toml --group build --extra test --extra open_clip -o requirements.txt

clean:
	rm -rf .venv

setup: .venv/stamp
	$(PIP) pre-commit
	$(BIN)/pre-commit install

wheel: .venv/stamp
	$(BIN)/python -m hatchling build --clean
	@ls -l dist

# The tests with the oldest torch and transformers that ipl supports, in an environment of their own.
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip --disable-pip-version-check install --quiet -e '.[test]' 'torch==2.6.*' 'transformers==5.0.*'
	.venv-lowest/bin/pytest $(PARALLEL)
