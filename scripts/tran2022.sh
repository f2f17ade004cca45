#!/bin/sh
# Runs every study of examples/studies/tran2022 and writes the results into
# docs/experiments/studies/tran2022.md. This took some five hours on two cores before the studies
# on images had a search and 20 seeds; most of the time goes into the 250 915 steps of at-size and
# into the searches.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/tran2022.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs are written, studies/tran2022 by
# default; finished runs are kept, so repeating an interrupted call continues it.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/tran2022}
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in in-regime in-regime-epsilon in-regime-examples in-regime-parameters in-regime-one-epsilon \
             at-size-2500 mnist-mlp-epsilon training-sets mnist-mlp-examples mnist-cnn \
             fashion-mnist-mlp-epsilon fashion-mnist-mlp-examples fashion-mnist-cnn noises in-regime-noises at-size; do
  "$program" ablate examples/studies/tran2022/$study.yaml --quiet --out "$folder/$study" >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/studies/tran2022.md
scripts/study-page.sh "$program" "$folder" "$page"
scripts/tran2022_rates.py collect "$folder" "${page%.md}"
echo "$page: written after $(($(date +%s) - began)) s"
