# make demo   install into .venv and run the whole path offline: pools, four runs, scores, report
# make test   the same installation, then the tests but those marked slow (PYTEST_ARGS= for all of them)
# make lint   formatting, lint rules and types
# make bench  the benchmarks of eval/benchmarks/

# The constraints are for Python 3.11; it is taken where there are several.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
DEMO   ?= runs/demo
PYTEST_ARGS ?= -m "not slow"

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(BIN)/python eval/demo.py $(DEMO)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m eval.benchmarks

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "madke needs Python 3.11 or later; say which with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[wiki,dense,offline,tasks,ray,report,datasets,dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist
