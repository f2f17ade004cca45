#!/bin/sh
# Runs the studies of a folder of examples/studies and writes their page in
# docs/experiments/studies.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/compare.sh NAME [PROGRAM [FOLDER]]
#
# NAME: allocation, some forty minutes on two cores, or matrix or accuracy, some three hours each.
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs are written, studies/NAME by
# default; finished runs are kept, so repeating an interrupted call continues it.
set -eu
cd "$(dirname "$0")/.."
name=$1
program=${2:-build/bin/privgrad}
folder=${3:-studies/$name}
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in examples/studies/"$name"/*.yaml; do
  "$program" ablate "$study" --quiet --out "$folder/$(basename "$study" .yaml)" >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/studies/$name.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written after $(($(date +%s) - began)) s"
