#!/bin/sh
# Redoes what docs/experiments says of the three papers, and of improvements on them.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/papers.sh [--quick] [PROGRAM [FOLDER]]
#
# Without --quick: everything, and writes the pages anew (most of a day on two cores; what is finished in FOLDER is
# kept). With --quick: the part that scripts/quick_papers.py lists, in ten minutes, and fails if an effect has another
# sign than on its page. PROGRAM: build/bin/privgrad by default. FOLDER: studies by default, studies/papers-quick with
# --quick.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --quick ]; then
  shift
  exec python3 scripts/quick_papers.py "${1:-build/bin/privgrad}" "${2:-studies/papers-quick}"
fi
for paper in hong2022 tran2022 ali-dpfl improvements; do
  scripts/$paper.sh "${1:-build/bin/privgrad}" "${2:-studies}/$paper"
done
