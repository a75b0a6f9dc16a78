# Two commands do everything on a fresh machine: `make demo` and `make test`. Both are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO_STORE := sqlite:///build/demo.sqlite

.PHONY: demo test survival processors check bench docs clean

demo: $(INSTALLED)
	@mkdir -p build
	@SWEEPDB_STORE=$(DEMO_STORE) PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

test: demo
	$(BIN)/python -m pytest -q -m "not survival and not long"

survival: $(INSTALLED)
	$(BIN)/python -m pytest -q -m "survival and not long"

# The long rounds: every kernel of every device is fitted again, as it is and under other processors' arithmetic.
processors: $(INSTALLED)
	$(BIN)/python -m pytest -q -m long

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	@$(BIN)/python tests/benchmark/run.py

docs: $(INSTALLED)
	$(BIN)/python -m queries.dictionary docs/reference/schema.md
	$(BIN)/python -m tools.report_reference docs/reference/queries.md
	$(BIN)/python -m tools.keyword_types
	$(BIN)/python -m tools.ledger_page docs/reference/expected-errors.md
	$(BIN)/python tests/readme_screen.py README.md

$(INSTALLED): pyproject.toml constraints.txt
	@echo "setting up $(VENV); the first time takes a few minutes" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep -i '^torch==' constraints.txt)" -c constraints.txt
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[evaluate,hub,postgres,plot,test,dev]'
	@touch $@

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
