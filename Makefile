# Everything a newcomer needs: `make run`, `make test`. Python 3.11 or newer is all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test check bench bench-check scores lock clean

run: $(VENV)/.runtime
	$(BIN)/headwater serve

test: $(VENV)/.dev
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest

# One case: make bench ONLY=tls ROUNDS=3; with flame graphs in bench/out: make bench PROFILE=1
bench: $(VENV)/.dev
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PROFILE),--flame)

bench-check: $(VENV)/.dev
	$(BIN)/python -m bench.check

scores: $(VENV)/.dev
	$(BIN)/python -m bench.scores

# Pins every dependency with its hashes; says nothing of where packages come from.
lock: $(VENV)/.dev
	$(PIP) install pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url \
		--no-emit-find-links --no-emit-options --no-header --no-annotate \
		--output-file requirements/runtime.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url \
		--no-emit-find-links --no-emit-options --no-header --no-annotate --extra dev \
		--constraint requirements/runtime.txt --output-file requirements/dev.txt pyproject.toml

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headwater needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-deps --require-hashes --requirement requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(PIP) install --no-deps --require-hashes --requirement requirements/dev.txt
	touch $@
