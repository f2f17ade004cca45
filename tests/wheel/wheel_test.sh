#!/bin/sh
# Installs the wheel that was made last into an empty environment, in which nothing of this folder is found, and uses it.
#
#   tests/wheel/wheel_test.sh BUILD
set -eu
build=$1
python=${PYTHON:-/usr/bin/python3}
place=$build/wheel-test
rm -rf "$place"
mkdir -p "$place/elsewhere" "$place/plugins"
"$python" -m venv "$place/environment"
timeout 300 "$place/environment/bin/pip" install -q --disable-pip-version-check "$build"/wheel/made/privgrad-*.whl

# A plugin that was built elsewhere: by the compiler, against the SDK's headers and the SDK of the build.
cp tests/wheel/halves.cpp "$place/plugins/halves.cpp"
c++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -fno-gnu-unique -Iframework/sdk/include \
  -Wl,-z,nodelete -Wl,-z,now -Wl,--version-script=cmake/privgrad_plugin.lds \
  -o "$place/plugins/halves.privgrad.so" "$place/plugins/halves.cpp" -L"$build/lib" -lprivgrad_sdk
chmod go-w "$place/plugins/halves.privgrad.so"

program=$(pwd)/tests/wheel/use_wheel.py
plugins=$(cd "$place/plugins" && pwd)
environment=$(cd "$place/environment" && pwd)
cd "$place/elsewhere"
exec timeout 300 env -i HOME="$PWD" PATH="$environment/bin:/usr/bin:/bin" "$environment/bin/python" -I "$program" "$plugins"
