#!/bin/sh
# Runs the recipes of examples/recipes at three budgets and prints the table of docs/accuracy.md.
#
#   PRIVGRAD_DATA_DIR=~/data scripts/accuracy.sh [PROGRAM [FOLDER [SEEDS]]]
#
# PROGRAM: build/bin/privgrad by default. FOLDER: where the runs go, studies/accuracy by default; what is
# finished there is kept, so that an interrupted call is continued by the same call. SEEDS: 5 by default.
# The runs have seeds, so that their figures repeat: they are in research mode, with the noise and the
# charges of the recipes, which are for release.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/bin/privgrad}
folder=${2:-studies/accuracy}
seeds=${3:-5}

# As the recipes say.
at_budget() {
  case $1 in
    3) ;;
    1) echo --set steps=40 ;;
    0.5) echo --set steps=40 --set schedules.learning_rate.values=[15,1.5] ;;
  esac
}

mkdir -p "$folder"
for seed in $(seq "$seeds"); do
  for epsilon in 3 1 0.5; do
    for recipe in mnist fashion-mnist; do
      run=$folder/$recipe-$epsilon-$seed
      if [ -e "$run/summary.json" ]; then continue; fi
      rm -rf "$run"
      began=$(date +%s)
      # shellcheck disable=SC2046
      "$program" run examples/recipes/$recipe.yaml --cache="$folder/features" --out "$run" --quiet \
        --set mode=research --set seed="$seed" --set privacy.target_epsilon=$epsilon \
        $(at_budget $epsilon)
      echo $(($(date +%s) - began)) >"$run.seconds"
      echo "$run: done after $(cat "$run.seconds") s"
    done
  done
done

python3 - "$folder" "$seeds" <<'PROGRAM'
import json, math, pathlib, sys

folder, seeds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom, from tables.
QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
print("| data | epsilon | test accuracy, % | runs | seconds a run |\n|---|---|---|---|---|")
for recipe in ("mnist", "fashion-mnist"):
    for epsilon in ("3", "1", "0.5"):
        names = [f"{recipe}-{epsilon}-{seed}" for seed in range(1, seeds + 1)]
        summaries = [json.loads((folder / name / "summary.json").read_text()) for name in names]
        values = [100 * summary["metrics"]["test_accuracy"] for summary in summaries]
        mean = sum(values) / seeds
        cell = f"{mean:.2f}"
        if seeds > 1:
            deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (seeds - 1))
            width = QUANTILES[min(seeds - 2, len(QUANTILES) - 1)] * deviation / math.sqrt(seeds)
            cell += f" [{mean - width:.2f}, {mean + width:.2f}]"
        times = [int((folder / f"{name}.seconds").read_text()) for name in names]
        print(f"| {recipe} | {epsilon} | {cell} | {seeds} | {min(times)} to {max(times)} |")
PROGRAM
