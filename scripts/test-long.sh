#!/bin/bash
# `make test-long`: tests that take too long for the continuous checks.
# Usage: scripts/test-long.sh BUILD JOBS
#
# These are: the tests with the tag [long], each with all of its trials (elsewhere only a tenth of
# them); the tests with the label `long`; all test programs that can run under the sanitizers;
# clang-tidy on every source; the wheel; the mutants of tests/mutants. BUILD/test-long.log has one
# line for each test with the number of trials and of failures. All this takes hours; each program
# is ended after two.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
jobs=$2
whole_limit=900
. scripts/parts.sh
log_of_trials=$PWD/$build/test-long.log
out=$PWD/$build/test-long.out

# run PROGRAM   runs its long tests; adds a line if the program did not reach its end, as tests add
# theirs
run() {
  local name status=0
  name=$(basename "$1")
  PRIVGRAD_TEST_LONG=1 PRIVGRAD_TEST_LOG=$log_of_trials timeout --kill-after=10 7200 "$1" '[long]' >"$out/$name" 2>&1 || status=$?
  if ! tail -n 3 "$out/$name" | grep -qE '^(All tests passed|test cases:|No test)'; then
    echo "$name: FAILED, it ended with status $status in the middle of a test; see $out/$name" >>"$log_of_trials"
  elif [ "$status" != 0 ]; then
    tail -n 40 "$out/$name"
  fi
}
export -f run
export log_of_trials out

trials() {
  local tests failures
  {
    echo "Long tests of privgrad at commit $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u '+%F %H:%M') UTC"
    echo "on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $jobs at a time. Every trial was made, from fixed seeds."
    echo
  } >"$log_of_trials"
  mkdir -p "$out"
  printf '%s\n' "$build"/tests/*_test | xargs -P "$jobs" -I{} bash -c 'run {}'
  tests=$(tail -n +4 "$log_of_trials" | wc -l)
  failures=$(tail -n +4 "$log_of_trials" | grep -c FAILED || true)
  printf '\n%d passed, %d failed\n' "$((tests - failures))" "$failures" >>"$log_of_trials"
  cat "$log_of_trials"
  [ "$tests" -gt 0 ] && [ "$failures" = 0 ]
}

# sanitized PRESET PROGRAMS [NAMES]   NAMES: a pattern for the tests' names; default: all
sanitized() {
  local preset=$1 programs=$2
  shift 2
  make --no-print-directory build PRESET="$preset" TARGETS="$programs privgrad_plugins" &&
    ctest --preset "$preset" --parallel "$jobs" -R "^(${programs// /|}):$*"
}

# Includes the checks of each pointer, which the preset leaves out because compiling them takes a
# third longer.
all_of_memory() {
  local flags
  cmake --preset asan >/dev/null &&
    flags=$(sed -n 's/^CMAKE_CXX_FLAGS:[A-Z]*=//p' build-asan/CMakeCache.txt | sed 's/-fno-sanitize=[a-z,-]*//') &&
    cmake --preset asan "-DCMAKE_CXX_FLAGS=$flags" >/dev/null &&
    sanitized asan "sdk_test trust_test manifest_test host_test conformance_test"
}

mutants() {
  "$(scripts/environment.sh mutants scripts/mutants-packages.txt)/bin/python" scripts/mutants.py "$build" "$jobs"
}

part 120 "every trial of the long tests" trials
part 15 "packages that load exported models" scripts/environment.sh transformers tests/export/transformers-packages.txt
part 15 "tests with the label long" ctest --test-dir "$build" --output-on-failure --parallel "$jobs" -L '^long$'
part 60 "address and undefined-behaviour sanitizers" all_of_memory
part 30 "thread sanitizer" sanitized tsan "trust_test plugins_test pipelines_test" ".*threads"
part 20 "clang-tidy on every source" make --no-print-directory lint FILES=--all
part 5 "Python package: tests marked long" make --no-print-directory python-test "PYTEST_ARGS=-m long"
part 10 "wheel" make --no-print-directory wheel
part 300 "mutants" mutants
finish_parts
