#!/bin/bash
# `make check`: what is worth knowing before a commit, in under a minute when all is built.
# Usage: scripts/check.sh BUILD JOBS
#
#   always                           the programs with the label `fast` (tests/CMakeLists.txt)
#   framework/sdk                    and what must not compile
#   plugins/KINDS/..., their tests   and the tests of that kind of plugin
#   framework/report, tests/report   and the tests of reports
#   tests/cli, tests/conformance, tests/pipelines, tests/privacy   and the tests there
#
# What changed is counted from where the branch left the main one, files not yet added included; on the main
# branch, from the last commit. `make test` runs everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
jobs=$2

base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
changed=$(git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard)

# touches PATTERN   whether a changed file has a name that fits
touches() { grep -qE "$1" <<<"$changed"; }

echo "== format"
sources=$(grep -E '\.(cpp|hpp)$' <<<"$changed" | grep -v '^examples/plugin_template' || true)
xargs -r clang-format-14 --dry-run --Werror <<<"$sources"

programs="sdk_test trust_test manifest_test pipeline_test studies_test host_test"
kinds=$(sed -nE 's#^(plugins|tests/plugins)/([a-z_]+)s[_/].*#\2#p' <<<"$changed" | sort -u)
if [ -n "$kinds" ]; then programs="$programs plugins_test"; fi
if touches '^(plugins/backends/cuda|tests/cuda)/'; then programs="$programs cuda_test"; fi
if touches '^(framework|tests)/report/'; then programs="$programs report_test"; fi
for room in cli conformance pipelines privacy; do
  if touches "^tests/$room/"; then programs="$programs ${room}_test"; fi
done

echo "== build: $programs"
cmake --build "$build" --parallel "$jobs" --target $programs privgrad_runtime

echo "== tests"
labels=fast
for room in report cli conformance cuda pipelines privacy; do
  case "$programs " in *" ${room}_test "*) labels="$labels|$room" ;; esac
done
failed=0
ctest --test-dir "$build" --output-on-failure --parallel "$jobs" -L "^($labels)$" || failed=1
if touches '^framework/sdk/'; then
  ctest --test-dir "$build" --output-on-failure --parallel "$jobs" -R '^compile_fail' || failed=1
fi
for kind in $kinds; do
  echo "== tests of plugins: $kind"
  "$build/tests/plugins_test" "[$kind]" || failed=1
done
exit "$failed"
