# Attention, Taken Apart. `make help` lists the targets; Python 3.11 or newer and make are all they need.

# What make would read as a variable of its own is no value: what is left of it would be another.
$(foreach name,VENV PEERS NEWEST PYTHON C MODEL TEXTS DEVICE OUT SEEDS,\
  $(if $(filter command environment,$(firstword $(origin $(name)))),$(if $(findstring $$,$(value $(name))),\
  $(error $(name) holds a dollar sign, which make reads as a variable: give a value without it))))
VENV ?= .venv
ifeq ($(origin PYTHON),undefined)
PYTHON := $(firstword $(foreach p,python3.13 python3.12 python3.11 python3 python,\
  $(shell $(p) -c 'import sys; print("$(p)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
endif
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TESTED := $(VENV)/.ready-to-test
PEERS ?= .peers
NEWEST ?= .newest
$(foreach name,VENV PEERS NEWEST,$(if $(filter-out 1,$(words $($(name))))$(filter / . ..,$($(name))),\
  $(error $(name) must name one folder, without blanks, got '$($(name))')))
SEEDS ?= 1 2 3

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
OMP_WAIT_POLICY ?= PASSIVE
export OMP_WAIT_POLICY
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME

# The examples in docstrings, and the tests of the package, of the machinery and of the studies.
UNIT = OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist loadfile --confcutdir=tests -p no:nbval -p no:anyio \
  --doctest-modules analysis book/lab book/publish book/studies tests/analysis tests/book/lab tests/book/publish \
  tests/book/studies tests/book/cli tests/tools

PAGES = $(PY) -m pytest -q -n 2 --dist worksteal tests/book/pages

.PHONY: help book test chapters slow lint style types unit newest portable gpu check bench peers chapter record paper serve clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  VENV=$(VENV)  PYTHON=$(PYTHON)  ANALYSIS_MODELS=$(ANALYSIS_MODELS)  ANALYSIS_DATA=$(ANALYSIS_DATA)"

# An environment is whole or started over. `.begun` says that make created it, in a folder that was new or empty, and
# `.ready` that everything is in it; where an interruption left the first without the second, it is removed (the mark
# last) and created anew.
define environment
@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; name one: make PYTHON=/path/to/python3"; exit 1; }
@if test -e $(1)/.begun && ! test -e $(1)/.ready; then \
  echo "$(1) is not complete: starting over"; rm -rf $(1)/bin $(1)/[!.]* $(1); fi
@test -x $(1)/bin/python || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
  echo "$(PYTHON) lacks what creates environments. On Debian or Ubuntu, install its package: apt install" \
  "$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; exit 1; }
@test -x $(1)/bin/python || test -z "$$(ls -A $(1) 2>/dev/null)" || { \
  echo "$(1) is neither empty nor an environment: name another folder"; exit 1; }
@test -x $(1)/bin/python || { mkdir -p $(1) && touch $(1)/.begun && $(PYTHON) -m venv $(1); }
endef

# While pip works the mark `.ready` is aside. Where pip fails by itself, say without a network, it comes back as it was.
define install
@echo "pip install $(2)"; trap 'exit 130' INT TERM; ! test -e $(1)/.ready || mv $(1)/.ready $(1)/.aside; \
  $(1)/bin/python -m pip install -q --no-input $(2) || { ! test -e $(1)/.aside || mv $(1)/.aside $(1)/.ready; exit 1; }
endef

$(READY): requirements.txt constraints.txt pyproject.toml
	$(call environment,$(VENV))
	$(call install,$(VENV),-r requirements.txt -c constraints.txt)
	$(call install,$(VENV),--no-deps -e .)
	@touch $@

$(TESTED): $(READY) requirements-test.txt
	$(call install,$(VENV),-r requirements.txt -r requirements-test.txt -c constraints.txt)
	@touch $(READY) $@

book: $(READY)  ## execute what is out of date and build the HTML in _build/html
	$(PY) -m book build

# One process makes the pages; so that no core is idle, the unit tests run beside it.
test: lint chapters  ## the checks of every day: lint, the chapters against their records, unit tests, the built pages
	@$(MAKE) --no-print-directory -j 2 book unit
	$(PAGES) -m "not slow"

chapters: $(READY)  ## hold the chapters to their records; where OTHER_MACHINE is set, nothing of it is stored
	$(PY) -m book build --compare

slow: $(TESTED) book  ## the checks that take longer: whole reports, trainings, other processes, each cell of a story alone
	$(UNIT) -m slow
	$(PAGES) -m slow

lint: $(TESTED)  ## check style, format, types, imports and words
	@$(MAKE) --no-print-directory -j 2 style types

style: $(TESTED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m tools.cells
	$(PY) -m tools.vocabulary

types: $(TESTED)
	$(PY) -m basedpyright --pythonpath $(PY)
	$(VENV)/bin/lint-imports --no-cache

unit: $(TESTED)  ## the inner loop: examples in docstrings and tests, but for those marked slow
	$(UNIT) -m "not slow"

newest: $(NEWEST)/.ready  ## the tests of every day, without the book, with the newest versions that pip finds
	$(MAKE) --no-print-directory unit VENV=$(NEWEST) TESTED=$(NEWEST)/.ready

$(NEWEST)/.ready: pyproject.toml
	$(call environment,$(NEWEST))
	$(call install,$(NEWEST),--upgrade -e ".[dev]")
	@touch $@

portable: $(TESTED)  ## the chapters and unit tests as SEEDS="1 2 3" of other machines (tools/other_machine.py), and elsewhere
	for seed in $(SEEDS); do OTHER_MACHINE=$$seed $(MAKE) --no-print-directory chapters unit || exit 1; done
	OTHER_MACHINE=0 OMP_NUM_THREADS=4 LC_ALL=C TZ=EAST-14 $(MAKE) --no-print-directory chapters
	OTHER_MACHINE=0 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
	  $(MAKE) --no-print-directory chapters

gpu: $(TESTED)  ## where there is a GPU: its tests, each chapter on it against the record, the records
	$(PY) -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and "torch sees no GPU on this machine")'
	$(PY) -m pytest -q -m gpu tests/analysis tests/book/lab tests/book/publish tests/book/studies
	$(PY) -m book build --device cuda --compare
	$(PY) -m book check --longest 3 --device cuda

check: $(READY)  ## recompute the records whose inputs are present
	$(PY) -m book check

bench: $(TESTED)  ## measure speed and memory beside other ways and the peers
	@$(MAKE) --no-print-directory peers || echo "The peers could not be installed (no network?): the comparison is left out."
	OMP_NUM_THREADS=1 $(PY) -m pytest -q --confcutdir=tests -p no:nbval -p no:anyio tests/benchmarks

peers: $(PEERS)/.ready  ## put the packages that bench compares with into an environment of their own, .peers

$(PEERS)/.ready: requirements-peers.txt
	$(call environment,$(PEERS))
	$(call install,$(PEERS),-r requirements-peers.txt)
	@touch $@

# The shell reads these variables itself, since make exports them; so a value may hold quotes and blanks.
OPTIONS = $${MODEL:+--model "$$MODEL"} $${TEXTS:+--texts "$$TEXTS"} $${DEVICE:+--device "$$DEVICE"} $${OUT:+--out "$$OUT"}

chapter: $(READY)  ## execute one chapter anew: C=semi-bias; with another MODEL=, DEVICE= or TEXTS=, into OUT=runs/semi-bias
	@test -n "$$C" || { echo "Name the chapter: make chapter C=semi-bias"; exit 1; }
	$(PY) -m book $(if $(MODEL)$(TEXTS)$(DEVICE)$(OUT),run "$$C" $(OPTIONS),build --chapter "$$C")

record: $(READY)  ## accept a chapter's new outputs: make record C=semi-bias (then read the diff)
	@test -n "$$C" || { echo "Name the chapter: make record C=semi-bias"; exit 1; }
	$(PY) -m pytest -q --nbval --record "book/$$C.md"

paper: $(TESTED)  ## print the built book with headless Chromium: _build/paper/attention-taken-apart.pdf and .epub
	$(PY) -m tools.paper _build/paper

serve: $(READY)  ## read the built book at http://127.0.0.1:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:  ## remove what was built (not the environment)
	rm -rf _build build *.egg-info
