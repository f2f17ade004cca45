# The front door. `make run` and `make test` work from a bare clone on Debian 12; `make help` lists the rest.
# Everything here is a short name for something longer; CMakePresets.json holds the build itself.

PRESET ?= release
QUICKSTART := examples/manifests/quickstart.yaml
MANIFEST ?= $(QUICKSTART)
RUN_ARGS ?=
TEST_ARGS ?=
JOBS ?= $(shell nproc)

# The release build is the one that documentation points at, so it has the plain name.
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))

# A first run builds what the quickstart needs. Another manifest may need any plugin; and whoever has built everything
# wants it kept up to date.
EVERYTHING := $(BUILD)/lib/privgrad/privgrad-conformance
RUNTIME := $(if $(or $(filter-out $(QUICKSTART),$(MANIFEST)),$(RUN_ARGS),$(wildcard $(EVERYTHING))),privgrad_runtime,privgrad_quickstart)

SOURCES := git ls-files '*.cpp' '*.hpp' ':!examples/plugin_template'

# A compiler cache changes nothing but time; CMake reads these when it first configures a folder.
ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif

.DEFAULT_GOAL := help
.PHONY: help run test build install bench format check-format lint clean dependencies

help: ## This list
	@echo 'usage: make TARGET [PRESET=release|dev|asan|tsan|ci]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-13s %s\n", $$1, $$2 }'

run: $(BUILD)/.configured ## Train a small private model now [MANIFEST=FILE] [RUN_ARGS="--threads 2 ..."]
	@cmake --build $(BUILD) --parallel $(JOBS) --target $(RUNTIME)
	@$(BUILD)/bin/privgrad run $(MANIFEST) $(RUN_ARGS)
	@[ -e $(EVERYTHING) ] || echo 'So far only what this run needed is built; make build makes the rest.'

test: build ## Build and run every test [PRESET=asan] [TEST_ARGS="-R ledger"]
	@scripts/install-dependencies.sh --test
	@ctest --preset $(PRESET) --parallel $(JOBS) $(TEST_ARGS)

build: $(BUILD)/.configured ## Build everything
	@cmake --build $(BUILD) --parallel $(JOBS)

install: build ## Install program, plugins and SDK [PREFIX=/usr/local]
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

bench: $(BUILD)/.configured ## Measure start-up, whole runs, training steps and accountants
	@cmake -S . -B $(BUILD) -DPRIVGRAD_BUILD_BENCH=ON >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS) --target privgrad_runtime privgrad_bench_training_step privgrad_bench_accounting
	@scripts/bench.sh $(BUILD)/bin/privgrad
	@$(BUILD)/bench/training_step
	@$(BUILD)/bench/accounting

format: ## Format all sources
	@scripts/install-dependencies.sh --format
	@$(SOURCES) | xargs -r clang-format-14 -i

check-format: ## Fail if a source is not formatted
	@scripts/install-dependencies.sh --format
	@$(SOURCES) | xargs -r clang-format-14 --dry-run --Werror

lint: ## Run clang-tidy [FILES="framework/core/src/ledger.cpp ..."]
	@scripts/install-dependencies.sh --lint
	@$(MAKE) --no-print-directory PRESET=lint build-lint/.configured
	@printf '%s\n' $(or $(FILES),$$($(SOURCES) | grep '\.cpp$$' | grep -v '^tests/')) | \
	  xargs -P $(JOBS) -n 1 clang-tidy-14 --quiet -p build-lint

clean: ## Delete every build folder
	@rm -rf build build-ci build-dev build-asan build-tsan build-lint

dependencies:
	@scripts/install-dependencies.sh

# The stamp makes a new preset file reconfigure; CMake itself notices everything else.
$(BUILD)/.configured: CMakePresets.json | dependencies
	@cmake --preset $(PRESET)
	@touch $@
