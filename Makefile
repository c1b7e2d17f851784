# Everything starts from a fresh clone: `.venv` is made and filled by itself. Python 3.11 or newer as PYTHON.
PYTHON ?= python3
# Directories of recorded exchanges, separated by spaces. The benchmark uses the first.
CORPUS ?= ../shared/corpus ../shared/corpus-more
RUNS ?= 100000
SEED ?= 20
VENV := .venv
BIN := $(VENV)/bin
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
endif
STAMP := $(VENV)/.installed
# Tests of the packages whose coverage is checked: `include` of [tool.coverage.report] in pyproject.toml.
COVERED := $(wildcard $(addprefix tests/,catalog core interop reasoning schema wire))
# Compiled files are kept even where the environment says otherwise: the tests start several times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check conformance fuzz baseline baseline-check baseline-coverage baseline-coverage-check crash load bench bench-peers there-and-back soak format clean

demo: $(STAMP)
	$(BIN)/python -m examples.demo

test: check
	$(BIN)/python -m pytest -n 2 $(COVERED) --cov --cov-report=term
	$(BIN)/python -m pytest -n 2 tests $(COVERED:%=--ignore=%)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

conformance: $(STAMP)
	$(BIN)/python tests/conformance $(CORPUS)

# Records under tests/baseline/data what the code does today; its coverage takes as long as the tests
baseline: $(STAMP)
	$(BIN)/python tests/baseline write --corpus $(CORPUS)
	$(MAKE) baseline-coverage

# Compares with it, all but the coverage. ARGS="--only runs" compares one part, ARGS=--exit-codes no texts of commands
baseline-check: $(STAMP)
	$(BIN)/python tests/baseline check --corpus $(CORPUS) $(ARGS)

baseline-coverage: $(STAMP)
	$(BIN)/python tests/baseline coverage

baseline-coverage-check: $(STAMP)
	$(BIN)/python tests/baseline coverage-check

# Mutate recorded replies and check the codecs: 6 minutes for 100,000 runs; ONLY=N repeats run N
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz --runs $(RUNS) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

crash: $(STAMP)
	$(BIN)/python tests/crash

# 3,000 runs in waves on each store, and a service with two workers: 2 minutes
load: $(STAMP)
	$(BIN)/python tests/load

# Ends with 1 where a goal is missed or its row is noisy: for a machine that does nothing else meanwhile
bench: $(STAMP)
	$(BIN)/python -m bench --corpus $(firstword $(CORPUS))

# Beside others, each in an environment of its own under .peers: a quarter of an hour, the first time
bench-peers: $(STAMP)
	$(BIN)/python -m bench.peers

# Which tokens come back when a conversation goes from one provider to the other and back
there-and-back: $(STAMP)
	$(BIN)/python -m bench.peers.there_and_back

soak: $(STAMP)
	$(BIN)/python -m bench.soak

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'tenuto needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/python -c "open('$(STAMP)', 'w').close()"

clean:
	rm -rf $(VENV) .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
