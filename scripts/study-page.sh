#!/bin/sh
# Copies the results of a folder of studies to a page's folder, and writes tables and figures from
# the copies into the page, below the line that marks this; the text above that line is kept.
#
#   scripts/study-page.sh PROGRAM FOLDER PAGE
#
# FOLDER: finished studies and estimates of influence, one folder each, and a file `commit` with the
# commit that made them. For PAGE docs/experiments/studies/PAPER.md the copies are
# docs/experiments/studies/PAPER/STUDY.json and STUDY.csv; unfinished studies keep their earlier copies. A
# test compares the page with the copies.
set -eu
program=$1 folder=$2 page=$3
copies=${page%.md}
line='<!-- Below, scripts/study-page.sh writes what the studies found. Above, a person does. -->'
grep -qxF "$line" "$page" || { echo "$page: has no line '$line'" >&2; exit 2; }
mkdir -p "$copies"
for place in "$folder"/*/; do
  name=$(basename "$place")
  said="\"commit\": \"$(cat "$folder/commit")\""
  study=examples/studies/$(basename "$copies")/$name.yaml
  [ ! -f "$study" ] || said="$said,\n  \"study_sha256\": \"$(sha256sum "$study" | cut -d ' ' -f 1)\""
  for file in results.json influence.json; do
    [ ! -f "$place$file" ] || sed "1s/{/{\n  $said,/" "$place$file" >"$copies/$name.json"
  done
  [ ! -f "${place}results.csv" ] || cp "${place}results.csv" "$copies/$name.csv"
done
head=$(sed "/^<!-- Below, /q" "$page")
"$program" report "$copies" --markdown "$page"
{ printf '%s\n\n' "$head"; cat "$page"; } >"$page.new"
mv "$page.new" "$page"
