# The commands of development. Each target sets up what it needs; only Python 3.11+ and make have to be installed.
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of processes. Without compiled modules each of them would compile all of Windlass again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 12

$(BIN)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Windlass needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python hatch_build.py & WINDLASS_BUILD_UI=0 $(BIN)/python -m pip install --quiet --no-compile \
	  --constraint constraints.txt --editable '.[otel,uvloop]' --group dev \
	  && { wait $$! || echo 'notice: the dashboard was not built'; }
	touch $@

setup: $(BIN)/.ready  ## Create the virtual environment

demo: setup  ## Run jobs, kill the worker, and show that no job is lost
	$(BIN)/python -m examples.demo

check: lint unit  ## Check format, lint, types and layers, and run the unit tests

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: setup
	$(BIN)/pytest -q -n 2 tests/unit

# The suite spends part of its time waiting for processes, leases and Postgres, so the other targets run concurrently.
# Environments for other Pythons take long to install: they are tested if CI is set, by .ci/run and by `make pythons`.
ALONGSIDE := lint browser ui-test sdk-typescript-test sdk-go $(if $(CI)$(PYTHONS),pythons)

test: setup ui sdk-typescript  ## Run all tests and checks
	@.ci/together suite $(ALONGSIDE)
	@$(if $(CI)$(PYTHONS),,echo "notice: the unit tests ran on one Python; make pythons runs them on every other one")

# In a fresh clone one process compiles the tests first; otherwise all four processes of the suite would do it.
# Tests marked `exclusive` measure times, so they run alone.
suite: setup ui sdk-typescript
	@test -d tests/__pycache__ || $(BIN)/pytest -q --collect-only >/dev/null || true
	$(BIN)/pytest -q -rs -n 4 --dist worksteal -m 'not soak and not exclusive' --ignore tests/browser
	$(BIN)/pytest -q -rs -m 'exclusive and not soak' $$(grep -rl --include='*.py' mark.exclusive tests)

browser: setup ui  ## Test the dashboard in a browser; the tests of a file share a browser and a server
	$(BIN)/pytest -q -rs -n 2 --dist loadfile tests/browser

pythons: setup  ## Run the unit tests on every other installed Python from 3.11 up
	.ci/pythons

soak: setup  ## Run the long tests: kills and restarts under load, large tables, the benchmark's own tests, many examples
	WINDLASS_TEST_ARCHIVE=on $(BIN)/pytest -q -n 2 -m "not soak" tests/engine
	$(BIN)/pytest -q -m soak --timeout 1800
	$(BIN)/pytest -q -n 2 -m 'hypothesis and not soak' --hypothesis-profile soak --timeout 1800

bench: setup  ## Compare Windlass with other engines
	$(BIN)/python -m bench
	$(BIN)/python -m bench.cron

bench-check: setup  ## Compare ratios with the recorded ones; fails if one is more than 10 % worse. Run it on a quiet machine
	$(BIN)/python -m bench --check

schema: setup  ## Rewrite the schema snapshot from the migrations
	$(BIN)/python -m tools.schema > schema.tmp && mv schema.tmp src/windlass/store/schema.sql

openapi: setup  ## Rewrite the OpenAPI documents that the dashboard's types and the SDKs are generated from
	$(BIN)/python -m tools.openapi > openapi.tmp && mv openapi.tmp ui/openapi.json
	$(BIN)/python -m tools.sdk > openapi.tmp && mv openapi.tmp sdk/openapi.json
	$(BIN)/python -m tools.sdk_go

ui: setup  ## Build the dashboard into the package
	$(BIN)/python hatch_build.py

ui-test: setup  ## Check the types and test the components of the dashboard
	$(BIN)/python hatch_build.py test

sdk-typescript: setup  ## Build the TypeScript SDK
	$(BIN)/python -m tools.typescript build

sdk-typescript-test: setup  ## Check the types and run the tests of the TypeScript SDK
	$(BIN)/python -m tools.typescript test

sdk-go:  ## Check and test the Go SDK; if CI is set, with the race detector and staticcheck
	.ci/go

screenshots: ui  ## Take a screenshot of every view into build/screenshots; copy one to docs/images for the README
	$(BIN)/python -m tests.browser.screenshots build/screenshots
	mkdir -p docs/images && cp build/screenshots/run.png docs/images/run.png

docs: setup  ## Rewrite the reference pages of the HTTP operations, the TypeScript client and the Go SDK
	$(BIN)/python -m tools.reference > docs.tmp && mv docs.tmp docs/reference/http-operations.md
	node sdk/typescript/scripts/reference.mjs > docs.tmp && mv docs.tmp docs/reference/typescript.md
	cd sdk/go/contract && go run ./reference .. > ../../../docs.tmp && mv ../../../docs.tmp ../../../docs/reference/go.md

format: setup  ## Format the code and fix lint errors
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## Remove virtual environments, build output and caches
	rm -rf .venv .venv-3.* .venv-bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo check lint unit test suite browser pythons soak bench bench-check schema openapi ui ui-test sdk-go sdk-typescript sdk-typescript-test screenshots docs format clean
