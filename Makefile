# Everything on a fresh machine: `make demo` trains an agent and writes a report, `make test` runs the tests.
IS_SUPPORTED := -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p $(IS_SUPPORTED) 2>/dev/null && echo $$p && break; done)
PROCGEN_PYTHON ?= $(shell for p in python3.11 python3.12; do command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

WORKERS ?= 2
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

# Modules are compiled when they are first imported, because pip would compile several hundred megabytes that are never
# used. This needs Python to write bytecode, which containers often forbid.
export PIP_NO_COMPILE := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint docs release attack soak soak-minigrid bench procgen clean
.DELETE_ON_ERROR:

$(VENV)/installed: pyproject.toml constraints.txt
	@$(if $(PYTHON),$(PYTHON) $(IS_SUPPORTED),false) || { echo "envgen needs Python 3.11 to 3.14: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# PyPI's PyTorch for Linux brings CUDA, 6 GB. Without an NVIDIA GPU, take the CPU build, if its index can be reached.
$(VENV)/torch: $(VENV)/installed
	@[ "$$(uname)" != Linux ] || command -v nvidia-smi > /dev/null || $(BIN)/python -m pip install --quiet --no-deps \
		--retries 0 --timeout 10 --index-url $(TORCH_CPU_INDEX) "$$(grep ^torch== constraints.txt)" 2> /dev/null || true
	touch $@

$(VENV)/learning: $(VENV)/torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train]'
	touch $@

$(VENV)/complete: $(VENV)/torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,lint,play]'
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt bfcl-eval
	touch $@

demo: $(VENV)/learning
	$(BIN)/envgen demo

lint: $(VENV)/complete
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

test: lint
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile

# The slow tests as well, and all commands of the README and the docs, in an empty home.
test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
	$(BIN)/python tools/newcomer.py --limit 60

# The documentation as a site, in site/index.html. Building needs no network; the warning is about a later MkDocs.
docs: $(VENV)/complete
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# The wheel and the source distribution, trained policies with model cards, and the data set of results, in dist/.
release: $(VENV)/complete
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/python tools/policies.py pack
	$(BIN)/python tools/dataset.py

# Hostile inputs and interruptions, for about an hour; OPTIONS="--scale 0.1" runs a tenth of them.
attack: $(VENV)/complete
	$(BIN)/python tests/attack/run.py --out docs/reliability.md $(OPTIONS)

# Ten million steps of each world beside its reference while memory is watched, and runs that are interrupted, for many
# hours; with OPTIONS="--state out/soak.json", repeating the command continues.
soak: $(VENV)/complete .procgen/installed
	$(BIN)/python tests/attack/run.py --suite soak --out docs/reliability.md $(OPTIONS)

# A million steps compared with the package `minigrid`.
soak-minigrid: $(VENV)/complete
	$(BIN)/python benchmarks/minigrid_parity.py --steps 1000000

bench: $(VENV)/installed .peers/installed
	$(BIN)/python benchmarks/crafter_speed.py --jax-python .peers/bin/python

.peers/installed:
	$(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet craftax envpool
	touch $@

# Procgen, the reference for tests and benchmarks of Heist. It needs an older numpy, hence its own virtual environment.
procgen: .procgen/installed

.procgen/installed:
	@$(PROCGEN_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' || { \
		echo "procgen-mirror has wheels for Python 3.11 and 3.12: make procgen PROCGEN_PYTHON=/path/to/python3.11"; exit 1; }
	$(PROCGEN_PYTHON) -m venv .procgen
	.procgen/bin/python -m pip install --quiet procgen-mirror==0.10.7
	touch $@

clean:
	rm -rf $(VENV) .peers .procgen dist site
