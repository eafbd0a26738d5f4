# Every command a person runs. Bare `make` lists them; each target fetches what it needs, once.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
UV = UV_CACHE_DIR=$(VENV)/.uv $(VENV)/bin/uv
PINNED = --quiet --python $(PY) --require-hashes

SCENARIO ?= follower_lag_then_leader_kill
KAFKA ?=
JAVA ?=
RUNTIME ?= auto
RATE ?=
SEED ?=
SUBNET ?=
RUN ?=
HISTORY ?=
FORMAT ?=
OPTIONS ?=
PORT ?= 8080
DB ?=
ALL ?=
BASE ?=
HEAD ?=
PAIRS ?=
BUGS ?=
MINUTES ?=
N ?=
LENGTH ?=
LIMIT ?=
MENU ?=
TRIES ?=
NAME ?=
SETTINGS ?=
REBUILD ?=
CAMPAIGN = $(if $(NAME),--name "$(NAME)") $(if $(SETTINGS),--file "$(SETTINGS)") $(if $(SEED),--seed="$(SEED)")

# What each target takes. Anything else typed beside it would do nothing, and is refused.
TAKES_demo := KAFKA RUNTIME JAVA
TAKES_run := SCENARIO KAFKA RUNTIME RATE SEED SUBNET JAVA
TAKES_judge := RUN JAVA
TAKES_import := HISTORY FORMAT OPTIONS
TAKES_compare := BASE HEAD SCENARIO PAIRS NAME SETTINGS SEED JAVA
TAKES_nightly := NAME SETTINGS SEED JAVA
TAKES_capacity := NAME SETTINGS SEED JAVA
TAKES_known-bugs := BUGS KAFKA TRIES NAME SETTINGS SEED JAVA
TAKES_claims := KAFKA NAME SETTINGS SEED JAVA
TAKES_soak := KAFKA MINUTES SEED MENU RUNTIME JAVA
TAKES_hunt := KAFKA N SEED LENGTH LIMIT NAME MENU RUNTIME JAVA
TAKES_archive := REBUILD
TAKES_up := PORT DB JAVA
TAKES_clean := ALL
TAKEN := $(sort $(foreach takes,$(filter TAKES_%,$(.VARIABLES)),$($(takes))))
$(foreach goal,$(MAKECMDGOALS),$(foreach name,$(filter-out $(TAKES_$(goal)),$(TAKEN)),$(if $(filter command%,$(origin $(name))),\
  $(error make $(goal) takes no $(name)=; it takes $(or $(TAKES_$(goal)),no settings)))))

export GX_ANALYTICS_ENABLED := false
export PYTHONPATH := $(CURDIR)
ifneq ($(JAVA),)
export PLIMSOLL_JAVA := $(JAVA)
endif

.PHONY: help
help: ## List the targets
	@echo "Plimsoll: where the water stands on every replica while things break."
	echo
	grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	echo
	echo "Settings of run: SCENARIO=$(SCENARIO) KAFKA=<version> JAVA=17|21|25|<folder> RUNTIME=auto|docker|process RATE=<records/s> SEED=<n> SUBNET=<range>"

$(VENV)/.ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { echo "Python 3.11 to 3.13 is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; exit 3; }
	[ -x $(VENV)/bin/pip ] || $(PYTHON) -m venv --clear $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; install its venv module (Debian: python3-venv)." >&2; exit 3; }
	echo "Setting up: fetching the Python packages of requirements.lock (about 1.3 GB on disk, once)."
	uv=$$(grep -oE '^uv==[0-9.]+' requirements.lock)
	[ "$$($(VENV)/bin/uv --version 2>&1 | cut -d ' ' -f 2)" = "$${uv#uv==}" ] || $(VENV)/bin/pip install --quiet --disable-pip-version-check "$$uv"
	$(UV) pip sync $(PINNED) requirements.lock
	rm -rf $(VENV)/.uv
	touch $@

# What some targets need beside that: $(VENV)/.dev, $(VENV)/.postgres, $(VENV)/.edn.
$(VENV)/.%: requirements-%.lock $(VENV)/.ready
	@echo "Fetching the Python packages of $<, once."
	$(UV) pip install $(PINNED) -r $<
	rm -rf $(VENV)/.uv
	touch $@

.PHONY: setup
setup: $(VENV)/.ready ## Fetch the Python packages (done by every target that needs them)

.PHONY: demo
demo: $(VENV)/.ready ## Set everything up and run the main scenario: a lagging follower, then a killed leader
	@exec $(PY) -m operators.cli run --scenario follower_lag_then_leader_kill $(if $(KAFKA),--kafka "$(KAFKA)") --runtime $(RUNTIME)

.PHONY: run
run: $(VENV)/.ready ## Run one scenario: SCENARIO=… KAFKA=… RUNTIME=… RATE=… SEED=… SUBNET=…
	@exec $(PY) -m operators.cli run --scenario "$(SCENARIO)" $(if $(KAFKA),--kafka "$(KAFKA)") --runtime "$(RUNTIME)" $(if $(RATE),--rate="$(RATE)") $(if $(SEED),--seed="$(SEED)") $(if $(SUBNET),--subnet "$(SUBNET)")

.PHONY: scenarios
scenarios: $(VENV)/.ready ## List the scenarios and what each is for
	@exec $(PY) -m operators.cli scenarios

.PHONY: judge
judge: $(VENV)/.ready ## Judge recorded runs again: RUN=<folder> [RUN="<folder> <folder>"]
	@[ -n "$(RUN)" ] || { echo "make judge needs RUN=<folder>, such as RUN=runs/<run id>." >&2; exit 3; }
	exec $(PY) -m operators.cli judge $(RUN)

.PHONY: import
import: $(VENV)/.ready $(if $(filter jepsen,$(FORMAT)),$(VENV)/.edn) ## Judge a history from elsewhere: HISTORY=<file> FORMAT=operations|verifiable|ledger|jepsen OPTIONS="--acks 1 …"
	@exec $(PY) -m imports.cli --history="$(HISTORY)" --format="$(FORMAT)" $(OPTIONS)

.PHONY: compare
compare: $(VENV)/.ready ## Compare two versions: BASE=3.0.2 HEAD=3.1.2 SCENARIO=… PAIRS=10 [NAME=…] [SETTINGS=<file>]
	@exec $(PY) -m operators.cli compare $(if $(BASE),--base "$(BASE)") $(if $(HEAD),--head "$(HEAD)") $(if $(filter command% environment%,$(origin SCENARIO)),--scenario "$(SCENARIO)") $(if $(PAIRS),--pairs="$(PAIRS)") $(CAMPAIGN)

.PHONY: nightly
nightly: $(VENV)/.ready ## Run the nightly matrix, screen it, confirm what changed: [NAME=…] [SETTINGS=nightly.yaml]
	@exec $(PY) -m operators.cli nightly $(CAMPAIGN)

.PHONY: capacity
capacity: $(VENV)/.ready ## Measure how much load is safe and plan for it: [NAME=…] [SETTINGS=capacity.yaml]
	@exec $(PY) -m operators.cli capacity $(CAMPAIGN)

.PHONY: known-bugs
known-bugs: $(VENV)/.ready ## Find bugs that Kafka had: [BUGS=kafka-13091,…] [KAFKA=<versions>] [TRIES=10] [NAME=…]
	@exec $(PY) -m operators.cli known_bugs $(if $(BUGS),--bugs "$(BUGS)") $(if $(KAFKA),--kafka "$(KAFKA)") $(if $(TRIES),--tries="$(TRIES)") $(CAMPAIGN)

.PHONY: soak
soak: $(VENV)/.ready ## Faults in an order that a seed draws, with quiet periods: KAFKA=… MINUTES=10 [SEED=…] [MENU=<file>]
	@exec $(PY) -m operators.cli soak $(if $(KAFKA),--kafka "$(KAFKA)") --runtime "$(RUNTIME)" $(if $(MINUTES),--minutes="$(MINUTES)") $(if $(SEED),--seed="$(SEED)") $(if $(MENU),--menu "$(MENU)")

.PHONY: hunt
hunt: $(VENV)/.ready ## Such schedules until a promise is broken, then the smallest: KAFKA=… N=20 [SEED=1] [LENGTH=90] [LIMIT=40] [NAME=…] [MENU=<file>]
	@exec $(PY) -m operators.cli hunt $(if $(KAFKA),--kafka "$(KAFKA)") --runtime "$(RUNTIME)" $(if $(N),--schedules="$(N)") $(if $(SEED),--seed="$(SEED)") $(if $(LENGTH),--seconds="$(LENGTH)") $(if $(LIMIT),--shrink-runs="$(LIMIT)") $(if $(NAME),--name "$(NAME)") $(if $(MENU),--menu "$(MENU)")

.PHONY: claims
claims: $(VENV)/.ready ## Ask one version of Kafka claim by claim: KAFKA=4.3.0 [NAME=…]
	@exec $(PY) -m operators.cli claims $(if $(KAFKA),--kafka "$(KAFKA)") $(CAMPAIGN)

.PHONY: archive
archive: $(VENV)/.ready ## List the archive and write the page over everything (REBUILD=1: from the run folders)
	@exec $(PY) -m operators.cli archive $(if $(REBUILD),--rebuild)

.PHONY: mutate
mutate: $(VENV)/.ready ## Damage clean recorded runs in every way a checker claims to see, and count what is found
	@exec $(PY) -m bench.mutate

.PHONY: test
test: $(VENV)/.dev ## Run the tests: first without a cluster, then against real brokers
	@exec $(PY) -m tests.run

.PHONY: test-slow
test-slow: $(VENV)/.dev ## Run the tests that take many minutes
	@exec $(PY) -m pytest -m slow tests

.PHONY: test-versions
test-versions: $(VENV)/.dev ## Start every minor line of Kafka from 2.8 on once, in each mode that it has (15 min)
	@exec $(PY) -m pytest -m slow tests/integration/test_versions.py

.PHONY: lint
lint: $(VENV)/.dev ## Check style and types
	@$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

.PHONY: lock
lock: $(VENV)/.ready ## Write the lock files anew from pyproject.toml, each package at its newest version that fits
	@compile="$(VENV)/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url"
	$$compile -o requirements.lock pyproject.toml
	for group in dev postgres edn; do $$compile -c requirements.lock --group $$group -o requirements-$$group.lock; done

.PHONY: up
up: export PLIMSOLL_DB = $(DB)
up: $(VENV)/.ready $(if $(findstring postgresql,$(DB)),$(VENV)/.postgres) ## Start Airflow with its web page on PORT=8080 of this machine [DB=postgresql://…]
	@exec $(PY) -m operators.cli up --port "$(PORT)"

.PHONY: down
down: ## Stop Airflow again
	@[ ! -x $(PY) ] || exec $(PY) -m operators.cli down

.PHONY: clean
clean: ## Remove what interrupted runs left behind (ALL=1: of running ones, too)
	@[ ! -x $(PY) ] || exec $(PY) -m operators.cli clean $(if $(ALL),--all)
