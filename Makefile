# Each target sets up what it needs: a fresh clone needs only `make demo` or `make test`.

VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= demo-out
JOBS   ?= 2
# The first interpreter that runs, is new enough and can make environments (a name on the PATH may be an empty shim).
FIND_PYTHON := for name in python3.13 python3.12 python3.11 python3; do \
	if $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$name; break; fi; done

.PHONY: docs wheel demo test fuzz lock audit test-cuda sanitize lint format bench mutants clean help
.DEFAULT_GOAL := help

help:
	@echo 'make demo    fuse a built-in scene, print the scores, write $(OUT)/report.html'
	@echo 'make test    ruff, mypy and the test suite'
	@echo 'make sanitize   the CUDA tests under compute-sanitizer (PYTHON as for test-cuda)'
	@echo 'make test-cuda  the CUDA tests and the laws on the CUDA backend; PYTHON=python3 uses that one as it is'
	@echo 'make lint    ruff and mypy only'
	@echo 'make format  put the code into its standard layout'
	@echo 'make fuzz    damaged data sets and odd calls; FUZZ_SECONDS=60, FUZZ_SEED=0'
	@echo 'make lock    requirements.lock anew; make audit: known holes in what it names'
	@echo 'make docs    the documentation as a site, in build/site'
	@echo 'make wheel   build the wheel, install it into an empty environment, run the demo from there'
	@echo 'make bench   the benchmarks, printed as ratios'
	@echo 'make mutants small random mistakes in src/, and which of them no test notices; NUMBER=200 SEED=1'
	@echo 'make clean   remove what make made'

docs: $(VENV)/.installed-dev
	$(BIN)/python -m mkdocs build --strict

wheel: $(VENV)/.installed-dev
	PYTHON=$(BIN)/python tools/wheel_check.sh

demo: $(VENV)/.installed-all
	$(BIN)/cfusion demo -o $(OUT)

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# On a machine with a GPU. A PYTHON that has NumPy, CuPy and pytest needs nothing installed.
CUDA_TESTS := tests/cuda tests/laws tests/kernels/test_viewing.py tests/frontends/test_mc_cnn_on_device.py
ifdef PYTHON
test-cuda:
	PYTHONPATH=src $(PYTHON) -m pytest -rs $(CUDA_TESTS)
else
test-cuda: $(VENV)/.installed-dev
	@$(BIN)/python -c 'import cupy' 2>/dev/null || $(BIN)/python -m pip install --quiet -e '.[cuda]' || \
	echo 'CuPy cannot be installed here; what needs it is skipped'
	$(BIN)/python -m pytest -rs $(CUDA_TESTS)
endif

# NVIDIA's checker of memory on every CUDA test. Tests of a limit of memory are left out: the checker takes of it too.
sanitize: PYTHON ?= $(BIN)/python
sanitize: $(if $(PYTHON),,$(VENV)/.installed-dev)
	PYTHONPATH=src compute-sanitizer --tool memcheck --error-exitcode 9 $(PYTHON) -m pytest -rs tests/cuda \
	tests/frontends/test_mc_cnn_on_device.py \
	--deselect tests/cuda/test_pipeline.py::test_too_little_memory_is_fused_in_tiles

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Damaged data sets and odd calls, in children with little memory; before a release, an hour of it.
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# Versions and hashes of everything that development and CI install.
lock: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	--python-version 3.11 --extra dev --output-file requirements.lock pyproject.toml

audit: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --strict --disable-pip --require-hashes -r requirements.lock

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# The coverage of the suite is found once and kept in build/mutants; an interrupted run goes on where it was.
NUMBER ?= 200
SEED   ?= 1
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tools.mutants --number $(NUMBER) --seed $(SEED)

clean:
	rm -rf $(VENV) $(OUT) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then echo 'cfusion needs Python 3.11 or newer with its venv module' >&2; exit 1; fi; \
	echo "$$python -m venv $(VENV)"; rm -rf $(VENV); $$python -m venv $(VENV)

$(VENV)/.installed-all: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(VENV)/.installed-all $@
