# Parts of a series of checks, each with a budget: what .ci/run and scripts/presubmit.sh share; they read it ('.').
#
#   part MINUTES NAME COMMAND...     runs COMMAND, which may be a function; all parts run, also after a failure
#   finish_parts                     prints the table of parts, what failed and said why, and counts; false if any failed
#   whole_limit=MINUTES              set before the first part: what has not ended by then is ended, the rest does not begin
#
# A part ends at twice its budget, with all that it started; the tests that were running are named. Waiting for another
# checkout's build (scripts/alone.sh) counts in neither.
begin_all=$SECONDS
whole_limit=${whole_limit:-80}
minute=${minute:-60} # seconds; fewer in the test of this file
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
PRIVGRAD_WAITED=$scratch/waited
export PRIVGRAD_WAITED
: >"$PRIVGRAD_WAITED"

table=""
failed_parts=""
failed_tests=""
passed=0
failed=0
budgets=0

# Seconds that builds have waited for others so far.
waited() { awk '{ all += $1 } END { print all + 0 }' "$PRIVGRAD_WAITED"; }

# failures   of ctest's output, which gives a test that failed and, up to the next test, what it said: 40 lines of each,
#            since the end of this output is what a reader of another machine's run sees
failures() {
  awk '/^ *[0-9]+\/[0-9]+ Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)/ { left = 40; print ""; print; next }
       /^ *(Start +[0-9]+:|[0-9]+\/[0-9]+ Test +#)/ { left = 0 }
       left > 0 { left--; print "  " $0 }'
}

# running   of ctest's output: the tests that began and did not end
running() {
  awk '/^ *Start +[0-9]+: / { number = $2; sub(/:$/, "", number); name = $0; sub(/^ *Start +[0-9]+: /, "", name); open[number] = name }
       match($0, /Test +#[0-9]+:/) { number = substr($0, RSTART, RLENGTH); gsub(/[^0-9]/, "", number); delete open[number] }
       END { for (number in open) print "  was running: " open[number] }'
}

# limited SECONDS COMMAND...   runs it in a process group of its own, which ends with it; status 124 if time was up
limited() {
  local limit=$1 begin=$SECONDS before status
  shift
  before=$(waited)
  set -m
  { "$@" 2>&1 | tee "$log"; exit "${PIPESTATUS[0]}"; } &
  local group=$!
  set +m
  while kill -0 "$group" 2>/dev/null; do
    if [ $((SECONDS - begin - $(waited) + before)) -ge "$limit" ]; then
      kill -TERM -- "-$group" 2>/dev/null
      sleep 2
      kill -KILL -- "-$group" 2>/dev/null
      wait "$group" 2>/dev/null
      return 124
    fi
    sleep 0.2
  done
  wait "$group"
  status=$?
  kill -KILL -- "-$group" 2>/dev/null # what it left behind
  return "$status"
}

part() {
  local budget=$1 name=$2 begin=$SECONDS before status=0 note="" tests broken limit left
  shift 2
  budgets=$((budgets + budget))
  left=$((whole_limit * minute - SECONDS + begin_all + $(waited)))
  limit=$((2 * budget * minute < left ? 2 * budget * minute : left))
  before=$(waited)
  printf '\n== %s (budget: %d min)\n' "$name" "$budget"
  : >"$log"
  if [ "$left" -le 0 ]; then
    status=124
  else
    limited "$limit" "$@"
    status=$?
  fi
  # The closing lines of ctest, of which a part may have several: "98% tests passed, 2 tests failed out of 100"
  read -r tests broken < <(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log" |
                           awk '{ broken += $1; tests += $2 } END { print tests + 0, broken + 0 }')
  failed_tests+=$(failures <"$log")
  if [ "$tests" = 0 ] || { [ "$status" != 0 ] && [ "$broken" = 0 ]; }; then
    tests=$((tests + 1))
    [ "$status" = 0 ] || broken=$((broken + 1))
  fi
  passed=$((passed + tests - broken))
  failed=$((failed + broken))
  if [ "$status" != 0 ]; then
    note="FAILED"
    [ "$status" != 124 ] || note="ENDED after ${limit} s"
    [ "$left" -gt 0 ] || note="NOT BEGUN: $whole_limit minutes were over"
    [ "$status" != 124 ] || failed_tests+=$(printf '\n%s: %s\n' "$name" "$note"; running <"$log"; printf ' ')
    failed_parts="$failed_parts${failed_parts:+, }$name"
  fi
  local took=$((SECONDS - begin - $(waited) + before))
  [ "$took" -le $((budget * minute)) ] || note="${note:+$note, }over its budget"
  table+=$(printf '%-42s %6d min %4d min %02d s  %s' "$name" "$budget" $((took / 60)) $((took % 60)) "$note")$'\n'
}

finish_parts() {
  local all=$((SECONDS - begin_all - $(waited)))
  printf '\n%-42s %10s %13s\n%s' "part" "budget" "took" "$table"
  printf '%-42s %6d min %4d min %02d s\n\n' "all" "$budgets" $((all / 60)) $((all % 60))
  [ "$(waited)" = 0 ] || printf 'waited %d s for builds of other checkouts\n' "$(waited)"
  [ -z "$failed_parts" ] || printf 'failed: %s%s\n' "$failed_parts" "$failed_tests"
  echo "$passed passed, $failed failed"
  [ -z "$failed_parts" ]
}
