# Everything a fresh Debian or Ubuntu machine needs is fetched here; only git, make and some Python 3 with pip are assumed.
SHELL := /bin/bash
export OMP_NUM_THREADS ?= 1
# What one process compiles, the next one uses, whatever the machine's settings say.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready
SEED ?= 1

.PHONY: help setup test check fuzz quickstart docs study-docs bench gpu-pack clean

help:
	@echo "make quickstart   set up and watch forgetting and its cure on a CPU (SEED=2: with other demonstrations)"
	@echo "make test         set up, lint, check types, run all tests"
	@echo "make check        lint and types only"
	@echo "make fuzz         give every reader of outside files 2,000 odd contents (FUZZ=100: fewer)"
	@echo "make docs         build the documentation into site/index.html"
	@echo "make study-docs   write the tables and figures of docs/study.md anew, from docs/evidence/"
	@echo "make bench        speed: engine against a bare PyTorch loop, cache against LeRobot, twin, two processes, shares, server"
	@echo "make gpu-pack     collect wheels for a GPU machine without network into wheels/"

setup: $(READY)

# The lock decides every version. UV_PYTHON keeps uv from looking for (or downloading) another interpreter. Compiled
# once, LeRobot and torch start twice as fast in every process of ours.
$(READY): uv.lock pyproject.toml scripts/bootstrap.sh scripts/compile_imports.py
	bash scripts/bootstrap.sh $(VENV)
	UV_PROJECT_ENVIRONMENT=$(VENV) UV_PYTHON=$(RUN)/python $(RUN)/uv sync --frozen --inexact
	OMP_NUM_THREADS=1 $(RUN)/python -W ignore scripts/compile_imports.py
	@touch $@

check: setup
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

test: check
	$(RUN)/pytest -m "not gpu" -n 3 --dist loadfile --no-loadscope-reorder

fuzz: export FUZZ ?= 2000
fuzz: setup
	$(RUN)/pytest tests/fuzz --timeout=0

quickstart: setup
	$(RUN)/holdfast run quickstart --seed $(SEED)

# The variable silences a note about the theme's successor; warnings of the build itself are errors.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict
	@echo "Open site/index.html."

study-docs: setup
	$(RUN)/python scripts/study_docs.py

bench: setup
	$(RUN)/python benchmarks/engine.py
	$(RUN)/python benchmarks/loader.py
	$(RUN)/python benchmarks/twin.py
	$(RUN)/python benchmarks/evaluate.py
	$(RUN)/python benchmarks/shares.py
	$(RUN)/python benchmarks/serve.py
	$(RUN)/python benchmarks/first_signs.py

gpu-pack: setup
	bash scripts/gpu_pack.sh $(RUN)

clean:
	rm -rf $(VENV) runs data wheels site
