# Start with `make run` and `make test`. Only Python 3.11 or newer is required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Test processes read modules that another one compiled; compiling in each takes three times as long
unexport PYTHONDONTWRITEBYTECODE
# Twice as many workers as cores (tests/conftest.py: many tests wait), whole modules per worker (their
# fixtures are expensive), in the order of tests/conftest.py (xdist's own leaves long modules for the
# end). ARGS adds options: make test ARGS="tests/rules -x"
PYTEST := $(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder

.PHONY: run test test-all test-seeds test-pythons install-pythons lint check bench bench-check scores lock clean

run: $(VENV)/.runtime
	$(BIN)/headwater serve

# Everything that needs only Python and a few minutes
test: $(VENV)/.dev
	$(PYTEST) -m "not slow" $(ARGS)

# Everything: also a browser, the corpus, real clusters, killed processes, long fuzzing
test-all: $(VENV)/.dev
	$(PYTEST) $(ARGS)

# The simulation with 1,000 seeds, part of test-all: about two minutes on two cores
test-seeds: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto tests/simulation/test_seeds.py $(ARGS)

# The quick tests on every other Python of this machine that the package supports
test-pythons: $(VENV)/.dev
	.ci/other-pythons

# The environments of test-pythons, which it creates otherwise
install-pythons: $(VENV)/.dev
	+.ci/other-pythons install

lint: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy

check: lint test

# One case: make bench ONLY=tls ROUNDS=3; with flame graphs in bench/out: make bench PROFILE=1
bench: $(VENV)/.dev
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PROFILE),--flame)

bench-check: $(VENV)/.dev
	$(BIN)/python -m bench.check

scores: $(VENV)/.dev
	$(BIN)/python -m bench.scores

# Pins every dependency with its hashes, without naming a package index.
lock: $(VENV)/.dev
	$(PIP) install pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url \
		--no-emit-find-links --no-emit-options --no-header --no-annotate \
		--output-file requirements/runtime.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url \
		--no-emit-find-links --no-emit-options --no-header --no-annotate --extra dev \
		--constraint requirements/runtime.txt --output-file requirements/dev.txt pyproject.toml

clean:
	rm -rf $(VENV) .venv-* build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headwater needs Python 3.11 or newer")'
	@echo "Installing Headwater and its libraries into $(VENV): about half a minute."
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-deps --require-hashes --requirement requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(PIP) install --no-deps --require-hashes --requirement requirements/dev.txt
	touch $@
