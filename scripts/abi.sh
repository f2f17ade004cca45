#!/bin/bash
# Checks that plugins built for a release still load, by comparing the SDK's interface with the
# stored one.
#
#   scripts/abi.sh keep    writes tests/abi/sdk-MAJOR.MINOR.abi.xz: for each release 0.N.0, and before that release for each
#                          change of the interface
#   scripts/abi.sh check   fails if something that plugins use has changed, and names it
#
# libabigail reads the interface from the debug information of libprivgrad_sdk, as far as installed
# headers declare it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
action=$1
headers=framework/sdk/include
version=$(sed -nE 's/^#define PRIVGRAD_VERSION_(MAJOR|MINOR) ([0-9]+)$/\2/p' $headers/privgrad/abi.hpp | paste -sd.)
kept=tests/abi/sdk-$version.abi.xz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

library=$work/libprivgrad_sdk.so.$version
sed -nE '/^add_library\(privgrad_sdk SHARED/,/\)/{s/add_library\(privgrad_sdk SHARED//;s/\)//;p}' framework/sdk/CMakeLists.txt |
  tr -s ' ' '\n' | sed -nE "s|(src/.*\.cpp)|#include \"$PWD/framework/sdk/\1\"|p" >"$work/sdk.cpp"
"${CXX:-c++}" -std=c++20 -g -O0 -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden \
  -I$headers -Iframework/sdk/src "$work/sdk.cpp" -o "$library"
abidw --headers-dir $headers --drop-private-types --no-show-locs --no-corpus-path --no-comp-dir-path \
  "$library" --out-file "$work/now.abi"

case $action in
  keep)
    xz -9 -c "$work/now.abi" >"$kept"
    echo "kept: $kept"
    ;;
  check)
    [ -e "$kept" ] || { echo "$kept: is missing; no interface of $version was kept" >&2; exit 1; }
    xz -dc "$kept" >"$work/then.abi"
    # Additions are allowed, because older plugins do not use them.
    abidiff --no-added-syms "$work/then.abi" "$work/now.abi" && echo "the interface is that of $kept"
    ;;
  *)
    echo "usage: scripts/abi.sh keep|check" >&2
    exit 2
    ;;
esac
