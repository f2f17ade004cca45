#!/bin/sh
# Installs the Python package from this folder into an environment of its own, with the system's Python, and tests it,
# JOBS tests at a time.
#
#   scripts/python-test.sh BUILD JOBS [PYTEST_ARG...]     BUILD is a configured folder, whose objects are used again
set -eu
build=$1
jobs=$2
shift 2
. scripts/python-package.sh
make_environment python/packages.txt
build_with install --force-reinstall
# The package does not contain the plugin mpi; a test of a call under mpirun uses that of the build
# folder.
clusters=$(cd "$build" && pwd)/lib/privgrad/plugins/clusters
[ ! -e "$clusters/mpi.privgrad.so" ] || export PRIVGRAD_TEST_MPI="$clusters"
exec "$place/bin/python" -m pytest -p no:cacheprovider --numprocesses "$jobs" --dist worksteal "$@"
