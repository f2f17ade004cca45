# The front door. `make run` and `make test` work from a fresh clone on Debian 12; `make help` lists the rest.
# Everything here is a short name for something longer; CMakePresets.json holds the build itself.

PRESET ?= release
QUICKSTART := examples/manifests/quickstart.yaml
MANIFEST ?= $(QUICKSTART)
RUN_ARGS ?=
TEST_ARGS ?=
TIME ?= 60
JOBS ?= $(shell nproc)

# The release build is the one that documentation points at, so it has the plain name.
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))

# A first run builds what the quickstart needs. Another manifest may need any plugin; and whoever has built everything
# wants it kept up to date.
EVERYTHING := $(BUILD)/lib/privgrad/privgrad-conformance
RUNTIME := $(if $(or $(filter-out $(QUICKSTART),$(MANIFEST)),$(RUN_ARGS),$(wildcard $(EVERYTHING))),privgrad_runtime,privgrad_quickstart)

# A build waits for another one of this user on this machine: scripts/alone.sh.
BUILD_ALONE := scripts/alone.sh $(JOBS) cmake --build $(BUILD)

SOURCES := git ls-files '*.cpp' '*.hpp' ':!examples/plugin_template'

.DEFAULT_GOAL := help
.PHONY: help run presubmit test test-long build install bench bench-check bench-table python-test wheel release-check docs fuzz format check-form lint changelog clean dependencies bench-dependencies test-dependencies

help: ## This list
	@echo 'usage: make TARGET [PRESET=release|dev|asan|tsan|ci]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-13s %s\n", $$1, $$2 }'

run: $(BUILD)/.configured ## Train a small private model now [MANIFEST=FILE] [RUN_ARGS="--threads 2 ..."]
	@$(BUILD_ALONE) --target $(RUNTIME)
	@$(BUILD)/bin/privgrad run $(MANIFEST) $(RUN_ARGS)
	@[ -e $(EVERYTHING) ] || echo 'So far only what this run needed is built; make build makes the rest.'

# What the tests start comes before the build: the plugin mpi is built where MPI is found when the folder is configured,
# which may have been before.
test: test-dependencies $(BUILD)/.configured ## Build and run every test [PRESET=asan] [TEST_ARGS="-R ledger"]
	@[ -e $(BUILD)/lib/privgrad/plugins/clusters/mpi.privgrad.so ] || cmake -S . -B $(BUILD) >/dev/null
	@$(BUILD_ALONE)
	@ctest --preset $(PRESET) --parallel $(JOBS) $(TEST_ARGS); status=$$?; scripts/not-run.py $(BUILD); exit $$status

presubmit: test-dependencies ## Before you submit: form, lint, types, a build as CI makes it, the tests of what changed
	@scripts/install-dependencies.sh --format --lint --python
	@scripts/presubmit.sh $(JOBS)

test-long: test-dependencies $(BUILD)/.configured ## Every trial of the long tests, with a log of what ran in BUILD/test-long.log
	@scripts/install-dependencies.sh --compilers
	@$(BUILD_ALONE)
	@scripts/test-long.sh $(BUILD) $(JOBS)

build: $(BUILD)/.configured ## Build what users run: the command, every plugin, and their records [TARGETS="all", "trust_test ..."]
	@$(BUILD_ALONE) --target $(or $(TARGETS),privgrad_runtime)

install: build ## Install program, plugins and SDK [PREFIX=/usr/local]
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

bench: bench-dependencies $(BUILD)/.configured ## Measure start-up, whole runs, training steps, accountants and noise (minutes)
	@cmake -S . -B $(BUILD) -DPRIVGRAD_BUILD_BENCH=ON >/dev/null
	@$(BUILD_ALONE) --target privgrad_runtime privgrad_bench
	@scripts/bench.sh $(BUILD)/bin/privgrad
	@for program in training_step training accounting noise correlated federated tables scattering; do $(BUILD)/bench/$$program || exit; done

bench-table: bench-dependencies $(BUILD)/.configured ## Measure the first table of docs/performance.md [PYTHON=one with torch, opacus, dp_accounting, opake]
	@cmake -S . -B $(BUILD) -DPRIVGRAD_BUILD_BENCH=ON >/dev/null
	@$(BUILD_ALONE) --target privgrad_runtime privgrad_bench
	@scripts/performance_tables.py --build $(BUILD) --torch $(or $(PYTHON),python3) front

bench-check: bench-dependencies $(BUILD)/.configured ## Fail if a ratio of times is beyond twice its bound in bench/bounds.json; STRICT=1: beyond it
	@cmake -S . -B $(BUILD) -DPRIVGRAD_BUILD_BENCH=ON >/dev/null
	@$(BUILD_ALONE) --target privgrad_runtime privgrad_bench_ratios
	@$(BUILD)/bench/ratios bench/bounds.json $(BUILD)/bin/privgrad $(if $(STRICT),strict)

python-test: test-dependencies $(BUILD)/.configured ## Install the Python package into an environment of its own, and test it [PYTEST_ARGS="-k run"]
	@scripts/install-dependencies.sh --python
	@scripts/python-test.sh $(BUILD) $(JOBS) $(PYTEST_ARGS)

wheel: $(BUILD)/.configured ## Make a wheel that needs nothing but an interpreter, in dist/, and test it in an empty environment
	@scripts/install-dependencies.sh --python
	@scripts/python-wheel.sh $(BUILD) $(JOBS)
	@sh tests/wheel/wheel_test.sh $(BUILD)

release-check: ## Make the Debian packages and wheels of a release, and try them: an hour or more
	@scripts/install-dependencies.sh --python --release
	@scripts/release-check.sh $(JOBS)

docs: ## Build the site of these pages, in site/, and fail for a link that leads nowhere
	@scripts/install-dependencies.sh --docs
	@$$(scripts/environment.sh site scripts/site-packages.txt)/bin/python scripts/site.py site

changelog: ## Make a section of CHANGELOG.md of the files in changes/, at a release [VERSION=0.2.0]
	@$$(scripts/environment.sh changelog scripts/changelog-packages.txt)/bin/towncrier build --yes --version $(VERSION)

fuzz: ## Feed every reader made-up files, TIME seconds each [TIME=60]
	@$(MAKE) --no-print-directory build PRESET=asan TARGETS=privgrad_fuzz
	@scripts/fuzz.sh build-asan $(TIME) $(JOBS)

format: ## Format all sources
	@scripts/install-dependencies.sh --format
	@$(SOURCES) | xargs -r clang-format-14 -i

check-form: ## Fail if a source or a page is not laid out as CONTRIBUTING.md says
	@scripts/install-dependencies.sh --format
	@scripts/check-form.sh

lint: ## Run clang-tidy on what a change touches [FILES="framework/trust/ledger/src/ledger.cpp ..." or --all]
	@scripts/install-dependencies.sh --lint
	@cmake --preset lint >/dev/null
	@scripts/lint.py build-lint $(JOBS) $(FILES)

clean: ## Delete every build folder
	@rm -rf build build-ci build-dev build-asan build-tsan build-lint

dependencies:
	@scripts/install-dependencies.sh $(if $(filter asan,$(PRESET)),--sanitizers)

bench-dependencies:
	@scripts/install-dependencies.sh --bench

test-dependencies:
	@scripts/install-dependencies.sh --test

# The stamp makes a new preset file reconfigure; CMake itself notices everything else.
$(BUILD)/.configured: CMakePresets.json | dependencies
	@cmake --preset $(PRESET)
	@touch $@
