#!/bin/sh
# Writes what a folder of studies found into a page, below the line that says so, and keeps what stands above.
#
#   scripts/study-page.sh PROGRAM FOLDER PAGE
set -eu
program=$1 folder=$2 page=$3
line='<!-- Below, scripts/study-page.sh writes what the studies found. Above, a person does. -->'
grep -qxF "$line" "$page" || { echo "$page: has no line '$line'" >&2; exit 2; }
head=$(sed "/^<!-- Below, /q" "$page")
"$program" report "$folder" --markdown "$page"
{ printf '%s\n\n' "$head"; cat "$page"; } >"$page.new"
mv "$page.new" "$page"
