#!/bin/sh
# Runs every study of examples/studies/improvements and writes
# docs/experiments/studies/improvements.md. All of it takes some two and a half hours on two cores.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/improvements.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs are written, studies/improvements
# by default; finished runs are kept, so repeating an interrupted call continues it.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/improvements}
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in trees best-steps-kappa-2 best-steps-kappa-10 trial-steps-kappa-2 trial-steps-kappa-10 filters weights-mnist \
             weights-quadratic accountant accountant-cnn; do
  "$program" ablate examples/studies/improvements/$study.yaml --quiet --out "$folder/$study" >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/studies/improvements.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written after $(($(date +%s) - began)) s"
