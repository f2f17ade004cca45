#!/bin/sh
# Repeats the experiments of docs/experiments on the three papers and on improvements of them.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/papers.sh [--quick] [PROGRAM [FOLDER]]
#
# Without --quick: all experiments, and rewrites the pages (most of a day on two cores; finished
# runs in FOLDER are kept). With --quick: the part that scripts/quick_papers.py lists, in ten
# minutes; fails if an effect has another sign than on its page. PROGRAM: build/bin/privgrad by
# default. FOLDER: studies by default, studies/papers-quick with --quick.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --quick ]; then
  shift
  exec python3 scripts/quick_papers.py "${1:-build/bin/privgrad}" "${2:-studies/papers-quick}"
fi
for paper in hong2022 tran2022 ali-dpfl improvements; do
  scripts/$paper.sh "${1:-build/bin/privgrad}" "${2:-studies}/$paper"
done
