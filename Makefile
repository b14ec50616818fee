# make demo   install into .venv and run the whole path offline: pools, four runs, scores, report
# make test   the same installation, then the tests but those marked slow (SLOW=1: all of them)
# make lint   formatting, lint rules and types
# make bench  the benchmarks of eval/benchmarks/, and the table of their results
# make docs   write the generated pages and build the documentation into site/; a dead link or reference fails
# make audit  known vulnerabilities of the versions in constraints.txt; "not run" where their data is out of reach

# The constraints are for Python 3.11; it is taken where there are several.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
# The site needs madke's core and its generator, and nothing of the 3 GB of the rest.
SITE_VENV  ?= .venv-site
SITE_STAMP := $(SITE_VENV)/installed
DEMO   ?= runs/demo
# Two processes: more would want more memory, as each loads torch and a JVM.
PYTEST_ARGS ?= -n 2 --dist=worksteal $(if $(SLOW),,-m "not slow")

.PHONY: demo test lint docs audit bench clean

demo: $(STAMP)
	$(BIN)/python eval/demo.py $(DEMO)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

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
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[audit]'
	$(BIN)/python -m tests.security.audit

bench: $(STAMP)
	$(BIN)/python -m eval.benchmarks --write

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "madke needs Python 3.11 or later; say which with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[wiki,dense,offline,tasks,ray,report,datasets,dev]'
	@touch $(STAMP)

$(SITE_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	@touch $(SITE_STAMP)

clean:
	rm -rf $(VENV) $(SITE_VENV) build dist site
