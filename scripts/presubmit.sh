#!/bin/bash
# `make presubmit`: whether the continuous checks would pass, in minutes. Usage: scripts/presubmit.sh JOBS
#
# A check that has passed is not repeated until something changes on which it depends: a source that
# clang-tidy found clean (scripts/lint.py); the Python package, by its hash and that of the program;
# a test program, by its hash; a page, by the hash of its text. The first call therefore takes as
# long as all checks together. Test programs that call the command depend on the whole of it: of
# these, only the changed ones and those with the label `fast` run here, and the others run in
# .ci/run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
jobs=$1
build=build-ci
seen=$build/presubmit
whole_limit=40
. scripts/parts.sh

# From now on, git refuses a commit whose message does not have the form of CONTRIBUTING.md, unless
# the repository already has hooks.
git config --get core.hooksPath >/dev/null || git config core.hooksPath scripts/hooks

hash_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

# unless_seen NAME HASH COMMAND...   runs the command, unless it has passed with this hash
unless_seen() {
  local name=${1//\//_} hash=$2
  shift 2
  if [ "$(cat "$seen/$name" 2>/dev/null)" = "$hash" ]; then
    echo "$name: passed, and has not changed since"
    return 0
  fi
  "$@" || return 1
  mkdir -p "$seen"
  echo "$hash" >"$seen/$name"
}

# The package's behaviour depends on the whole library, which is linked into the program as well.
python_package() {
  unless_seen python "$(hash_of pyproject.toml python/packages.txt $(git ls-files python) "$build/bin/privgrad")" \
    scripts/python-test.sh "$build" "$jobs"
}

build_all() {
  make --no-print-directory build PRESET=ci
}

changed_programs() {
  local program name status=0
  for program in "$build"/tests/*_test; do
    name=$(basename "$program")
    unless_seen "$name" "$(hash_of "$program")" \
      ctest --preset ci --parallel "$jobs" -R "^$name:" || status=1
  done
  return "$status"
}

changed_pages() {
  local page status=0
  for page in $(git ls-files '*.md' ':!docs/components' ':!CHANGELOG.md' ':!examples/plugin_template'); do
    ctest --preset ci -N -R "^docs: $page\$" | grep -q 'Total Tests: 1' || continue
    unless_seen "$page" "$(hash_of "$page" tests/docs/fragments.toml)" ctest --preset ci -R "^docs: $page\$" || status=1
  done
  unless_seen components "$(hash_of $(git ls-files docs/components) "$build/bin/privgrad")" \
    ctest --preset ci -R "^docs: docs/components\$" || status=1
  return "$status"
}

part  1 "form" make --no-print-directory check-form
part  2 "clang-tidy" env PRIVGRAD_LINT_SECONDS=200 make --no-print-directory lint FILES=--quick
part  3 "build as the continuous checks do" build_all
part  5 "Python package" python_package
part 10 "test programs that changed" changed_programs  # of a first call; later seconds
part  1 "tests without a program" ctest --preset ci --parallel "$jobs" -R '^(compile_fail|plugins\.|scripts: )'
part  1 "pages that changed" changed_pages
git diff --quiet || echo "There are changes that are not committed; a submission is what is committed." >&2
finish_parts
