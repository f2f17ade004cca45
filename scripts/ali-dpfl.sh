#!/bin/sh
# Runs the studies of examples/studies/ali-dpfl and writes docs/experiments/studies/ali-dpfl.md.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/ali-dpfl.sh [PROGRAM [FOLDER [STUDY...]]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs are written, studies/ali-dpfl by
# default; finished runs are kept, so repeating an interrupted call continues it. STUDY: only these
# studies. All studies together train the convolutional network some 450 times, which takes about
# a day of one core.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/ali-dpfl}
[ $# -le 2 ] || { shift 2; chosen=$*; }
mkdir -p "$folder"
[ -f "$folder/commit" ] || git rev-parse HEAD >"$folder/commit"

# ablate STUDY [SET...]
ablate() {
  study=$1
  shift
  "$program" ablate "examples/studies/ali-dpfl/$study.yaml" --quiet --out "$folder/$study" "$@" >/dev/null
  echo "$study: done"
}

# The data of the authors' code: both splits merged and divided again, and pixels from -1 to 1.
published() {
  merged=$(realpath "$folder")/merged
  [ -d "$merged" ] || scripts/merged_images.py "$PRIVGRAD_DATA_DIR/fashion-mnist" "$merged"
  halves=$(yes 0.5, | head -n 784 | tr '\n' ' ')
  ablate published-table-3 --set "data.train={images: $merged/train-images, labels: $merged/train-labels}" \
    --set "data.test={images: $merged/test-images, labels: $merged/test-labels}" \
    --set "data.transforms=[{kind: standardize, mean: [$halves], std: [$halves]}]"
}

# The other files of the folder are base manifests.
for study in ${chosen:-$(grep -l '^study:' examples/studies/ali-dpfl/*.yaml | xargs -n 1 basename -s .yaml)}; do
  case $study in
    published-table-3) published ;;
    *) ablate "$study" ;;
  esac
done

page=docs/experiments/studies/ali-dpfl.md
scripts/study-page.sh "$program" "$folder" "$page"
echo "$page: written"
