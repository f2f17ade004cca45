#!/bin/bash
# `make test-long`: the tests with the tag [long], each with all of its trials (elsewhere they make a tenth).
# Usage: scripts/test-long.sh BUILD JOBS
#
# BUILD/test-long.log says what ran, a line for each test: how many trials, and what failed. A program ends after two hours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
jobs=$2
log=$PWD/$build/test-long.log
out=$PWD/$build/test-long.out

{
  echo "Long tests of privgrad at commit $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u '+%F %H:%M') UTC"
  echo "on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $jobs at a time. Every trial was made, from fixed seeds."
  echo
} >"$log"
mkdir -p "$out"

# run PROGRAM   its long tests; adds a line if it did not get to its end, as tests add theirs
run() {
  local name status=0
  name=$(basename "$1")
  PRIVGRAD_TEST_LONG=1 PRIVGRAD_TEST_LOG=$log timeout --kill-after=10 7200 "$1" '[long]' >"$out/$name" 2>&1 || status=$?
  if ! tail -n 3 "$out/$name" | grep -qE '^(All tests passed|test cases:|No test)'; then
    echo "$name: FAILED, it ended with status $status in the middle of a test; see $out/$name" >>"$log"
  elif [ "$status" != 0 ]; then
    tail -n 40 "$out/$name"
  fi
}
export -f run
export log out
printf '%s\n' "$build"/tests/*_test | xargs -P "$jobs" -I{} bash -c 'run {}'

tests=$(tail -n +4 "$log" | wc -l)
failures=$(tail -n +4 "$log" | grep -c FAILED || true)
printf '\n%d passed, %d failed\n' "$((tests - failures))" "$failures" >>"$log"
cat "$log"
[ "$tests" -gt 0 ] && [ "$failures" = 0 ]
