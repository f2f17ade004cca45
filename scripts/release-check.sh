#!/bin/bash
# `make release-check`: makes all files of a release, in dist/, and uses each as its users do.
# Usage: scripts/release-check.sh JOBS
#
#   dist/*.deb            Debian packages, installed, used and removed in an empty Debian
#   dist/*.whl            wheels for Python 3.10, 3.11, and 3.12 and later, as far as they are installed here; each is
#                         used in an empty environment
#   dist/sbom.json        their contents (CycloneDX), with licences
#   dist/SHA256SUMS       hashes of all of these
#
# Everything is built from a clone of the last commit, at a fixed path and with the times of the
# commit, so that the same commit gives the same bytes. It is built a second time without any cache,
# and compared. The script names everything that cannot be tested on this machine.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
jobs=$1
whole_limit=240
. scripts/parts.sh

repository=$PWD
work=${TMPDIR:-/tmp}/privgrad-release
version=$(sed -nE 's/^#define PRIVGRAD_VERSION_[A-Z]+ ([0-9]+)$/\1/p' framework/sdk/include/privgrad/abi.hpp | paste -sd.)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
not_tried=""

# make_packages CCACHE   writes the packages to $work/packages; the path is the same each time
make_packages() {
  local python
  python=$(scripts/environment.sh python python/packages.txt) || return 1
  rm -rf "$work/source" "$work/packages"
  git clone -q "$repository" "$work/source" && git -C "$work/source" checkout -q "$commit" || return 1
  cmake -S "$work/source" -B "$work/source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPRIVGRAD_UNITY_BUILD=ON \
    -DPRIVGRAD_BUILD_TESTS=OFF -DPRIVGRAD_CCACHE="$1" -DPRIVGRAD_BUILD_PYTHON=ON \
    -DPython_EXECUTABLE="$python/bin/python" >/dev/null &&
    (cd "$work/source" && scripts/alone.sh "$jobs" cmake --build build) &&
    (umask 022 && cd "$work/source/build" && cpack -G DEB -B "$work/packages" >"$work/cpack.log") ||
    { tail -5 "$work/cpack.log" >&2; return 1; }
}

debian_packages() {
  make_packages ON || return 1
  mkdir -p dist
  rm -f dist/*.deb
  cp "$work"/packages/*.deb dist/
  ls -l dist/*.deb
}

debian_test() {
  rm -rf "$work/debian"
  mkdir -p "$work/debian"
  scripts/debian-test.sh dist "$work/debian" && return 0
  [ $? = 77 ] || return 1
  not_tried+="installing the Debian packages; "
}

# interpreter_of 3.X   prints a working interpreter of that version: on the path, or one of pyenv's
interpreter_of() {
  local python
  for python in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
    [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ] || continue
    echo "$python"
    return
  done
  return 1
}

# A wheel for 3.10, one for 3.11, and one for 3.12 and all later versions, from the build folder of
# the Debian packages.
wheels() {
  local python version_of
  rm -f dist/*.whl
  for version_of in 3.10 3.11 3.12 3.13; do
    python=$(interpreter_of "$version_of") || { not_tried+="a wheel in Python $version_of; "; continue; }
    (
      cd "$work/source" && export PYTHON="$python" || exit 1
      [ "$version_of" = 3.13 ] && [ -e build/wheel/made/*-abi3-*.whl ] || scripts/python-wheel.sh build "$jobs" || exit 1
      sh tests/wheel/wheel_test.sh build
    ) || return 1
    cp "$work"/source/build/wheel/made/*.whl dist/
  done
  compgen -G 'dist/*.whl' >/dev/null
}

again() {
  make_packages OFF || return 1
  local deb status=0
  for deb in "$work"/packages/*.deb; do
    cmp "$deb" "dist/${deb##*/}" || status=1
  done
  return "$status"
}

sums() {
  python3 scripts/sbom.py "$version" dist/*.deb dist/*.whl >dist/sbom.json || return 1
  (cd dist && sha256sum ./*.deb ./*.whl sbom.json >SHA256SUMS && cat SHA256SUMS)
}

mkdir -p "$work"
part 10 "Debian packages" debian_packages
part  5 "an empty Debian installs, uses and removes them" debian_test
part  2 "the ABI is the one that was released" scripts/abi.sh check
part 15 "wheels" wheels
part 40 "the same bytes a second time, without a cache" again
part  1 "contents and hashes" sums
[ -z "$not_tried" ] || echo "NOT tried on this machine: ${not_tried%; }"
git diff --quiet || echo "There are changes that are not committed; a release is what is committed." >&2
finish_parts
