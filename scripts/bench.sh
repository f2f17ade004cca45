#!/bin/sh
# Measures what users wait for: start-up, and training steps per second. Usage: scripts/bench.sh PROGRAM
# Prints one JSON document, which names the machine and the commit.
set -eu
program=$1
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# best_ms COMMAND...   the shortest of 10 runs, in milliseconds, because slower runs were disturbed
best_ms() {
  best=
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    begin=$(date +%s%N)
    "$@" >/dev/null 2>&1 || {
      echo "bench: '$*' failed" >&2
      exit 1
    }
    took=$((($(date +%s%N) - begin) / 10000))
    if [ -z "$best" ] || [ "$took" -lt "$best" ]; then best=$took; fi
  done
  printf '%d.%02d' $((best / 100)) $((best % 100))
}

# number FILE KEY   the first number with that key in a JSON file
number() { sed -n "s/.*\"$2\": *\([0-9.e+-]*\).*/\1/p" "$1" | head -n 1; }

quickstart=examples/manifests/quickstart.yaml
list_ms=$(best_ms "$program" plugins list)
plan_ms=$(best_ms "$program" plan "$quickstart")
"$program" run "$quickstart" --out "$work/run" >/dev/null 2>&1
steps=$(number "$work/run/summary.json" steps)
seconds=$(number "$work/run/summary.json" seconds)

# A study of eight equal runs, alternately on one core and on two; the ratio of the shortest times.
printf 'study: 1\nbase: %s\nseeds: 8\nset: {steps: 600}\n' "$PWD/$quickstart" >"$work/study.yaml"
study_ms() {
  rm -rf "$work/study"
  begin=$(date +%s%N)
  "$program" ablate "$work/study.yaml" --out "$work/study" --jobs "$1" --quiet >/dev/null
  echo $((($(date +%s%N) - begin) / 1000000))
}
one=
two=
for _ in 1 2 3; do
  took=$(study_ms 1)
  if [ -z "$one" ] || [ "$took" -lt "$one" ]; then one=$took; fi
  took=$(study_ms 2)
  if [ -z "$two" ] || [ "$took" -lt "$two" ]; then two=$took; fi
done

cat <<JSON
{
  "commit": "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)",
  "cpu": "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)",
  "cores": $(nproc),
  "plugins_list_ms": $list_ms,
  "study_one_job_ms": $one,
  "study_one_job_over_two": $((one / two)).$(printf '%02d' $((one * 100 / two % 100))),
  "plan_quickstart_ms": $plan_ms,
  "quickstart_steps_per_second": $(awk "BEGIN { printf \"%.1f\", $steps / $seconds }")
}
JSON
