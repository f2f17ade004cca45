#!/bin/sh
# Runs Tables III and IV of examples/studies/ali-dpfl on Fashion-MNIST and writes docs/experiments/ali-dpfl.md.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/ali-dpfl.sh [PROGRAM [FOLDER]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs go, studies/ali-dpfl by default; what is finished
# there is kept, so that an interrupted call is continued by the same call. All of it takes some three hours on two
# cores: the network of convolutions is trained 90 times.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/ali-dpfl}
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

for study in table-3-fashion-mnist table-4-fashion-mnist; do
  "$program" ablate examples/studies/ali-dpfl/$study.yaml --quiet --out "$folder/$study" >/dev/null
  echo "$study: done"
done

page=docs/experiments/ali-dpfl.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written"
