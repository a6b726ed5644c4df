PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Also possible, at up to 1 GB each: opendp-polars tumult tumult-analytics pipelinedp
PEERS ?= opendp pydp diffprivlib
PIP := -m pip install --quiet --disable-pip-version-check --retries 10 --timeout 60

.DEFAULT_GOAL := help
.PHONY: help install test check matrix lint audit deep demo studio bench reproduce claims docs pictures lock licences advisories dist dist-test clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Create .venv with the locked dependencies and this project

$(VENV)/.installed: requirements/lock.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --require-hashes --requirement requirements/lock.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src # where Python is told to write none, every start would compile anew
	touch $@

test: export OPENBLAS_NUM_THREADS = 1 # two workers share two cores, and sums come out alike on any number of them
test: lint ## Check style, types and imports; run every test and doctest
	$(BIN)/pytest -n auto --maxprocesses 8 --dist loadgroup -m "not deep and not optimised" $(PYTEST_ARGS)
	$(BIN)/pytest -n auto --maxprocesses 8 -m optimised tests # the privacy tests again, under python -O

check: export OPENBLAS_NUM_THREADS = 1
check: lint ## The same without slow tests, Spark and servers: while you work
	$(BIN)/pytest -n auto --maxprocesses 8 --dist loadgroup --quick -m "not deep and not optimised" $(PYTEST_ARGS)

matrix: ## Run every test on every Python >= 3.11 found, with locked and newest dependencies, -O, other locales
	$(PYTHON) tests/matrix.py $(PYTEST_ARGS)

lint: install ## Check style, types and import rules only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: install ## Attack every guarantee, deeply; writes audit.html
	rm -f audit.html
	$(BIN)/discreet audit --deep --workers 2 --out audit.html

MUTANT_TESTS := $(addprefix tests/,$(addsuffix .py,core/test_stability core/test_sensitivities core/test_guarantees core/test_schema core/test_ledger \
	core/test_bounding core/test_reading core/test_snapshot questions/test_parts mechanisms/test_amplification \
	core/test_door core/test_exact_noise mechanisms/test_laws questions/test_quantiles mechanisms/test_geometric \
	questions/test_margins questions/test_tables mechanisms/test_mechanisms mechanisms/test_profiles \
	core/test_choice core/test_ledger_faults questions/test_bounded_statistics mechanisms/test_selection \
	mechanisms/test_group_selection mechanisms/test_omission core/test_entropy questions/test_mean_difference \
	questions/test_naive_bayes audit/test_recomputed_audits))

mutants: install ## Plant small faults and count who notices; goes on where it stopped; MUTANTS="--sample 500"
	$(BIN)/python benchmarks/mutants.py $(MUTANTS) --tests $(MUTANT_TESTS)

deep: install advisories ## Run the long statistical checks
	$(BIN)/pytest -n auto -m deep -o faulthandler_exit_on_timeout=false $(PYTEST_ARGS)
	$(BIN)/pytest -n auto -m "hypothesis and not deep" --hypothesis-profile="new examples" tests
	$(BIN)/python benchmarks/false_alarms.py --out false_alarms.json
	$(BIN)/python benchmarks/mutants.py --sample 200 --seed $$(date +%j) --out mutants.json --tests $(MUTANT_TESTS)

studio: install ## Open the demonstration in the browser
	mkdir -p studio-demo && cp -n examples/survey.csv examples/survey.toml studio-demo/
	$(BIN)/discreet open studio-demo/survey.toml

demo: install ## Run the demonstration
	$(BIN)/python examples/demo.py

bench: install $(PEERS:%=.venv-peers/%/.installed) ## Measure discreet beside its peers (BENCH=noise for one)
	$(BIN)/python benchmarks/run.py $(BENCH)

.venv-peers/%/.installed: benchmarks/peers/requirements-%.txt
	$(PYTHON) -m venv .venv-peers/$*
	.venv-peers/$*/bin/python $(PIP) --requirement $<
	touch $@

reproduce: install ## Re-run the papers' experiments on small grids: studies/quick/index.html
	$(BIN)/discreet reproduce all --quick --workers 2 --out studies/quick

claims: install ## Decide the papers' claims again from the stored runs, and ship the verdicts
	$(BIN)/discreet reproduce all --out docs/studies --data docs/studies
	$(BIN)/discreet reproduce claims --out docs/studies --data docs/studies --json > claims.new
	mv claims.new src/discreet/papers/data/claims.json
	$(BIN)/python docs/stored_studies.py

docs: install ## Draw the figures of the studies and build the documentation into docs/_build/html/VERSION
	$(BIN)/sphinx-build --jobs auto --fail-on-warning --keep-going --quiet docs \
		docs/_build/html/$$($(BIN)/python -c 'import discreet; print(discreet.__version__)')

pictures: install ## Draw the pictures of the README again
	$(BIN)/python docs/pictures.py

lock: ## Resolve the dependencies again and rewrite requirements/lock.txt, with the hash of every file
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) uv
	.venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --group dev \
		--no-header --no-annotate --generate-hashes --output-file requirements/lock.txt pyproject.toml

licences: install ## List the licences of all dependencies in requirements/licences.csv
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) pip-licenses
	.venv-lock/bin/pip-licenses --python $(BIN)/python --format=csv --from=mixed --ignore-packages discreet \
		> requirements/licences.csv

advisories: ## Compare the locked dependencies with published advisories
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) pip-audit
	.venv-lock/bin/pip-audit --disable-pip --require-hashes --requirement requirements/lock.txt

dist: ## Build wheel and sdist into dist/, and check them
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python $(PIP) build twine check-wheel-contents
	rm -rf dist
	.venv-dist/bin/python -m build --outdir dist
	.venv-dist/bin/twine check --strict dist/*
	.venv-dist/bin/check-wheel-contents dist/*.whl
	$(PYTHON) tests/dist.py sizes

dist-test: ## Install the wheel in a fresh environment for each extra, and try it (EXTRAS="tables cli")
	$(PYTHON) tests/dist.py $(EXTRAS)

clean: ## Remove environments, caches and built files
	rm -rf studio-demo .venv .venv-peers .venv-lock .venv-dist .venv-matrix docs/_build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
