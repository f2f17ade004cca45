#!/bin/sh
# Runs the studies of examples/studies/allocation and writes docs/experiments/allocation.md. All of it takes some forty
# minutes on two cores.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/allocation.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs go, studies/allocation by default; what is finished
# there is kept, so that an interrupted call is continued by the same call.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/allocation}
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in five-epochs fifty-epochs; do
  "$program" ablate examples/studies/allocation/$study.yaml --quiet --out "$folder/$study" >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/allocation.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written after $(($(date +%s) - began)) s"
