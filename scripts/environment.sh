#!/bin/sh
# Makes a Python environment with packages from PyPI, shared by all checkouts, and prints its
# folder.
#
#   scripts/environment.sh NAME PINS [PIP_ARG...]     PINS: a file with a package and its version a line
#
# The folder's name contains a hash of the pins, and the interpreter if it is not Debian's. Other
# pins therefore give another folder, and an environment in use never changes. It is made under a
# lock; an incomplete one is made again. Prints nothing and exits with 1 if PyPI cannot be reached.
# PYTHON: the interpreter, /usr/bin/python3 by default.
set -eu
name=$1
pins=$2
shift 2
python=${PYTHON:-/usr/bin/python3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/privgrad
place=$cache/$name-$(sha256sum <"$pins" | cut -c 1-12)
[ "$python" = /usr/bin/python3 ] || place=$place-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
mkdir -p "$cache"
exec 9>>"$place.lock"
flock -w 900 9 || { echo "environment: $place.lock is held by another installation for 15 minutes" >&2; exit 1; }
if [ ! -e "$place/installed" ]; then
  echo "Installing $(tr '\n' ' ' <"$pins")in $place" >&2
  "$python" -m venv --clear "$place" >&2
  timeout 900 "$place/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 15 "$@" -r "$pins" >&2 || exit 1
  touch "$place/installed"
fi
echo "$place"
