#!/bin/sh
# Runs every study of examples/studies/tran2022 and writes docs/experiments/tran2022.md. It took 44 minutes
# at low priority beside other work on two cores; most of it is tree_reduced, which computes gradients row by row.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/tran2022.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs go, studies/tran2022 by default; what
# is finished there is kept, so that an interrupted call is continued by the same call.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/tran2022}
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in mnist-mlp-epsilon mnist-mlp-examples mnist-cnn \
             fashion-mnist-mlp-epsilon fashion-mnist-mlp-examples fashion-mnist-cnn; do
  "$program" ablate examples/studies/tran2022/$study.yaml --quiet --out "$folder/$study" >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/tran2022.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written after $(($(date +%s) - began)) s"
