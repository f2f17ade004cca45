#!/bin/bash
# Runs every fuzz target of a build for some time: scripts/fuzz.sh BUILD SECONDS JOBS
# Prints one line for each. Inputs that reached new code are stored in BUILD/fuzz/new/, from which
# the next run continues. An input that crashes, hangs or takes too much memory is stored in
# BUILD/fuzz/findings/ and named, and the exit code is 1.
set -euo pipefail
build=$(realpath "$1")
export build seconds=$2
jobs=$3
cd "$(dirname "$0")/../fuzz"

# Targets write their input to files before they read it; the files are in memory if possible.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" privgrad-fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch

run_target() {
  local name=$1 dictionary=() log=$build/fuzz/$1.log findings=$build/fuzz/findings/$1 result=ok exit_code=0
  mkdir -p "$build/fuzz/new/$name" "$findings"
  [ -e "dictionaries/$name.dict" ] && dictionary=("-dict=dictionaries/$name.dict")
  # Inputs take milliseconds. An input that takes a minute, even on a busy machine, or memory that
  # only a wrong header could ask for, is a finding.
  "$build/fuzz/$name" -max_total_time="$seconds" -timeout=60 -malloc_limit_mb=256 -rss_limit_mb=1024 \
    -print_final_stats=1 -artifact_prefix="$findings/" "${dictionary[@]}" \
    "$build/fuzz/new/$name" "corpus/$name" >"$log" 2>&1 || exit_code=$?
  [ "$exit_code" = 0 ] || result="FINDING $(sed -n 's/.*Test unit written to //p' "$log" | tail -1) (log: $log)"
  printf '%-12s %9s runs   coverage %5s   corpus %5s   %s\n' "$name" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)" \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)" \
    "$(sed -n 's/.* corp: \([0-9]*\)\/.*/\1/p' "$log" | tail -1)" "$result"
  return "$exit_code"
}
export -f run_target

# xargs continues after a target that failed, and then fails itself.
printf '%s\n' corpus/* | xargs -n 1 basename | xargs -P "$jobs" -I{} bash -c 'run_target {} || exit 1' && exit 0
echo "fuzz: run a finding again with $build/fuzz/TARGET FILE" >&2
exit 1
