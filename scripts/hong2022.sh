#!/bin/sh
# Runs every study of examples/studies/hong2022 and writes docs/experiments/studies/hong2022.md.
# All of it takes some two and a half hours on two cores, most of it the searches of baselines,
# epsilon and data-efficiency.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/hong2022.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs are written, studies/hong2022 by
# default; finished runs are kept, so repeating an interrupted call continues it.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/hong2022}
manifest=examples/manifests/mnist35-uniform.yaml
began=$(date +%s)
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

# Influence by step, on auxiliary data: private rows are not read.
"$program" influence $manifest --method hessian --quiet --out "$folder/influence-squared" \
  --set 'model={kind: linear, loss: squared}'
"$program" influence $manifest --method hessian --quiet --out "$folder/influence-momentum" \
  --set 'model={kind: linear, loss: squared}' --set 'optimizer={kind: momentum, beta: 0.9}'
"$program" influence $manifest --quiet --out "$folder/influence-logistic" --points 11 --repeats 20 \
  --set 'model={kind: linear, loss: cross_entropy}'
"$program" influence $manifest --quiet --out "$folder/influence-network" --points 11 --repeats 20 \
  --set 'model.hidden=[100]'

for study in theorem curvature auxiliary synthetic baselines adaclip data-scale data-scale-squared momentum epsilon \
             epsilon-equal-steps data-efficiency mnist35 training-sets mnist sampling cifar10; do
  "$program" ablate examples/studies/hong2022/$study.yaml --quiet --cache="$folder/.cache" --out "$folder/$study" \
    >/dev/null
  echo "$study: done after $(($(date +%s) - began)) s"
done

page=docs/experiments/studies/hong2022.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written after $(($(date +%s) - began)) s"
