#!/bin/sh
# Prose in Markdown is wrapped at 100 columns. Tables, fenced and indented code are exempt, and so are
# the pages that programs write (docs/components, docs/experiments).
#
#   scripts/check-docs.sh [FILE...]      all tracked pages without arguments; exits with 1 if a line is longer
set -eu
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  set -- $(git ls-files '*.md' ':!docs/components' ':!docs/experiments')
fi
# Columns are counted in characters: the bytes that continue one (UTF-8) do not count.
LC_ALL=C exec awk '
  FNR == 1      { fenced = 0 }
  /^ *```/      { fenced = !fenced; next }
  fenced || /^ *\|/ || /^    / { next }
  {
    line = $0
    gsub(/[\200-\277]/, "", line)
    if (length(line) > 100) {
      printf "%s:%d: %d columns, at most 100\n", FILENAME, FNR, length(line)
      bad = 1
    }
  }
  END { exit bad }
' "$@"
