#!/bin/sh
# Installs the Python package from this folder into an environment of its own, with the system's Python, and tests it.
#
#   scripts/python-test.sh BUILD JOBS [PYTEST_ARG...]     BUILD is a configured folder, whose objects are used again
set -eu
build=$1
jobs=$2
shift 2
python=${PYTHON:-/usr/bin/python3}
place=$build/python-environment
# What builds the package, and what its tests use.
packages="scikit-build-core==1.1.2 nanobind==3.1.0 pytest==9.2.0 numpy==2.4.6 pandas==3.1.1 polars==2.1.0
  pyarrow==26.0.1 scikit-learn==1.9.1 tqdm==4.70.1
  mlflow-skinny==3.17.2 sqlalchemy==2.1.9 alembic==1.20.1"
wanted="$("$python" --version) $packages"
if [ "$(cat "$place/installed" 2>/dev/null)" != "$wanted" ]; then
  "$python" -m venv --clear "$place"
  "$place/bin/pip" install -q --disable-pip-version-check $packages
  echo "$wanted" >"$place/installed"
fi

# Of the folder's own settings nothing changes, so that nothing is compiled again.
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
prefix=$(setting CMAKE_INSTALL_PREFIX)
# Else the compiler that Python was built with would be taken, and everything compiled anew.
CC=$(setting CMAKE_C_COMPILER)
CXX=$(setting CMAKE_CXX_COMPILER)
export CC CXX
CMAKE_BUILD_PARALLEL_LEVEL=$jobs PATH=$place/bin:$PATH "$place/bin/pip" install -q --disable-pip-version-check \
  --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir="$build" \
  --config-settings=cmake.build-type="$(setting CMAKE_BUILD_TYPE)" \
  --config-settings=cmake.define.PRIVGRAD_BUILD_TESTS="$(setting PRIVGRAD_BUILD_TESTS)" \
  --config-settings=cmake.define.PRIVGRAD_UNITY_BUILD="$(setting PRIVGRAD_UNITY_BUILD)" .
# The folder installs where it did before.
cmake -S . -B "$build" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
exec "$place/bin/python" -m pytest -p no:cacheprovider "$@"
