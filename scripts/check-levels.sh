#!/bin/sh
# Compares the results of the backend cpu at each instruction set that this processor has: norms,
# cells, sums, gradients and losses of all test networks, one hash for each.
#
#   scripts/check-levels.sh [BUILD]     BUILD has tests/plugins_test (make test); build-ci if not given
set -eu
build=${1:-build-ci}
lines() { PRIVGRAD_INSTRUCTIONS=$1 "$build/tests/plugins_test" '[digest]' | sed -n '/^level /,/^end/p' | grep '^network'; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
lines plain >"$place/plain"
status=0
for level in avx2 avx512; do
  if ! PRIVGRAD_INSTRUCTIONS=$level "$build/bin/privgrad" --version >/dev/null 2>&1; then
    echo "not compared: $level, which this processor lacks"
    continue
  fi
  lines "$level" >"$place/$level"
  diff "$place/plain" "$place/$level" >&2 || { echo "$level differs from plain" >&2; status=1; }
done
for level in plain avx2 avx512; do
  [ ! -e "$place/$level" ] || echo "$level: $(wc -l <"$place/$level") networks, $(sha256sum <"$place/$level" | cut -c1-16)"
done
cat "$place/plain"
exit "$status"
