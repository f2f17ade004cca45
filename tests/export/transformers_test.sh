#!/bin/sh
# Whether torch and Hugging Face's transformers load what `privgrad export` writes of public models. In
# `make test-long`, which installs the packages first: they take 5 GB.
#
#   transformers_test.sh SOURCE BUILD
set -eu
cd "$1"
place=$(scripts/environment.sh transformers tests/export/transformers-packages.txt)
export HF_HUB_OFFLINE=1
exec "$place/bin/python" tests/export/by_transformers.py plugins/models/pretrained/sample "$2/bin/privgrad"
