# Needs Python ≥ 3.11, git and make; everything else goes into .venv/. Choose another interpreter with `make PYTHON=…`.
.DEFAULT_GOAL := help
.PHONY: setup demo test test-slow bench leaderboard findings learned-page tune docs lint format clean help
.DELETE_ON_ERROR:

VENV := .venv
STAMP := $(VENV)/.stamp
RUN := $(VENV)/bin/python
WORKERS ?= auto

# Many small arrays: a second thread in BLAS or torch only waits, and a spinning one starves its neighbours.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
export PYTHONUNBUFFERED = 1

# An environment whose interpreter is gone (an upgraded or removed Python) counts as none.
$(shell test -x $(RUN) || rm -f $(STAMP))

setup: $(STAMP) ## create or refresh .venv/

# The stamp comes off first and on last, so that an interrupted set-up is seen: it begins anew.
$(STAMP): pyproject.toml constraints.txt
	@test -f $@ || rm -rf $(VENV)
	@rm -f $@
	@test -x $(RUN) || for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	    $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    $$python -m venv $(VENV) && exit; \
	done; test -x $(RUN) || { echo "no Python ≥ 3.11 with venv and ensurepip found: name one with PYTHON=…" >&2; exit 1; }
	@echo "Installing into $(VENV)/ with $$($(RUN) --version): a minute or two …"
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt -e '.[all]'
	@touch $@

demo: $(STAMP) ## compare the policies on the demo scenarios; writes results/demo/
	$(RUN) evaluate.py --policies static,naive,closed-form,windowed-closed-form,dual-timescale,least-completion,priced-completion,learned,learned-price --scenarios demo --seeds 3 --out results/demo

test: lint ## lint, types and the test suite (WORKERS=0: one process)
	$(RUN) -m pytest -n $(WORKERS) --maxprocesses 8

test-slow: $(STAMP) ## the tests that take minutes or need the network
	$(RUN) -m pytest -m slow

bench: $(STAMP) ## speed figures; writes results/bench.json and docs/performance.md
	$(RUN) -m benchmarks

findings: $(STAMP) ## put six questions to the paper; writes docs/findings.md and docs/results/findings.json
	$(RUN) -m docs.findings

learned-page: $(STAMP) ## compare the shipped learned policies; writes docs/learned.md and docs/results/learned.json
	$(RUN) -m docs.learned --seeds 30 --hindsight-seeds 1

# The command of the model's card, then the model that it gives beside the shipped one, on episodes that neither has met.
reproduce: $(STAMP) ## train the shipped policy `learned` anew and compare the two; writes runs/reproduced/ and results/reproduced/
	$(RUN) train.py --algo ppo --scenario train --timesteps 4000000 --seed 0 --set teacher=load-aware --set critic_rollouts=5 --set 'validation_scenarios=["validation"]' --set validation_seeds=8 --set checkpoint_every=500000 --out runs/reproduced
	$(RUN) evaluate.py --policies windowed-closed-form,dual-timescale,learned,runs/reproduced/model.zip --scenarios validation --seeds 10 --seed-start 570000 --out results/reproduced

# Studies go on where they stopped, and those in agents/tuned/ are finished: delete them to make them anew. All have the
# same scenarios of the training split: those that it had when the first of them were made.
TUNE := --trials 30 --seeds 1 --scenarios burst-on-off,clumped-arrivals,diurnal-conversation,drift-mix,light-load,link-20,mix-wander,paper-stationary,train-bursts,train-classes,train-faults,train-large,train-link-states,train-links,train-mixes,train-sessions,train-small,train-tail --sampler-seed 0 --validation-seeds 4 --out agents/tuned

tune: $(STAMP) ## tune the scripted policies; writes agents/tuned/ and a table in docs/evaluation.md
	$(RUN) -m prfaas_env tune long-timescale $(TUNE)
	$(RUN) -m prfaas_env tune dual-timescale $(TUNE)
	$(RUN) -m prfaas_env tune sliding-window $(TUNE)
	$(RUN) -m prfaas_env tune load-aware $(TUNE)
	$(RUN) -m prfaas_env tune priced-completion $(TUNE)
	$(RUN) -m docs.tuning_table

# A reference is kept while its entry is there: delete that to make it anew, which takes half an hour of processor time.
ENTRY = $(RUN) evaluate.py --scenarios quick --seeds 10 --policies $(1) --out results/leaderboard/$(1) --submit leaderboard/entries/$(1).json

leaderboard: leaderboard/entries/hindsight.json ## evaluate every shipped policy; writes leaderboard/
	for policy in $$($(RUN) -m prfaas_env leaderboard contenders); do $(call ENTRY,$$policy) || exit 1; done
	$(RUN) -m prfaas_env verify leaderboard/entries/*.json
	$(RUN) -m prfaas_env leaderboard build

leaderboard/entries/%.json: | $(STAMP)
	$(call ENTRY,$*)

docs: $(STAMP) ## the documentation site, without a network; writes build/site/
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --config-file .mkdocs.yml

lint: $(STAMP) ## style and types, without changing anything
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

format: $(STAMP) ## put the code into the project's style
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

clean: ## remove .venv/, caches and build output (results/ stays)
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
