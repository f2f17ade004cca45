#!/bin/bash
# scripts/alone.sh: one build at a time, whatever happens to the running one.
set -uo pipefail
. tests/scripts/expect.sh
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$place"' EXIT
export XDG_CACHE_HOME=$place PRIVGRAD_WAITED=$place/waited
unset PRIVGRAD_ALONE PRIVGRAD_ALONE_LIMIT
level='echo "with $CMAKE_BUILD_PARALLEL_LEVEL"'

# hold begins a build that lasts until it is killed; returns when the build has begun
hold() {
  rm -f "$place/begun"
  scripts/alone.sh 2 sh -c "touch '$place/begun'; exec sleep 100" &
  holder=$!
  until [ -e "$place/begun" ]; do sleep 0.05; done
}

expect "a build gets its jobs" "$(scripts/alone.sh 3 sh -c "$level")" '^with 3$'
inner="scripts/alone.sh 2 sh -c '$level'; true"
expect "a build inside a build takes no lock" "$(PRIVGRAD_ALONE_LIMIT=5 scripts/alone.sh 3 sh -c "$inner" 2>&1)" '^with 2$'

hold
found=$(PRIVGRAD_ALONE_LIMIT=5 scripts/alone.sh 3 sh -c "$level" 2>&1)
expect "a wait is said" "$found" '^Another build is running; this one waits'
expect "after the limit it runs with one job" "$found" '^with 1$'
expect "the wait is counted" "$(cat "$place/waited")" '^5$'
expect "off by a switch" "$(PRIVGRAD_ALONE=off scripts/alone.sh 3 sh -c "$level" 2>&1)" '^with 3$'

kill -KILL "$holder"
wait "$holder" 2>/dev/null
expect "death frees the lock" "$(scripts/alone.sh 3 sh -c "$level" 2>&1)" '^with 3$'

expect "the exit code is the build's" "$(scripts/alone.sh 1 sh -c 'exit 7'; echo "code $?")" '^code 7$'
