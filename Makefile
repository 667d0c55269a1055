# Every target sets up .venv by itself; it takes Python 3.11 or newer, git and make.
PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/runs
READY := .venv/ready
AXE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cachewatch-tests

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests wait for servers and processes now and then: one more worker than cores keeps all cores busy.
TESTS := $(BIN)/pytest -p no:cacheprovider -n $$(( $$(nproc) + 1 )) --dist worksteal

ON_POSTGRESQL := $(addprefix tests/service/test_,digests.py held_digests.py claims.py other_hosts.py)

PICTURES := docs/pictures

.PHONY: help demo man outputs test test-slow test-all nightly test-postgresql test-tools crash model hosts powercut mutants axe screenshots docs check bench fuzz hostile growth lock clean

help:            ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

demo: $(RUNS)    ## Compare two revisions made of the bundled documents
	@$(BIN)/cachewatch demo
	@echo "To type the commands of \"Where to go next\": . $(BIN)/activate"

test: $(READY)   ## Run the tests, all but the slow ones (4 to 10 minutes)
	$(TESTS) -m "not slow" --hypothesis-profile=quick $(PYTEST)

test-slow: $(READY) ## Run the slow tests, all but the nightly ones
	$(TESTS) -m "slow and not nightly" $(PYTEST)

test-all: $(READY) ## Run all tests but those of `make crash`, with the coverage gate
	@rm -f .coverage .coverage.*
	$(TESTS) --ignore=tests/crash --cov $(PYTEST)

NIGHTLY := docs test-all test-postgresql crash nightly-model nightly-fuzz nightly-bench
.PHONY: nightly nightly-model nightly-fuzz nightly-bench
nightly: $(READY) ## Run all that takes too long for each change, each part even if another fails: some hours
	$(MAKE) --no-print-directory --keep-going --jobs=1 $(NIGHTLY)

nightly-model:
	$(MAKE) --no-print-directory model MODEL="--minutes 30"

nightly-fuzz:
	if $(MAKE) --silent .venv/atheris; then $(MAKE) --no-print-directory fuzz; else echo "atheris has no wheel for this Python: nothing is fuzzed"; fi

nightly-bench:
	$(MAKE) --no-print-directory bench BENCH=--quick

test-postgresql: $(READY) ## Run tests of the service with a state in PostgreSQL, all that may be in either database with FILES=tests
	$(TESTS) --state postgresql $(or $(FILES),$(ON_POSTGRESQL)) $(PYTEST)

test-tools:      ## Install what tests use beside Python: Debian packages, smtp-sink, axe-core (takes root)
	tests/install-tools

axe:             ## Install axe-core for the tests in a browser, outside the tree
	@mkdir -p $(AXE)
	@cp tests/browser/axe/package.json tests/browser/axe/package-lock.json $(AXE)
	npm ci --prefix $(AXE) --ignore-scripts --no-audit --no-fund --loglevel=error

screenshots: $(READY) ## Make the pictures of the documentation (takes Chromium)
	PYTHONPATH=tests $(BIN)/python docs/screenshots.py $(PICTURES)

man: $(READY)    ## Write the manual pages, which are not in git
	$(BIN)/python docs/manpages.py

outputs: $(READY) ## Write what commands print into OUT=outputs, to compare two commits with diff -r
	PYTHONPATH=tests $(BIN)/python -m outputs $(or $(OUT),outputs)

docs: .venv/docs ## Build the documentation into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

check: $(READY)  ## Run the linters
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

crash: $(READY)  ## Kill and starve a pass at every system call, CRASH=third or CRASH=sample for fewer; takes strace, and time
	CACHEWATCH_CRASH=$(or $(CRASH),all) $(BIN)/pytest -q -s tests/crash

model: $(READY)  ## Play a model of the service at random: MODEL="--minutes 60 --seed 1"
	PYTHONPATH=tests $(BIN)/python -m model.explore $(MODEL)

hosts: $(READY)  ## Kill, pause and cut off two hosts that share a database: HOSTS="--faults 50 --seed 1"; takes root
	PYTHONPATH=tests $(BIN)/python -m hosts.faults $(HOSTS)

powercut: $(READY) ## Cut the power of a disk image in the middle of a pass; takes root and loop devices
	$(BIN)/pytest -q -s -p no:cacheprovider tests/crash/powercut.py

mutants: $(READY) ## Change the code a little, SAMPLE=400 times by SEED=1, and see whether a test notices; takes long
	PYTHONPATH=tests $(BIN)/python -m mutation $(SAMPLE:%=--sample=%) $(SEED:%=--seed=%) $(ONLY:%=--only=%) $(LIMIT:%=--seconds=%)

fuzz: .venv/atheris ## Give random bytes to what reads the files of strangers: FUZZ="--seconds 1200 document"
	PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

hostile: $(READY) ## Feed a daemon with the worst documents that we know of: HOSTILE="--minutes 10"
	PYTHONPATH=tests $(BIN)/python -m fuzz.daemon $(HOSTILE)

bench: $(READY)  ## Measure against git and the peers; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks $(BENCH)

growth: $(READY) ## See whether a daemon's memory grows over 2,000 commits; takes half an hour
	$(BIN)/python -m benchmarks.growth $(GROWTH)

lock:            ## Pin all versions anew (takes uv)
	uv pip compile -q --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  pyproject.toml --group dev -o requirements/dev.txt
	uv pip compile -q --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  pyproject.toml -o requirements/run.txt
	uv pip compile -q --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  --group docs -c requirements/dev.txt -o requirements/docs.txt
	uv pip compile -q --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  --group build -c requirements/dev.txt -o requirements/build.txt

# What cachewatch needs to run is installed first, so that the demo does not wait for the tools of the tests.
$(RUNS): pyproject.toml requirements/run.txt requirements/build.txt
	@echo "Creating .venv with $(PYTHON) ..."
	@$(PYTHON) -m venv .venv
	@echo "Installing the $$(grep -c == requirements/run.txt) packages that cachewatch uses ..."
	@$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	@PYTHONPATH=. $(BIN)/python docs/manpages.py
	@echo "Installing cachewatch from this folder ..."
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Most of these modules are never imported, and compiling all of them takes half a minute.
$(READY): $(RUNS) requirements/dev.txt
	@echo "Installing the $$(grep -c == requirements/dev.txt) packages for tests and linters ..."
	@$(INSTALL) --no-compile --require-hashes -r requirements/dev.txt
	@touch $@

.venv/atheris: $(READY) requirements/fuzz.txt
	@echo "Installing atheris ..."
	@$(INSTALL) --require-hashes -r requirements/fuzz.txt
	@touch $@

.venv/docs: $(READY) requirements/docs.txt
	@echo "Installing Sphinx ..."
	@$(INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

clean:           ## Remove what make has made
	rm -rf .venv build dist man docs/_build .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache
