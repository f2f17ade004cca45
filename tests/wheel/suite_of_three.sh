#!/bin/sh
# What an author of plugins and a user of them do, with an installed PrivGrad and nothing else: makes
# three components in one file, tests and signs it, installs it by its signature, uses all three in
# one run, and removes it. Files that are not the author's are refused.
#
#   suite_of_three.sh COMPILER     works in the current folder; scripts/debian-test.sh and wheel_test.sh start it
set -eu
compiler=$1
suite=suite_$(echo "$compiler" | tr -d +)
file=$suite.privgrad.so

# refused TEXT COMMAND...   fails unless the command ends with 1 and says TEXT, and no plugin is installed
refused() {
  text=$1
  shift
  status=0
  "$@" >refused.log 2>&1 || status=$?
  [ "$status" = 1 ] && grep -qF "$text" refused.log || { echo "$*: exit code $status, expected 1 and '$text'" >&2; cat refused.log >&2; exit 1; }
  [ ! -e "$HOME/.local/share/privgrad/plugins/$file" ] || { echo "$*: is refused, and installed" >&2; exit 1; }
}

privgrad plugins new "$suite" schedule accountant aggregator --vendor test
cmake -S "$suite" -B "$suite/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$(privgrad --prefix)"
cmake --build "$suite/build"
ctest --test-dir "$suite/build" --output-on-failure

# The author hands out three files: the plugin, its signature, and the public key.
mkdir -p "$suite/shipped" "$suite/other"
cp "$suite/build/lib/privgrad/plugins/suites/$file" "$suite/shipped/"
privgrad plugins sign "$suite/shipped/$file" --key "$suite/author.key" --new-key
cp "$suite/shipped/$file" "$suite/other/"
privgrad plugins sign "$suite/other/$file" --key "$suite/other.key" --new-key

# The user trusts the author's key, and nobody else's.
signer=$suite/author.key.pub
refused "not of the requested key" privgrad plugins install "$suite/other/$file" --signer "$signer"
rm "$suite/other/$file.sig"
refused "asks for a signature" privgrad plugins install "$suite/other/$file" --signer "$signer"
cp "$suite/shipped/$file.sig" "$suite/other/"
echo >>"$suite/other/$file"
refused "is not a signature of" privgrad plugins install "$suite/other/$file"
privgrad plugins install "$suite/shipped/$file" --signer "$signer"

# Release mode accepts what is tested only.
cat >"$suite/manifest.yaml" <<MANIFEST
privgrad: 1
mode: release
data: {kind: synthetic, rows: 200, dimensions: 4}
model: {kind: mlp, hidden: [4], loss: cross_entropy}
sampler: full_batch
optimizer: sgd
aggregator: ${suite}_aggregator
schedules:
  clip_norm: 1
  learning_rate: {kind: ${suite}_schedule, from: 0.5, to: 0.05}
  noise_multiplier: uniform
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: ${suite}_accountant}
steps: 10
MANIFEST
privgrad run "$suite/manifest.yaml" --quiet --out "$suite/run"
privgrad verify "$suite/run"
privgrad plugins remove "$suite.privgrad.so"
echo "three components by $compiler: built, tested, signed, installed, used and removed"
