#!/bin/sh
# Prints the files that a change touches, one per line: the differences from the commit that
# PRIVGRAD_SINCE names, or otherwise from the newest commit that is a day older than the last one.
# The change is thus the work of one day, on every machine. Prints every file if the history does
# not reach that far back.
set -eu
cd "$(dirname "$0")/.."
since=${PRIVGRAD_SINCE:-$(git rev-list -1 --before=$(($(git log -1 --format=%ct) - 86400)) HEAD)}
if [ -z "$since" ]; then
  git ls-files
else
  git diff --name-only "$since"
  git ls-files --others --exclude-standard
fi
