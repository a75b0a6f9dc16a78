# Two commands do everything on a fresh machine: `make demo` and `make test`. Both are quick the second time. Times are of two idle
# cores, measured on 2026-11-24. The first `make demo` sets up .venv with what asks and evaluates; `make test` adds torch and the tools
# of tests, a minute and a half with packages at hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SMALL := $(VENV)/.small
INSTALLED := $(VENV)/.installed
BESIDE := PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check
PIP := $(BESIDE) -c constraints.txt
# A process a core; tests of a file stay together, since they share what they set up, and the longest files begin (tests/quick.py).
TOGETHER := -q -n auto --dist loadfile --no-loadscope-reorder
# One more where tests wait for servers, browsers and kills.
WAITING := $(TOGETHER) -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# What was red, one after the other; nothing where nothing was (the run itself broke), which is red too.
ALONE := -q -n 0 --maxfail=3 --last-failed --last-failed-no-failures none
# The same order for the same tree, so that a check is red by the change that it checks. A test that hangs ends its process
# and shows where; the slowest are named.
CHECKED := --randomly-seed=2026 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true --durations=25
DEMO_STORE := sqlite:///build/demo.sqlite

# Fits and the figures that documents quote of them: what a processor's own rounding of exp and log may not move.
FIGURES := $(sort $(wildcard tests/*/test_*fit*.py tests/*/test_*calibra*.py tests/*/test_engine_*.py) \
	tests/evaluator/test_family_medians.py tests/evaluator/test_nearness.py tests/evaluator/test_older_engines.py \
	tests/evaluator/test_scoring.py tests/cli/test_error_regions.py tests/cli/test_ledger_summary.py \
	tests/queries/test_expected_error.py tests/test_accuracy_page.py)

# Hundreds of processes would each compile the program anew.
unexport PYTHONDONTWRITEBYTECODE

# Two installations at once would write into one folder.
.NOTPARALLEL:

.PHONY: demo test survival every engine planners catalogue figures long attack check bench docs site release clean

# What is installed in full is not installed again in part.
demo: $(or $(wildcard $(INSTALLED)),$(SMALL))
	@mkdir -p build
	@# A store of an earlier program is upgraded; one that cannot be is made anew: it holds the example alone.
	@[ ! -e build/demo.sqlite ] || $(BIN)/sweepdb db upgrade --store $(DEMO_STORE) >/dev/null 2>&1 || rm -rf build/demo.sqlite*
	@SWEEPDB_STORE=$(DEMO_STORE) PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

# The tests of every change: one case of each kind, PostgreSQL in a few.
test: demo $(INSTALLED)
	$(BIN)/python -m pytest $(TOGETHER) $(CHECKED) -m "not survival and not long"

# Once more as numpy computes on a processor without AVX2 and AVX-512. 24 s.
figures: $(INSTALLED)
	@without=$$($(BIN)/python tests/processors.py); \
	if [ -z "$$without" ]; then echo "numpy has one arithmetic on this processor: nothing to test again"; exit 0; fi; \
	NPY_DISABLE_CPU_FEATURES="$$without" $(BIN)/python -m pytest $(TOGETHER) $(CHECKED) -m "not survival and not long" $(FIGURES)

# Kills, servers, browsers and refits, one of each kind, and PostgreSQL.
survival: $(INSTALLED) engine
	$(BIN)/python -m pytest $(WAITING) $(CHECKED) -m "survival and not long"

# `make test` and `make survival` in one: tests of a file share what they set up, and are collected once. A test that is red beside
# others is named and run once more by itself: servers, browsers and kills can miss a moment on busy cores. Red twice is red.
every: demo $(INSTALLED) engine
	$(BIN)/python -m pytest $(WAITING) $(CHECKED) -m "not long" || $(BIN)/python -m pytest $(ALONE) $(CHECKED)

# DuckDB for browsers, as npm has it, in the user's cache: for `sweepdb publish --to FOLDER.site` and the tests of its page.
engine: $(INSTALLED)
	@$(BIN)/python -c "from sweepdb.site import find_engine; find_engine(None)" || echo "the tests of a published page will skip" >&2

# Packages of planners read the profiles that are written for them. 1 GB, beside the environment: they pin older versions.
PLANNERS := build/planners
planners: $(INSTALLED)
	$(BESIDE) --target $(PLANNERS) --no-deps aibrix==0.8.0 pulp==2.8.0 ai-dynamo==1.0.0 ai-dynamo-runtime==1.0.0
	$(BESIDE) --target $(PLANNERS)/needed 'ray[serve]==2.60.0' kubernetes scipy
	PYTHONPATH=$(PLANNERS):$(PLANNERS)/needed $(BIN)/python -m pytest -q -k itself tests/sweepdb/test_profiles.py

# The example that docs/howto/look-and-draw.md names: 20 models, 6 devices, 3 workloads.
catalogue: $(INSTALLED)
	$(BIN)/sweepdb evaluate --sweep docs/catalogue.yaml --store sqlite:///build/catalogue.sqlite
	$(BIN)/sweepdb publish --to build/catalogue.site --store sqlite:///build/catalogue.sqlite

# Hours. The long rounds: every kernel and engine fitted again, under other processors' arithmetic too; hundreds of kills; every
# further case (tests/long_cases.txt); new examples for every property.
long: $(INSTALLED)
	SWEEPDB_EXAMPLES=new $(BIN)/python -m pytest $(TOGETHER) -m "not long"
	$(BIN)/python -m pytest -q -m long

# Commands killed at a random write, flush or rename, on both databases: prints what was found, as JSON lines.
attack: $(INSTALLED)
	@PYTHONPATH=.:tests $(BIN)/python tests/attack.py 300

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	@$(BIN)/python tests/benchmark/run.py

docs: $(INSTALLED)
	$(BIN)/python -m tools.keyword_types
	$(BIN)/python -m tools.architecture_page docs/explanation/architecture.md
	PYTHONPATH=. $(BIN)/python tests/readme_screen.py README.md
	PYTHONPATH=.:tests $(BIN)/python tests/calibrate_screen.py
	PYTHONPATH=.:tests $(BIN)/python tests/doc_pictures.py
	$(BIN)/python -m tools.accuracy_picture docs/pictures/accuracy.svg

# The documents as a site; a link that leads nowhere is an error.
site: $(INSTALLED)
	$(PIP) -e '.[site]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# What a tag publishes, from HEAD: source archive, wheel, bill of materials, sums; tried in an empty environment of each Python named.
release: $(INSTALLED)
	$(BIN)/python -m tools.release dist $(or $(PYTHONS),$(PYTHON))

# The page in a browser that `make demo` points to is among it.
$(SMALL): pyproject.toml constraints.txt
	@echo "setting up $(VENV); the first time takes half a minute" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e '.[serve]'
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt
	@echo "adding torch and the tools of tests to $(VENV); the first time takes a few minutes" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) "$$(grep -i '^torch==' constraints.txt)"
	@$(PIP) -e '.[measure,dataframe,hub,postgres,dask,s3,plot,pool,pictures,serve,mcp,sign,readers,test,dev]'
	@touch $@

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
