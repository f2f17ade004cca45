#!/bin/bash
# scripts/parts.sh: a part ends at twice its budget with all that it started, and says which tests were running.
set -uo pipefail
. tests/scripts/expect.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cat >"$place/checks" <<'CHECKS'
minute=1
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
  echo "$!" >"$place/left"
  sleep 100
}
part 1 "passes" passes
part 1 "fails" fails
part 1 "hangs" hangs
part 1 "says nothing" true
whole_limit=0
part 1 "comes too late" passes
finish_parts
CHECKS
found=$(place=$place timeout 60 bash "$place/checks" 2>&1)
code=$?

expect "a failure makes the series fail" "$code" '^1$'
expect "each test counts, and each part without tests" "$found" '^5 passed, 3 failed$'
expect "the parts that failed are named" "$found" '^failed: fails, hangs, comes too late'
expect "what a failed test said is at the end" "$(tail -20 <<<"$found")" 'what one said'
expect "a part that hangs is ended" "$found" '^hangs .* ENDED after'
expect "the test that was running is named" "$found" '^  was running: hangs: for ever$'
expect "a test that ended is not" "$(grep -c 'was running: ends in time' <<<"$found")" '^0$'
expect "after the whole limit no part begins" "$found" '^comes too late .* NOT BEGUN'
expect "what a part started ends with it" "$(kill -0 "$(cat "$place/left")" 2>&1 || echo gone)" 'gone'
