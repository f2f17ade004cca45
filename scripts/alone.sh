#!/bin/sh
# Runs a build only while no other build of this user runs on this machine, because two builds on
# two cores slow each other down.
#
#   scripts/alone.sh JOBS COMMAND...
#
# COMMAND receives CMAKE_BUILD_PARALLEL_LEVEL=JOBS, which cmake --build uses. The lock is released
# when the last process that holds it ends, however it ends; calls inside the lock do not take it
# again. The script says when it waits, and after 20 minutes it runs the command anyway, with one
# job. PRIVGRAD_ALONE=off takes no lock. The seconds of waiting are added to the file that
# PRIVGRAD_WAITED names, so that the continuous checks can leave them out of a part's budget.
set -eu
CMAKE_BUILD_PARALLEL_LEVEL=$1
export CMAKE_BUILD_PARALLEL_LEVEL
shift
place=${XDG_CACHE_HOME:-${HOME:-}/.cache}/privgrad
if [ "${PRIVGRAD_ALONE:-}" != off ] && command -v flock >/dev/null && mkdir -p "$place" 2>/dev/null &&
  : 2>/dev/null >>"$place/build.lock"; then
  exec 9>>"$place/build.lock"
  if ! flock -n 9; then
    echo "Another build is running; this one waits for it (20 minutes at most; PRIVGRAD_ALONE=off waits for none)" >&2
    left=${PRIVGRAD_ALONE_LIMIT:-1200}
    until flock -w 5 9; do
      [ -z "${PRIVGRAD_WAITED:-}" ] || echo 5 >>"$PRIVGRAD_WAITED"
      left=$((left - 5))
      [ "$left" -gt 0 ] || {
        echo "It has not ended; this one builds beside it, with one job" >&2
        CMAKE_BUILD_PARALLEL_LEVEL=1
        break
      }
    done
  fi
  PRIVGRAD_ALONE=off
  export PRIVGRAD_ALONE
fi
exec "$@"
