#!/bin/sh
# Runs the commands of docs/tutorials/texts.md with the model and the texts that they download. Takes some minutes, and
# is in `make test-long`.
#
#   texts_page.sh SOURCE BUILD
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$source/examples" "$source/docs" "$work"
PATH=$build/bin:$PATH
export PATH XDG_CACHE_HOME="$work/cache"
cd "$work"

python3 "$source/examples/text/fetch.py" texts
# The manifest names its files beside the clone's folder of examples, which a link does not show.
sed "s,\.\./\.\./texts,$work/texts,g" "$source/examples/text/reuters-r8.yaml" >reuters-r8.yaml

sed -n 's/^    \(privgrad .*\)/\1/p' docs/tutorials/texts.md | sed 's,examples/text/,,' >commands
[ "$(wc -l <commands)" -ge 5 ]
cat commands
# Metrics are on public rows; a model of chance has at most .52, the share of the largest class.
sh -eux commands
grep -q '"test_accuracy"' runs/reuters/summary.json
python3 - <<'END'
import json
accuracy = json.load(open("runs/reuters/summary.json"))["metrics"]["test_accuracy"]
assert accuracy > 0.9, accuracy
END
[ "$(wc -l <reuters.csv)" = 2190 ]
cmp texts/minilm/model.safetensors reuters-folder/model.safetensors
grep -q epsilon reuters-folder/privacy.json
