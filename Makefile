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
UNFETCHED = echo "The Python packages cannot be fetched; name an index that this host reaches in PIP_INDEX_URL and UV_DEFAULT_INDEX, or a proxy in HTTPS_PROXY (docs/install.md), and start again." >&2; exit 3

# The variables on make's command line. ./plimsoll makes options of them (KAFKA=3.9.1 is --kafka=3.9.1) and refuses what
# a command does not take; the other targets take none.
GIVEN := $(filter-out PYTHON -*-command-variables-*-,$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
PLIMSOLL = exec ./plimsoll --from-make "$(GIVEN)"
KINDS := $(subst _,-,$(patsubst campaigns/%/campaign.py,%,$(wildcard campaigns/*/campaign.py)))
COMMANDS := demo run scenarios judge import inspect watch $(KINDS) sample archive doctor up down spark-cluster clean
OTHERS := $(filter-out $(COMMANDS),$(or $(MAKECMDGOALS),help))
$(if $(and $(GIVEN),$(OTHERS)),$(error make $(firstword $(OTHERS)) takes no $(firstword $(GIVEN))=; it takes no variables))

export GX_ANALYTICS_ENABLED := false
# Images often set it; without compiled modules every process takes seconds to import Airflow or Great Expectations.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPATH := $(CURDIR)
export PYTHONUTF8 := 1
ifneq ($(JAVA),)
export PLIMSOLL_JAVA := $(JAVA)
endif

# A row for each kind of campaign: its help, and the options of its first example as variables.
define HELP_OF_KINDS
/^    help="/ { help = $$2 }
/^    examples=/ { wanted = 1 }
wanted && NF > 1 {
	words = split($$2, word, " ")
	row = sprintf("  make %-14s %s", word[1], help) (words > 1 ? ":" : "")
	for (i = 2; i < words; i += 2) { gsub("^--", "", word[i]); gsub("-", "_", word[i]); row = row " " toupper(word[i]) "=" word[i + 1] }
	print row
	wanted = 0
}
endef

.PHONY: help
help: ## List the targets
	@echo "Plimsoll tests whether a Kafka version keeps its durability guarantees under failures, and how long it takes to recover."
	echo
	grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	echo
	echo "Campaigns, many runs to answer one question:"
	awk -F '"' '$(HELP_OF_KINDS)' $(wildcard campaigns/*/__init__.py)
	echo
	echo "What a target takes, and what it means: ./plimsoll <target> --help. An option is a variable with make: --fault-mix x is FAULT_MIX=x, --all is ALL=1."

$(VENV)/.ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { echo "Python 3.11 to 3.13 is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; exit 3; }
	echo "Setting up: fetching the Python packages of requirements.lock (0.8 GB to download, 1.3 GB on disk, once; a minute or two)."
	[ -x $(VENV)/bin/pip ] || $(PYTHON) -m venv --clear $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; install its venv module (Debian: python3-venv)." >&2; exit 3; }
	uv=$$(grep -oE '^uv==[0-9.]+' requirements.lock)
	[ "$$($(VENV)/bin/uv --version 2>&1 | cut -d ' ' -f 2)" = "$${uv#uv==}" ] || $(VENV)/bin/pip install --quiet --disable-pip-version-check "$$uv" || { $(UNFETCHED); }
	$(UV) pip sync $(PINNED) requirements.lock || { $(UNFETCHED); }
	rm -rf $(VENV)/.uv
	ln -sf ../../plimsoll $(VENV)/bin/plimsoll
	touch $@

# What some targets need beside that: $(VENV)/.dev, $(VENV)/.postgres, $(VENV)/.edn, $(VENV)/.notify, $(VENV)/.workers, $(VENV)/.fuzz.
$(VENV)/.%: requirements-%.lock $(VENV)/.ready
	@echo "Fetching the Python packages of $<, once."
	$(UV) pip install $(PINNED) -r $<
	rm -rf $(VENV)/.uv
	touch $@

# The S3 server of the tests has an environment of its own: botocore does not go with the newest python-dateutil.
$(VENV)/.s3: requirements-s3.lock $(VENV)/.ready
	@echo "Fetching the Python packages of $<, once."
	$(VENV)/bin/uv venv --quiet --clear --python $(PY) $(VENV)/s3
	$(UV) pip sync --quiet --python $(VENV)/s3/bin/python --require-hashes $<
	rm -rf $(VENV)/.uv
	touch $@

.PHONY: setup
setup: $(VENV)/.ready ## Fetch the Python packages (done by every target that needs them)

.PHONY: demo
demo: $(VENV)/.ready ## Set everything up and run the main scenario: a lagging follower, then a killed leader
	@$(PLIMSOLL) run

# The commands of ./plimsoll; the rule for all of them is below.
run: ## Run one scenario: SCENARIO=… KAFKA=… RUNTIME=… RATE=… SEED=… SUBNET=… CLUSTER=mine.yaml METRICS_PORT=…
scenarios: ## List the scenarios and their purposes
judge: ## Judge recorded runs again: RUN="<folder> …"
import: $(if $(filter jepsen,$(FORMAT)),$(VENV)/.edn) ## Judge a history that another tool recorded: HISTORY="<file> …" FORMAT=jepsen
inspect: ## Read a broker's log directory or a segment: LOGS="<folder or file> …"
watch: ## Watch the replicas of your own cluster, read only: TOPICS="<topic> …" CLUSTER=mine.yaml (docs/own-cluster.md)
sample: ## Make a small site of real runs, one command of each kind, about an hour: ONLY=run,known-bug
archive: ## List all archived runs and write the page that summarises them (REBUILD=1: from the run folders; METRICS=<file>)
doctor: ## Check this machine: what works, what is missing, and how to install it
up: $(if $(findstring postgresql,$(DB)$(PLIMSOLL_DB)),$(VENV)/.postgres) ## Start Airflow with its web page on PORT=8080 of this machine; DB=postgresql://… METRICS_PORT=…
spark-cluster: ## Start a Spark cluster of a master and two workers on this host (STOP=1: end it)

STARTED := $(filter-out demo down clean,$(COMMANDS))
.PHONY: $(STARTED)
$(STARTED): $(VENV)/.ready
	@$(PLIMSOLL) $@

.PHONY: mutate
mutate: $(VENV)/.ready ## Damage clean recorded runs in every way a checker claims to see, and count what is found
	@$(PY) -m tests.mutations.absence
	exec $(PY) -m tests.mutations.mutate

.PHONY: docs
docs: $(VENV)/.dev ## Write the generated pages of docs/ from the code and the recorded rows
	@exec $(PY) -m tests.docs.writers

.PHONY: bench
bench: $(VENV)/.dev ## Measure every target of the judge's and the clients' performance, most of an hour; python -m bench.targets prints the last figures
	@exec $(PY) -m bench.run

.PHONY: test
test: $(VENV)/.dev $(VENV)/.s3 $(VENV)/.notify ## Run the tests that this machine can run, real brokers included
	@exec $(PY) -m tests.run

.PHONY: test-slow
test-slow: $(VENV)/.dev $(VENV)/.s3 $(VENV)/.workers ## Run the tests that take many minutes
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
	$$compile --group s3 -o requirements-s3.lock
	for group in dev postgres edn notify workers fuzz; do $$compile -c requirements.lock --group $$group -o requirements-$$group.lock; done

.PHONY: down
down: ## Stop Airflow again
	@[ ! -x $(PY) ] || $(PLIMSOLL) down

.PHONY: clean
clean: ## Remove what interrupted runs left behind (ALL=1: of running ones, too; CLUSTER=mine.yaml: on that cluster)
	@[ ! -x $(PY) ] || $(PLIMSOLL) clean
