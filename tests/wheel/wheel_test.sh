#!/bin/sh
# Installs the latest wheel into an empty environment that cannot find this folder, makes a plugin
# there with each compiler in less than a minute, hands three components on in a signed file, and
# uses everything.
#
#   tests/wheel/wheel_test.sh BUILD
set -eu
build=$1
python=${PYTHON:-/usr/bin/python3}
place=$build/wheel-test
rm -rf "$place"
mkdir -p "$place/elsewhere"
begin=$(date +%s)
"$python" -m venv "$place/environment"
timeout 300 "$place/environment/bin/pip" install -q --disable-pip-version-check "$build"/wheel/made/privgrad-*.whl
installing=$(($(date +%s) - begin))

program=$(pwd)/tests/wheel/use_wheel.py
suite=$(pwd)/tests/wheel/suite_of_three.sh
environment=$(cd "$place/environment" && pwd)
cd "$place/elsewhere"
alone() { timeout 300 env -i HOME="$PWD" PATH="$environment/bin:/usr/bin:/bin" "$@"; }

made=""
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "not run: a plugin by $compiler with the wheel: it is not installed"; continue; }
  name=by_$(echo "$compiler" | tr -d +)
  begin=$(date +%s)
  alone privgrad plugins new schedule "$name" --vendor test
  alone cmake -S "$name" -B "$name/build" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$(alone privgrad --prefix)" >log || { cat log; exit 1; }
  alone cmake --build "$name/build" >log || { cat log; exit 1; }
  alone ctest --test-dir "$name/build" --output-on-failure >log || { cat log; exit 1; }
  took=$((installing + $(date +%s) - begin))
  echo "from pip install to a tested plugin by $compiler: $took s"
  [ "$took" -lt 60 ] || { echo "expected less than 60 s" >&2; exit 1; }
  alone sh "$suite" "$compiler" >log 2>&1 || { cat log; exit 1; }
  tail -1 log
  made="$made $name"
done
exec timeout 300 env -i HOME="$PWD" PATH="$environment/bin:/usr/bin:/bin" "$environment/bin/python" -I "$program" $made
