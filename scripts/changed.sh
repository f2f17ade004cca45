#!/bin/sh
# Prints the files that a change touches, a line each: what differs from the commit that PRIVGRAD_SINCE names, or else from
# the newest one that is a day older than the last. So what a day's work adds is the change, on whatever machine that is
# asked. Prints every file where the history does not reach so far.
set -eu
cd "$(dirname "$0")/.."
since=${PRIVGRAD_SINCE:-$(git rev-list -1 --before=$(($(git log -1 --format=%ct) - 86400)) HEAD)}
if [ -z "$since" ]; then
  git ls-files
else
  git diff --name-only "$since"
  git ls-files --others --exclude-standard
fi
