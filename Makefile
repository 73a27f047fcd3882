# Each target sets up what it needs: a .venv in this folder, on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := results/demo
DEMO_RUN := env -u HARNESS_DATA $(BIN)/python -m harness run --task intent_resolution --judge minilm-cosine --results $(DEMO)

.PHONY: demo test unit check docs format bench lock clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Every file by its sha256; but torch by its version alone, so that a CPU build is taken where one is at hand.
$(VENV)/.local: $(BIN)/python pyproject.toml constraints.txt requirements/local.lock
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements/local.lock
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q --no-deps -e .
	touch $@

$(VENV)/.dev: $(VENV)/.local requirements/dev.lock
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements/dev.lock
	touch $@

# exit code 1 is "done with missing items": a random model may well answer nothing
demo: $(VENV)/.local
	@$(DEMO_RUN) --model oracle,literal,echo,tiny-random || [ $$? -eq 1 ]
	@$(BIN)/python -m harness report --results $(DEMO)

# one process a core; torch's own threads would only fight for them; bytecode is kept, for each of
# these processes, and of those that tests start, would compile all modules anew
# they write many small files: in memory, where there is room for them
MEMORY := $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 2000000 ] 2>/dev/null && echo TMPDIR=/dev/shm)
PYTEST := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 $(MEMORY) $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test: $(VENV)/.dev
	$(PYTEST)

# the tests that need no process, server, network or released data: under 20 seconds
unit: $(VENV)/.dev
	$(PYTEST) -m unit

check: $(VENV)/.dev
	$(BIN)/ruff format --check harness tests docs benchmarks
	$(BIN)/ruff check harness tests docs benchmarks
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format harness tests docs benchmarks
	$(BIN)/ruff check --fix harness tests docs benchmarks

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

# this program beside its peers and beside limits by hand, on an idle machine: BENCH="--data DIR"
bench: $(VENV)/.dev
	[ -x .venv-peers/bin/lm_eval ] || bash tests/peers/install.sh .venv-peers
	$(BIN)/python -m benchmarks $(BENCH)
# after a change of dependencies; `make lock UPGRADE=--upgrade` takes newer versions of all
lock:
	bash requirements/lock.sh $(UPGRADE)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
