#!/bin/bash
# scripts/parts.sh: at the whole limit a part is ended with all processes that it started, and the
# running tests are named.
set -uo pipefail
. tests/scripts/expect.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cat >"$place/checks" <<'CHECKS'
minute=1
whole_limit=60
. scripts/parts.sh
passes() { echo "100% tests passed, 0 tests failed out of 3"; }
fails() {
  echo "      Start 1: one"
  echo "1/2 Test #1: one ....***Failed  0.1 sec"
  echo "what one said"
  echo "50% tests passed, 1 tests failed out of 2"
  return 8
}
hangs() {
  echo "      Start 1: ends in time"
  echo "1/2 Test #1: ends in time ....   Passed  0.1 sec"
  echo "      Start 2: hangs: for ever"
  sleep 100 &
  echo "$!" >>"$place/left"
  sleep 100
}
is_slow() { passes; sleep 2; }
leaves_out() { passes; echo "not run: kernels on a GPU: there is none"; }
finds_a_fault() { fails | head -3; sleep 100; }
time_left() { whole_limit=$((SECONDS - begin_all + $1)) short_limit=$whole_limit; }
part 1 "passes" passes
part 1 "fails" fails
part 1 "says nothing" true
part 1 "is slow" is_slow
part 1 "leaves something out" leaves_out
part_if_time 1 "comes to its end" passes
time_left 2
part 1 "hangs" hangs
part 1 "comes too late" passes
part_if_time 1 "need not begin" passes
short_limit=$((SECONDS - begin_all + 2)) whole_limit=60
part_if_time 1 "need not end" hangs
short_limit=60
time_left 2
part_if_time 1 "finds a fault" finds_a_fault
finish_parts
CHECKS
found=$(place=$place timeout 60 bash "$place/checks" 2>&1)
code=$?

expect "a failure makes the series fail" "$code" '^1$'
expect "each test counts, and each part without tests" "$found" '^16 passed, 4 failed, 2 skipped$'
expect "the parts that failed are named" "$found" '^failed: fails, hangs, comes too late, finds a fault'
expect "what a failed test said is at the end" "$(tail -20 <<<"$found")" 'what one said'
expect "a part over its budget goes on" "$found" '^is slow .* over its budget'
expect "a part that hangs is ended at the whole limit" "$found" '^hangs .* ENDED'
expect "the test that was running is named" "$found" '^  was running: hangs: for ever$'
expect "a test that ended is not" "$(grep -c 'was running: ends in time' <<<"$found")" '^0$'
expect "after the whole limit no part begins" "$found" '^comes too late .* NOT BEGUN'
expect "a part that need not finish says that it did not begin" "$found" '^need not begin .* NOT BEGUN'
expect "a part that need not finish says that it was ended" "$found" '^need not end .* ENDED'
expect "what did not run is said again at the end" "$(tail -24 <<<"$found")" '^not run: kernels on a GPU: there is none$'
expect "what a part started ends with it" "$(kill -0 "$(head -1 "$place/left")" 2>&1 || echo gone)" 'gone'
