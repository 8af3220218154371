# Two commands: `make demo` and `make test`. Each installs what it needs once, into .venv.
# `make faults` attacks the package for half an hour and prints how it held (docs/reliability.md).
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
TORCH := torch==2.13.0  # without a hash: its build depends on the machine's processor and GPU

# The locked packages with their hashes, then torch, then ipl itself with what is there by now.
define install
$(PIP) --require-hashes -r $(1)
$(PIP) $(TORCH)
$(PIP) --no-deps --no-build-isolation -e .
$(BIN)/python -m pip --disable-pip-version-check check
endef

# A file's tests stay on one worker, which makes their fixtures once; slow files go first.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: demo test docs notebook faults lint lock sbom wheel lowest setup clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp
	$(BIN)/ipl demo

test: lint
	$(BIN)/pytest $(PARALLEL) --durations 20

# The documentation site, in site/; a broken link or reference is an error.
docs: .venv/test.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The first tutorial as an executed notebook; a test says when it has to be made again.
notebook: .venv/test.stamp
	$(BIN)/python -m tests.helpers.tutorial_notebook

faults: .venv/test.stamp
	$(BIN)/pytest tests/faults --faults long -o faulthandler_timeout=0 -n auto --maxschedchunk 1

lint: .venv/test.stamp
	$(BIN)/ruff check src tests conftest.py benchmarks docs/hooks.py .ci
	$(BIN)/ruff format --check src tests conftest.py benchmarks docs/hooks.py .ci
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests benchmarks docs *.md

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ipl needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml requirements.txt | .venv/bin/python
	@echo "Installing ipl into .venv (once; torch is large) ..."
	$(call install,requirements.txt)
	@touch $@

.venv/test.stamp: pyproject.toml requirements-test.txt requirements-open-clip.txt | .venv/bin/python
	@echo "Installing ipl and its test tools into .venv (once; torch is large) ..."
	$(call install,requirements-test.txt)
	$(PIP) --require-hashes --no-deps --upgrade --target .venv/open_clip -r requirements-open-clip.txt
	@touch $@ .venv/demo.stamp

# The versions and hashes of everything that is installed; UPGRADE=--upgrade takes the newest.
lock:
	uv pip compile -q $(UPGRADE) pyproject.toml --group build --extra test -o requirements-test.txt
	uv pip compile -q pyproject.toml --group build --no-emit-package triton -c requirements-test.txt -o requirements.txt

# What is installed, as a CycloneDX file with versions, licences and hashes.
sbom: .venv/test.stamp
	$(BIN)/python .ci/sbom.py dist/sbom.cdx.json

clean:
	rm -rf .venv

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
