# Parts of a series of checks, each with a time budget. .ci/run and scripts/presubmit.sh both source
# this file ('.').
#
#   part MINUTES NAME COMMAND...           runs COMMAND, which may be a function; all parts run, also after a failure
#   part_if_time MINUTES NAME COMMAND...   the same, for a part that a slow machine need not finish
#   finish_parts                           prints the table of parts, the failures and the parts that did not run, with
#                                          reasons, and counts; false if any part failed
#   whole_limit=MINUTES                    set before the first part
#   short_limit=MINUTES                    the time at which a part_if_time is ended; by default the whole limit
#
# A budget is printed beside the actual time of a part, but exceeding it has no consequence: the
# time depends on the machine and its caches, and each test has its own limit. A part that is still
# running at the whole limit is ended together with all processes that it started, and the running
# tests are named; later parts do not begin. Both are failures. A part_if_time is ended at the short
# limit instead, and counts as skipped if none of its tests has failed by then. A line "not run:
# WHAT: WHY" of a part is printed again at the end, so that nothing is left out silently. Waiting
# for another checkout's build (scripts/alone.sh) does not count.
begin_all=$SECONDS
whole_limit=${whole_limit:-60}
short_limit=${short_limit:-$whole_limit}
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
cut_parts=""
not_run=""
passed=0
failed=0
skipped=0
budgets=0

# The seconds that builds have waited for other builds so far.
waited() { awk '{ all += $1 } END { print all + 0 }' "$PRIVGRAD_WAITED"; }

# failures   filters ctest's output: prints each failed test with its output, at most 40 lines of each, because readers
#            of another machine's run see only the end of the whole output
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

# counted   counts, in ctest's output, the tests that ran and those that failed: by the closing lines, of which a part may
#           have several ("98% tests passed, 2 tests failed out of 100"); by the lines of tests if the output is cut off
counted() {
  awk '/tests passed, [0-9]+ tests? failed out of/ { split($0, word, /[^0-9]+/); broken += word[2]; tests += word[3]; n = bad = 0 }
       /^ *[0-9]+\/[0-9]+ Test +#.* Passed / { n++ }
       /^ *[0-9]+\/[0-9]+ Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)/ { n++; bad++ }
       END { print tests + n, broken + bad }'
}

part() { run_part failed "$@"; }

part_if_time() { run_part skipped "$@"; }

# run_part failed|skipped MINUTES NAME COMMAND...   the first word is the result if the part runs out
# of time
run_part() {
  local cut_off=$1 budget=$2 name=$3 begin=$SECONDS before status=124 result=passed note="" tests broken left took
  local limit=$whole_limit
  shift 3
  [ "$cut_off" = failed ] || limit=$short_limit
  budgets=$((budgets + budget))
  left=$((limit * minute - SECONDS + begin_all + $(waited)))
  before=$(waited)
  printf '\n== %s (budget: %d min)\n' "$name" "$budget"
  : >"$log"
  if [ "$left" -gt 0 ]; then
    limited "$left" "$@"
    status=$?
  fi
  took=$((SECONDS - begin - $(waited) + before))
  read -r tests broken < <(counted <"$log")
  failed_tests+=$(failures <"$log")
  not_run+=$(grep '^not run: ' "$log"; echo .)
  not_run=${not_run%.}
  if [ "$status" = 124 ]; then
    [ "$broken" -gt 0 ] && result=failed || result=$cut_off
    [ "$left" -gt 0 ] && note="ENDED" || note="NOT BEGUN"
    note+=": $limit minutes were over"
    cut_parts+=$(printf '\n%s: %s\n' "$name" "$note"; running <"$log"; printf ' ')
  elif [ "$status" != 0 ]; then
    result=failed
    note="FAILED"
  fi
  case $result in
    passed)
      [ "$tests" -gt 0 ] || tests=1
      ;;
    failed)
      failed_parts="$failed_parts${failed_parts:+, }$name"
      [ "$broken" -gt 0 ] || { broken=1 tests=$((tests + 1)); }
      ;;
    skipped)
      skipped=$((skipped + 1))
      ;;
  esac
  passed=$((passed + tests - broken))
  failed=$((failed + broken))
  [ "$took" -le $((budget * minute)) ] || note="${note:+$note, }over its budget"
  table+=$(printf '%-42s %6d min %4d min %02d s  %s' "$name" "$budget" $((took / 60)) $((took % 60)) "$note")$'\n'
}

finish_parts() {
  local all=$((SECONDS - begin_all - $(waited)))
  printf '\n%-42s %10s %13s\n%s' "part" "budget" "took" "$table"
  printf '%-42s %6d min %4d min %02d s\n' "all" "$budgets" $((all / 60)) $((all % 60))
  [ "$(waited)" = 0 ] || printf 'waited %d s for builds of other checkouts\n' "$(waited)"
  [ -z "$cut_parts" ] || printf '%s\n' "$cut_parts"
  [ -z "$not_run" ] || printf '\n%s' "$not_run"
  [ -z "$failed_parts" ] || printf '\nfailed: %s%s\n' "$failed_parts" "$failed_tests"
  printf '\n%d passed, %d failed%s\n' "$passed" "$failed" "$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
  [ -z "$failed_parts" ]
}
