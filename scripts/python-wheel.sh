#!/bin/sh
# Makes a wheel that needs nothing but an interpreter: dist/privgrad-*.whl.
#
#   scripts/python-wheel.sh BUILD JOBS
#
# auditwheel puts the libraries beside, and rewrites those that load them; records of tests name the hashes of plugins,
# so they are made after that, by the suite of the wheel itself.
set -eu
build=$1
jobs=$2
. scripts/python-package.sh
make_environment
work=$build/wheel
rm -rf "$work" dist/privgrad-*.whl
mkdir -p "$work/built" "$work/repaired" "$work/records" dist
build_with wheel --wheel-dir "$work/built"

PATH=$place/bin:$packages/bin:$PATH
# One SDK in the process: it is inside already, and keeps its name.
auditwheel repair --exclude "libprivgrad_sdk.so.*" --wheel-dir "$work/repaired" "$work"/built/*.whl
wheel unpack --dest "$work/records" "$work"/repaired/*.whl
unpacked=$(echo "$work"/records/privgrad-*)
python scripts/python_wheel_records.py "$unpacked" "$build/python/test_params.txt" plugins/data_sources/sample
wheel pack --dest-dir dist "$unpacked"
