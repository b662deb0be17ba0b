# One door for developers. Everything sets itself up from nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of processes. Without compiled modules each of them would compile all of Windlass again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help:  ## What there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 12

$(BIN)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Windlass needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python hatch_build.py & WINDLASS_BUILD_UI=0 $(BIN)/python -m pip install --quiet --no-compile \
	  --constraint constraints.txt --editable '.[otel,uvloop]' --group dev \
	  && { wait $$! || echo 'notice: the dashboard was not built'; }
	touch $@

setup: $(BIN)/.ready  ## Make the virtual environment

demo: setup  ## See it work: a database, a worker, a crash, and nothing lost
	$(BIN)/python -m examples.demo

check: lint unit  ## Format, lint, types, layers, unit tests

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: setup
	$(BIN)/pytest -q -n 2 tests/unit

# The suite waits for processes, leases and Postgres part of the time, so the rest runs beside it. An environment for
# each other Python takes time to install: they are tested where CI is set, by .ci/run and by `make pythons`.
ALONGSIDE := lint browser ui-test sdk-typescript-test sdk-go $(if $(CI)$(PYTHONS),pythons)

test: setup ui sdk-typescript  ## Everything, from nothing
	@.ci/together suite $(ALONGSIDE)
	@$(if $(CI)$(PYTHONS),,echo "notice: the unit tests ran on one Python; make pythons runs them on every other one")

# In a fresh clone one process compiles the tests first; the four of the suite would all do it at the same time.
# Those marked `exclusive` measure times.
suite: setup ui sdk-typescript
	@test -d tests/__pycache__ || $(BIN)/pytest -q --collect-only >/dev/null || true
	$(BIN)/pytest -q -rs -n 4 --dist worksteal -m 'not soak and not exclusive' --ignore tests/browser
	$(BIN)/pytest -q -rs -m 'exclusive and not soak' $$(grep -rl --include='*.py' mark.exclusive tests)

browser: setup ui  ## Tests of the dashboard in a browser; those of a file share a browser and a server
	$(BIN)/pytest -q -rs -n 2 --dist loadfile tests/browser

pythons: setup  ## Unit tests on every other Python from 3.11 up that is found
	.ci/pythons

soak: setup  ## Long trials: kills and restarts under load, large tables, the benchmark's own tests, many examples
	WINDLASS_TEST_ARCHIVE=on $(BIN)/pytest -q -n 2 -m "not soak" tests/engine
	$(BIN)/pytest -q -m soak --timeout 1800
	$(BIN)/pytest -q -n 2 -m 'hypothesis and not soak' --hypothesis-profile soak --timeout 1800

bench: setup  ## Measure, side by side with peers
	$(BIN)/python -m bench
	$(BIN)/python -m bench.cron

bench-check: setup  ## Compare ratios with the recorded ones; fails if one got worse by more than 10 %. By hand, on a quiet machine
	$(BIN)/python -m bench --check

schema: setup  ## Rewrite the schema snapshot from the migrations
	$(BIN)/python -m tools.schema > schema.tmp && mv schema.tmp src/windlass/store/schema.sql

openapi: setup  ## Rewrite the shapes that the dashboard's types and the SDKs are made of
	$(BIN)/python -m tools.openapi > openapi.tmp && mv openapi.tmp ui/openapi.json
	$(BIN)/python -m tools.sdk > openapi.tmp && mv openapi.tmp sdk/openapi.json
	$(BIN)/python -m tools.sdk_go

ui: setup  ## Build the dashboard into the package
	$(BIN)/python hatch_build.py

ui-test: setup  ## Types and components of the dashboard
	$(BIN)/python hatch_build.py test

sdk-typescript: setup  ## Build the SDK for TypeScript
	$(BIN)/python -m tools.typescript build

sdk-typescript-test: setup  ## Types and tests of the SDK for TypeScript
	$(BIN)/python -m tools.typescript test

sdk-go:  ## Check and test the Go SDK; with the race detector and staticcheck where CI is set
	.ci/go

screenshots: ui  ## A picture of every view in build/screenshots, one of them for the README
	$(BIN)/python -m tests.browser.screenshots build/screenshots
	mkdir -p docs/images && cp build/screenshots/run.png docs/images/run.png

docs: setup  ## Rewrite the references of HTTP operations, of the TypeScript client and of the Go SDK
	$(BIN)/python -m tools.reference > docs.tmp && mv docs.tmp docs/reference/http-operations.md
	node sdk/typescript/scripts/reference.mjs > docs.tmp && mv docs.tmp docs/reference/typescript.md
	cd sdk/go/contract && go run ./reference .. > ../../../docs.tmp && mv ../../../docs.tmp ../../../docs/reference/go.md

format: setup  ## Put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## Remove what was built
	rm -rf .venv .venv-3.* .venv-bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo check lint unit test suite browser pythons soak bench bench-check schema openapi ui ui-test sdk-go sdk-typescript sdk-typescript-test screenshots docs format clean
