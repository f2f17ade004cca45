#!/bin/sh
# Installs the Python package from this folder into an environment of its own, with the system's Python, and tests it.
#
#   scripts/python-test.sh BUILD JOBS [PYTEST_ARG...]     BUILD is a configured folder, whose objects are used again
set -eu
build=$1
jobs=$2
shift 2
. scripts/python-package.sh
make_environment
build_with install --force-reinstall
exec "$place/bin/python" -m pytest -p no:cacheprovider "$@"
