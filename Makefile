# Attention, Taken Apart. `make help` lists the targets; Python 3.11 or newer and make are all they need.

VENV ?= .venv
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3 python,\
  $(shell $(p) -c 'import sys; print("$(p)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TESTED := $(VENV)/.ready-to-test
PEERS ?= .peers
MUTANTS ?= .mutants
PRETENDED ?= streaming-capture notation bert-gates variant-data
SAMPLE ?= 5
SEED ?= 2028

# Inputs that may lie beside the checkout; set the variables to use others, or set them empty to use none.
ifneq ($(wildcard ../shared/models),)
ANALYSIS_MODELS ?= $(abspath ../shared/models)
endif
ifneq ($(wildcard ../shared/data),)
ANALYSIS_DATA ?= $(abspath ../shared/data)
endif
export ANALYSIS_MODELS ANALYSIS_DATA
HF_HUB_OFFLINE ?= 1
TOKENIZERS_PARALLELISM ?= false
export HF_HUB_OFFLINE TOKENIZERS_PARALLELISM
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME

.PHONY: help book test lint unit pretended gpu check bench peers mutants chapter record costs serve clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  VENV=$(VENV)  PYTHON=$(PYTHON)  ANALYSIS_MODELS=$(ANALYSIS_MODELS)  ANALYSIS_DATA=$(ANALYSIS_DATA)"

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; name one: make PYTHON=/path/to/python3"; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --no-input -r requirements.txt
	$(PY) -m pip install -q --no-input --no-deps -e .
	touch $@

$(TESTED): $(READY) requirements-test.txt
	$(PY) -m pip install -q --no-input -r requirements.txt -r requirements-test.txt
	touch $@

book: $(READY)  ## execute what is out of date and build the HTML in _build/html
	$(PY) book/_ext/build.py

test: $(TESTED) lint unit  ## run every check: lint, unit and model tests, chapters against their records, the built pages
	$(PY) book/_ext/build.py --compare
	$(PY) book/_ext/build.py --pretended $(addprefix --chapter ,$(PRETENDED))
	$(PY) -m pytest -q -n 2 --dist worksteal tests/book

lint: $(TESTED)
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports --no-cache

unit: $(TESTED)
	$(PY) -m pytest -q --doctest-modules analysis
	$(PY) -m pytest -q -n 2 --dist loadfile tests/unit tests/models

pretended: $(TESTED)  ## execute every chapter on a GPU that is only pretended, and hold it to its record
	$(PY) book/_ext/build.py --pretended

gpu: $(TESTED)  ## where there is a GPU: its tests, each chapter on it against the record, the records, what it costs
	$(PY) -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and "torch sees no GPU on this machine")'
	$(PY) -m pytest -q -m gpu tests/unit tests/models
	ANALYSIS_DEVICE=cuda $(PY) book/_ext/build.py --compare --again --costs
	$(PY) -m analysis check --longest 3 --device cuda

check: $(READY)  ## recompute the records whose inputs are present
	$(PY) -m analysis check

bench: $(TESTED)  ## measure speed and memory against what one would otherwise do, and beside the peers
	@$(MAKE) --no-print-directory peers || echo "The peers could not be installed (no network?): the comparison is left out."
	$(PY) -m pytest -q tests/benchmarks

peers: $(PEERS)/.ready  ## put the packages that bench compares with into an environment of their own, .peers

$(PEERS)/.ready: requirements-peers.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; name one: make PYTHON=/path/to/python3"; exit 1; }
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -q --no-input -r requirements-peers.txt
	touch $@

mutants: $(TESTED) $(MUTANTS)/.ready  ## change the mathematics in small ways and see whether a test notices: SAMPLE=5 SEED=2028
	$(MUTANTS)/bin/python tests/mutation/plan.py $(SAMPLE) $(SEED) > $(MUTANTS)/plan.json
	$(PY) tests/mutation/run.py $(MUTANTS)/plan.json

$(MUTANTS)/.ready: tests/mutation/requirements.txt
	test -x $(MUTANTS)/bin/python || $(PYTHON) -m venv $(MUTANTS)
	$(MUTANTS)/bin/python -m pip install -q --no-input -r tests/mutation/requirements.txt
	touch $@

chapter: $(READY)  ## execute one chapter anew: C=semi-bias; with another MODEL=, DEVICE= or TEXTS=, into OUT=runs/semi-bias
	@test -n "$(C)" || { echo "Name the chapter: make chapter C=semi-bias"; exit 1; }
	$(if $(ASKED),$(PY) -m analysis run $(C) $(ASKED),$(PY) book/_ext/build.py --chapter $(C))

ASKED = $(if $(MODEL),--model '$(MODEL)') $(if $(DEVICE),--device '$(DEVICE)') $(if $(TEXTS),--texts '$(TEXTS)') \
  $(if $(OUT),--out '$(OUT)')
ASKED := $(strip $(ASKED))

record: $(READY)  ## accept a chapter's new outputs: make record C=semi-bias (then read the diff)
	@test -n "$(C)" || { echo "Name the chapter: make record C=semi-bias"; exit 1; }
	$(PY) -m pytest -q --nbval --record book/$(C).md

costs: $(READY)  ## execute every chapter anew, on DEVICE=, and write what each costs to book/costs.json
	$(if $(DEVICE),ANALYSIS_DEVICE='$(DEVICE)' )$(PY) book/_ext/build.py --again --costs

serve: $(READY)  ## read the built book at http://127.0.0.1:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:  ## remove what was built (not the environment)
	rm -rf _build build *.egg-info
