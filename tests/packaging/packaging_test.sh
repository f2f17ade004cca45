#!/bin/sh
# One case per call; see CMakeLists.txt. Needs CMAKE, CTEST, GENERATOR, CXX, CXXFLAGS, BUILD_TYPE, BUILD, SOURCE, WORK.
set -eu
umask 022 # the loader refuses files that others may write
prefix=$WORK/prefix
privgrad=$prefix/bin/privgrad

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

# expect_text FILE TEXT
expect_text() {
  grep -qF -- "$2" "$1" || {
    cat "$1" >&2
    fail "expected '$2' in the output above"
  }
}

# expect_exit CODE COMMAND...   standard output and error go to $log
expect_exit() {
  wanted=$1
  shift
  got=0
  "$@" >"$log" 2>&1 || got=$?
  [ "$got" = "$wanted" ] || {
    cat "$log" >&2
    fail "'$*' ended with exit code $got, expected $wanted"
  }
}

# fresh NAME sets $folder to an empty folder and $log to a file next to it
fresh() {
  folder=$WORK/$1
  log=$WORK/$1.log
  rm -rf "$folder"
  mkdir -p "$WORK"
}

# configure FOLDER [ARGUMENT...]
configure() {
  source_folder=$1
  shift
  expect_exit 0 "$CMAKE" -S "$source_folder" -B "$source_folder/build" -G "$GENERATOR" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$prefix" "$@"
}

# expect_safe_run_paths FILE...   the loader looks for libraries in no folder that depends on the current one. An empty
# entry of a run path is the current folder.
expect_safe_run_paths() {
  for file; do
    run_path=:$(readelf -d "$file" 2>/dev/null | sed -n 's/.*(R.*PATH).*\[\(.*\)\]$/\1/p'):
    case $run_path in
      :: | *:[!/$:]* | *::*) [ "$run_path" = :: ] || fail "$file has the run path $run_path" ;;
    esac
  done
}

# new_plugin KIND NAME builds a plugin in $folder
new_plugin() {
  fresh "$2"
  expect_exit 0 "$privgrad" plugins new "$1" "$2" --dir "$folder"
  ! grep -rn '@[A-Z]*@' "$folder" || fail "a token of the template was left in"
  configure "$folder"
  expect_exit 0 "$CMAKE" --build "$folder/build"
  expect_safe_run_paths "$folder"/build/*.privgrad.so
  # With any flags of the author, a new plugin compiles without warnings.
  ! grep -q 'warning:' "$log" || fail "the template compiles with warnings: $(cat "$log")"
}

case_install() {
  fresh install
  rm -rf "$prefix" "$prefix.first"
  expect_exit 0 "$CMAKE" --install "$BUILD" --prefix "$prefix.first"
  mv "$prefix.first" "$prefix" # no path of the first place may be baked in
  expect_exit 0 env -u PRIVGRAD_PLUGIN_PATH "$privgrad" plugins list
  expect_text "$log" constant
  for place in "$BUILD" "$prefix"; do
    expect_safe_run_paths "$place"/bin/privgrad "$place"/lib/*.so "$place"/lib/privgrad/privgrad-* \
      "$place"/lib/privgrad/plugins/*/*.so
  done
  [ -f "$prefix/share/doc/privgrad/LICENSE" ] || fail "the licence is not installed"
  # The companion program that downloads is found after the move, and starts: it fails only because
  # of the disk.
  expect_exit 4 env PRIVGRAD_CACHE_DIR=/proc/privgrad "$privgrad" data fetch mnist
  expect_text "$log" /proc/privgrad
  # Only the program for plugin authors contains the library that creates released values without a
  # charge.
  companions=$prefix/lib/privgrad
  nm -C "$companions/privgrad-conformance" >"$log"
  expect_text "$log" "privgrad::core::released_for_testing("
  for file in "$privgrad" "$companions/privgrad-fetch" "$prefix"/lib/libprivgrad_sdk.so; do
    nm -C "$file" >"$log"
    expect_text "$log" "privgrad::"
    ! grep -F released_for_testing "$log" || fail "$file can make released values"
  done
  for shell in bash-completion/completions/privgrad zsh/site-functions/_privgrad; do
    expect_text "$prefix/share/$shell" "plugins describe"
  done
  documentation=$prefix/share/doc/privgrad
  # Files to which pages of the documentation link are installed, so that the links work.
  for file in README.md CITATION.cff docs/README.md docs/manifest.md docs/components/README.md docs/decisions/README.md \
    examples/manifests/quickstart.yaml examples/studies/quickstart.yaml; do
    [ -f "$documentation/$file" ] || fail "$file is not installed"
  done
  [ ! -e "$documentation/examples/plugin_template" ] || fail "the template is installed twice"
  expect_exit 0 "$privgrad" validate "$documentation/examples/manifests/quickstart.yaml"
  # Each command has a page, and each page has a command.
  "$privgrad" --help | sed -n '/^commands:/,/^$/s/^  \([a-z -]*[a-z-]\)  .*/\1/p' | tr ' ' '-' | sort >"$log.commands"
  (cd "$prefix/share/man/man1" && ls privgrad-*.1) | sed 's/^privgrad-//; s/\.1$//' | sort >"$log.pages"
  [ -s "$log.commands" ] || fail "--help lists no commands"
  cmp "$log.commands" "$log.pages" || fail "manual pages and commands differ"
  expect_text "$prefix/share/man/man1/privgrad-run.1" ".SH SYNOPSIS"
  expect_text "$prefix/share/man/man1/privgrad.1" "privgrad\\-plugins\\-list"
  # `make install` builds privgrad_runtime, which contains every built file that is installed.
  [ "$GENERATOR" = Ninja ] || return 0
  find "$BUILD" -name cmake_install.cmake -exec grep -ho "\"$BUILD/[^\"]*\"" {} + | sed "s|^\"$BUILD/||; s|\"$||" | sort -u >"$log.installed"
  ninja -C "$BUILD" -t targets all | sed 's/: [^:]*$//' >"$log.outputs"
  awk 'NR == FNR { wanted[$0]; next } { for (path = $0; path != ""; ) { if (path in wanted) print; if (!sub("/[^/]*$", "", path)) break } }' \
    "$log.installed" "$log.outputs" | sort >"$log.built"
  ninja -C "$BUILD" -t graph privgrad_runtime | sed -n 's/.* \[label="\([^"]*\)".*/\1/p' | sort -u >"$log.runtime"
  for file in bin/privgrad share/man/man1/privgrad.1 completion.bash; do expect_text "$log.built" "$file"; done
  comm -23 "$log.built" "$log.runtime" >"$log"
  [ ! -s "$log" ] || fail "make install does not build $(tr '\n' ' ' <"$log")"
}

# The Debian package privgrad-dev is the component dev of the installation.
case_sdk() {
  fresh sdk
  expect_exit 0 "$CMAKE" --install "$BUILD" --component dev --prefix "$folder"
  diff -r "$SOURCE/framework/sdk/include/privgrad" "$folder/include/privgrad" -x inference -x testing ||
    fail "the headers are not those of the sources"
  diff -r "$SOURCE/examples/plugin_template" "$folder/share/privgrad/plugin_template" ||
    fail "the template is not that of the sources"
  for file in privgradConfig.cmake privgradConfigVersion.cmake privgradTargets.cmake PrivGradPlugin.cmake privgrad_plugin.lds; do
    [ -f "$folder/lib/cmake/privgrad/$file" ] || fail "$file is not installed"
  done
}

# suite [COMPILER]   A component of each kind in one plugin, by this compiler or the framework's own: it keeps the contracts
# of its kinds, and a run uses them.
case_suite() {
  compiler=${1:-$CXX}
  command -v "$compiler" >/dev/null || { echo "SKIPPED: $compiler is not installed"; exit 0; }
  [ -z "${1:-}" ] || case "$CXXFLAGS" in *-fsanitize*) echo "SKIPPED: $compiler has another sanitizer"; exit 0 ;; esac
  fresh "suite_$(basename "$compiler")"
  expect_exit 0 "$privgrad" plugins new suite accountant aggregator backend clipping data_source model optimizer sampler \
    schedule transform schedule/slower --dir "$folder" --vendor acme
  CXXFLAGS=${1:+} configure "$folder" -DCMAKE_CXX_COMPILER="$compiler"
  expect_exit 0 "$CMAKE" --build "$folder/build"
  expect_safe_run_paths "$folder"/build/*.privgrad.so
  # Whatever the author's own flags, a fresh plugin compiles without warnings.
  ! grep -q 'warning:' "$log" || fail "the template compiles with warnings: $(cat "$log")"
  expect_exit 0 "$CTEST" --test-dir "$folder/build" --output-on-failure
  expect_text "$log" "suite-conformance"
  expect_text "$log" "100% tests passed, 0 tests failed out of 1"
  cat >"$folder/manifest.yaml" <<'YAML'
privgrad: 1
data: {kind: suite_data_source, transforms: [{kind: suite_transform, statistic: public}]}
model: {kind: suite_model, hidden: 4}
backend: suite_backend
sampler: {kind: suite_sampler, groups: 4}
aggregator: suite_aggregator
clipping: {kind: suite_clipping, floor: 0.1}
optimizer: suite_optimizer
schedules:
  noise_multiplier: uniform
  clip_norm: {kind: slower, from: 1, to: 0.5}
  learning_rate: {kind: suite_schedule, from: 0.5, to: 0.1}
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: suite_accountant}
steps: 8
YAML
  expect_exit 0 env PRIVGRAD_PLUGIN_PATH="$folder/build/lib/privgrad/plugins" \
    "$privgrad" run "$folder/manifest.yaml" --quiet --out "$folder/run"
  expect_text "$folder/run/privgrad.lock" 'name = "acme.suite"'
}

case_story() {
  new_plugin schedule slow_fall
  plugin=$folder/build/lib/privgrad/plugins/schedules/slow_fall.privgrad.so
  export PRIVGRAD_PLUGIN_PATH=$folder/build/lib/privgrad/plugins

  expect_exit 0 "$privgrad" plugins list
  expect_text "$log" slow_fall
  expect_exit 0 "$privgrad" plugins describe schedule/slow_fall
  expect_text "$log" "Value at the last step."

  manifest=$folder/manifest.yaml
  cat >"$manifest" <<'YAML'
privgrad: 1
name: out-of-tree
data: {kind: synthetic, rows: 50, test_rows: 20, dimensions: 3}
model: {kind: linear, loss: cross_entropy}
sampler: {kind: full_batch}
aggregator: {kind: gaussian}
optimizer: {kind: sgd}
schedules:
  noise_multiplier: {kind: uniform}
  clip_norm: 1
  learning_rate: {kind: slow_fall, from: 0.5, to: 0.25}
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 5
YAML
  # 0.5, ..., 0.25 in five equal steps: the plugin's values reach the plan.
  expect_exit 0 "$privgrad" plan "$manifest" --json
  tr -d ' \n' <"$log" >"$log.flat"
  expect_text "$log.flat" '"learning_rate":[0.5,0.4375,0.375,0.3125,0.25]'

  expect_exit 0 "$privgrad" run "$manifest" --out "$folder/first"
  lock=$folder/first/privgrad.lock
  expect_text "$lock" "example.slow_fall"
  expect_text "$lock" "$(sha256sum "$plugin" | cut -d' ' -f1)"

  cp "$lock" "$folder/privgrad.lock"
  expect_exit 0 "$privgrad" run "$manifest" --locked --out "$folder/second"

  # A change of one byte that affects only the hash: the last byte, which belongs to the section
  # table.
  size=$(stat -c %s "$plugin")
  last=$(tail -c 1 "$plugin" | od -An -tu1 | tr -d ' ')
  printf "\\$(printf %o $(((last + 1) % 256)))" |
    dd of="$plugin" bs=1 seek=$((size - 1)) conv=notrunc status=none
  got=0
  "$privgrad" run "$manifest" --locked --out "$folder/third" >"$log" 2>&1 || got=$?
  [ "$got" != 0 ] || fail "a plugin that differs from the lock file was used"
  expect_text "$log" "privgrad: error:"
  expect_text "$log" "slow_fall"
  expect_text "$log" "sha256"
  [ ! -e "$folder/third" ] || fail "a refused run left a run directory"
}

# consumer NAME LINES   writes a project with these lines after its project() call
consumer() {
  fresh "$1"
  mkdir -p "$folder"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES CXX)\n%s\n' "$2" \
    >"$folder/CMakeLists.txt"
}

case_version() {
  # An older version must be refused, because this ABI would refuse its plugins. (Any rule would
  # refuse a newer version.)
  consumer version 'find_package(privgrad 0.0 REQUIRED)'
  expect_exit 1 "$CMAKE" -S "$folder" -B "$folder/build" -G "$GENERATOR" -DCMAKE_PREFIX_PATH="$prefix"
  expect_text "$log" 'compatible with requested version "0.0"'
}

case_fast_math() {
  consumer fast_math 'find_package(privgrad 0.1 REQUIRED)
privgrad_add_plugin(quick KIND schedules SOURCES quick.cpp)'
  expect_exit 1 "$CMAKE" -S "$folder" -B "$folder/build" -G "$GENERATOR" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_FLAGS=-ffast-math
  expect_text "$log" "must not use -ffast-math"
}

# Every installed header includes nothing but the others and the standard library.
case_includes() {
  fresh includes
  if grep -hE '^ *# *include' "$prefix"/include/privgrad/*.hpp |
    grep -vE '<[a-z_]+>|"privgrad/[a-z_]+\.hpp"' >"$log"; then
    cat "$log" >&2
    fail "an installed header includes something else than the standard library and itself"
  fi
}

# And compiles by itself.
case_headers() {
  fresh headers
  : >"$log"
  for header in "$prefix"/include/privgrad/*.hpp; do
    "$CXX" -std=c++20 -fsyntax-only -x c++ -I"$prefix/include" "$header" >>"$log" 2>&1 || {
      cat "$log" >&2
      fail "$header does not compile alone"
    }
  done
}

# A third-party program loads a model and predicts the same as the command.
case_use() {
  fresh use
  cp -r "$SOURCE"/examples/use/. "$folder"
  configure "$folder"
  expect_exit 0 "$CMAKE" --build "$folder/build"
  expect_exit 0 "$privgrad" run "$SOURCE/examples/manifests/quickstart.yaml" --quiet --out "$folder/run" \
    --set steps=2 --set 'data.transforms=[{kind: pca, dimensions: 3}]'
  printf '%s\n' "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0" "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1" >"$folder/rows"
  sed 's/ /,/g; s/$/,0/' "$folder/rows" >"$folder/rows.csv"
  expect_exit 0 env -u PRIVGRAD_PLUGIN_PATH sh -c "'$folder/build/predict' '$folder/run/model.safetensors' <'$folder/rows'"
  expect_exit 0 "$privgrad" predict "$folder/run" --quiet --out "$folder/p.csv" \
    --data "{kind: csv, train: $folder/rows.csv, header: false, target: '20', classes: 2}"
  # Compared to the six digits that the program prints.
  "$folder/build/predict" "$folder/run/model.safetensors" <"$folder/rows" | tr ' ' '\n' >"$folder/by_program"
  tail -n +2 "$folder/p.csv" | cut -d, -f4- | tr ',' '\n' | awk '{ printf "%.6g\n", $1 }' >"$folder/by_command"
  [ "$(wc -l <"$folder/by_program")" = 4 ] || fail "expected two rows of two probabilities"
  diff "$folder/by_program" "$folder/by_command" || fail "the program and the command predict differently"
  # The program that exports finds the installed plugins relative to its own path.
  if [ -x "$BUILD/lib/privgrad/privgrad-export" ]; then
    expect_exit 0 env -u PRIVGRAD_PLUGIN_PATH "$privgrad" export "$folder/run" --out "$folder/model.onnx"
    [ ! -s "$log" ] || fail "export prints something"
    expect_text "$folder/model.onnx" probabilities
  fi
  nm -DC --defined-only "$prefix/lib/libprivgrad_inference.so" >"$log"
  ! grep -F "privgrad::core::" "$log" || fail "the library shows what is inside it"
}

command=$1
shift
"case_$command" "$@"
