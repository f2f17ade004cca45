#!/bin/sh
# Tests the backend `cuda` on a machine with a GPU, which needs neither the project's libraries nor
# a compiler.
#
#   check-cuda.sh here PROGRAM       started by `privgrad gpu check`, for an installed PROGRAM: prints whether the GPU computes
#                                    the same bits as the processor, and how long a step takes. Exit code 0: it does;
#                                    1: it does not; 2: no GPU can be used; 4: a run failed
#   scripts/check-cuda.sh pack DIR   builds everything needed and puts it in DIR, below 64 MiB (BUILD=build-ci names a
#                                    build folder other than build)
#   DIR/check-cuda.sh run            on the machine with the GPU: prints lines of JSON one by one, and adds them to
#                                    DIR/check.jsonl
#
# The script first queries the driver. Then it tests on the GPU: every network against the backend
# cpu, bit by bit; the noise against that of the trust base, bit by bit; whole runs against those of
# the backend cpu; every rule of the conformance suite (by itself, because it took four times as
# long while others used the GPU); and some of the networks under compute-sanitizer, if that is
# installed. The exit code is 0 if everything passes, each test within 120 s. Then the script
# measures steps by themselves (bench/compare_gpu.py), within a time budget for each network:
# private steps against those of PyTorch (float32, TF32, BF16), Opacus and JAX Privacy, as far as
# these are installed.
# Everything ends within 10 minutes if the tests take as long as on an H200 (2 minutes).
# COMPARE="--rounds 1" shortens the measurement.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

stop() {
  echo "check-cuda: $1" >&2
  exit 1
}

pack() {
  root=$(cd "$here/.." && pwd)
  build=$root/${BUILD:-build}
  [ -d "$build" ] || stop "there is no $build: configure it with cmake --preset, or name another with BUILD="
  cmake "$root" -B "$build" -DPRIVGRAD_CUDA=on >/dev/null
  cmake --build "$build" --target privgrad privgrad-conformance privgrad_plugins cuda_test
  rm -rf "$1"
  mkdir -p "$1/bin" "$1/lib/privgrad" "$1/libraries"
  cp "$build/bin/privgrad" "$build/tests/cuda_test" "$1/bin/"
  cp -P "$build"/lib/libprivgrad_sdk.so* "$1/lib/"
  cp "$build/lib/privgrad/privgrad-conformance" "$1/lib/privgrad/"
  cp -r "$build/lib/privgrad/plugins" "$1/lib/privgrad/"
  # These are not used, and their libraries (linear algebra; HDF5 with curl; archives with Unicode)
  # are most of the size.
  rm -rf "$1/lib/privgrad/plugins/transforms" "$1/lib/privgrad/plugins/clusters"
  rm -f "$1"/lib/privgrad/plugins/data_sources/hdf5.* "$1"/lib/privgrad/plugins/data_sources/npy.*
  cp "$here/check-cuda.sh" "$root/bench/compare_gpu.py" "$root/bench/compare_encoders.py" "$1/"
  echo "$build" >"$1/built-in"
  # All libraries that they link, including the C library and its loader, because those of the other
  # machine may be older.
  for file in "$1/bin/"* "$1/lib/privgrad/privgrad-conformance" "$1"/lib/privgrad/plugins/*/*.so; do
    ldd "$file" | sed -nE 's/.*=> (\/[^ ]*) .*/\1/p; s/^[[:space:]]*(\/[^ ]*ld-linux[^ ]*) .*/\1/p'
  done | sort -u | grep -v libprivgrad_sdk | while read -r library; do
    cp -L "$library" "$1/libraries/"
  done
  size=$(du -sm "$1" | cut -f1)
  [ "$size" -lt 64 ] || stop "$1 has $size MiB, allowed are 63"
  echo "$1: $size MiB"
}

# started PROGRAM WORDS...: starts it with the packed libraries, but with this machine's driver.
# (Without the packed loader as the command: a program that looks up its own path must find itself.)
started() {
  LD_LIBRARY_PATH="$here/lib:$own_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}

# Libraries that this machine lacks are taken from here; a C library of another version than the
# loader would not start.
choose_libraries() {
  own_libraries=$here/chosen
  rm -rf "$own_libraries"
  mkdir -p "$own_libraries"
  for library in "$here"/libraries/*; do
    name=$(basename "$library")
    case "$name" in
      libc.so.* | libm.so.* | ld-linux* | libdl.so.* | libpthread.so.* | libresolv.so.* | librt.so.*) ;;
      *) ln -s "$library" "$own_libraries/$name" ;;
    esac
  done
}

tell() {
  printf '%s\n' "$1" | tee -a "$here/check.jsonl"
}

# check NAME COMMAND...: prints one line; also the last lines of output if the command fails.
check() {
  name=$1
  shift
  begin=$(date +%s)
  result=true
  started timeout 120 "$@" >"$here/$name.log" 2>&1 || result=false
  if [ "$result" = false ]; then
    tail -n 20 "$here/$name.log" >&2
    echo "$name" >>"$here/failed"
  fi
  tell "{\"check\": \"$name\", \"passed\": $result, \"seconds\": $(($(date +%s) - begin))}"
}

# Why $program cannot use a GPU; empty if it can.
missing_hardware() {
  "$program" plugins list --json >"$work/plugins.json" || return 1
  grep -q '"full_name": *"privgrad.cuda:cuda"' "$work/plugins.json" || echo "the plugin of the backend cuda is not installed"
  sed -nE 's/.*"missing_hardware": ?"([^"]+)".*/\1/p' "$work/plugins.json" | head -n 1
}

device() {
  nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -n 1 || true
}

# The bytes of a model after its header, whose length is in the first eight bytes.
tensors() {
  header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  tail -c "+$((header + 9))" "$1" | sha256sum | cut -d' ' -f1
}

# train BACKEND OUT [--set KEY=VALUE]
train() {
  set -- "$1" "$2" "${3:-}" "${4:-}"
  "$program" run "$work/small.yaml" --quiet --set "backend=$1" --out "$2" --state "$2.state" $3 $4 >"$2.said"
}

# Whether a run leaves the same model on the processor, on the GPU, and there in other passes. A run that fails says so itself.
same_model() {
  rm -rf "$work/runs"
  mkdir "$work/runs"
  cat >"$work/small.yaml" <<'YAML'
privgrad: 1
seed: 5
data: {kind: synthetic, rows: 2000, test_rows: 500, dimensions: 20}
model: {kind: mlp, hidden: [64, 32], loss: cross_entropy}
sampler: full_batch
optimizer: {kind: momentum, beta: 0.9}
schedules: {clip_norm: 1, learning_rate: 0.5, noise_multiplier: uniform}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 30
YAML
  train '{kind: cpu}' "$work/runs/cpu" || return
  train '{kind: cuda, device: 0}' "$work/runs/gpu" || return
  train '{kind: cuda, device: 0}' "$work/runs/again" --set microbatch_size=77 || return
  right=$(tensors "$work/runs/cpu/model.safetensors")
  for run in gpu again; do
    [ "$(tensors "$work/runs/$run/model.safetensors")" != "$right" ] || continue
    echo "privgrad: error: the backend cuda leaves another model than the backend cpu" >&2
    return 1
  done
}

here() {
  program=$1
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  missing=$(missing_hardware)
  if [ -n "$missing" ]; then
    echo "privgrad: error: there is no GPU to check: $missing" >&2
    exit 2
  fi
  echo "device       $(device)"
  same_model || {
    result=$?
    [ "$result" != 1 ] || echo "bits         WRONG"
    exit "$result"
  }
  echo "bits         right: 30 steps leave the model that the processor trains, byte for byte"
  if command -v python3 >/dev/null; then
    # COMPARE is words of options.
    python3 "$here/compare_gpu.py" --program "$program" --networks cnn --budget 60 --plain ${COMPARE:-}
  else
    echo "step         not measured: python3 is not installed"
  fi
}

# compare NETWORK SECONDS OPTIONS...: prints lines of figures. Python uses this machine's libraries;
# privgrad is started with the packed ones.
compare() {
  network=$1 seconds=$2
  shift 2
  log=$here/compare_$network.log
  # COMPARE contains options.
  timeout "$((seconds + 5))" python3 "$here/compare_gpu.py" --program "$here/privgrad-here" --networks "$network" \
    --budget "$seconds" "$@" ${COMPARE:-} 2>"$log" |
    tee -a "$here/check.jsonl" | grep . ||
    tell "{\"network\": \"$network\", \"missing\": \"$(tail -n 1 "$log" | tr -d '"\\')\"}"
}

# Simultaneous writes and accesses outside an array may give a correct result by chance, so results
# do not reveal them.
sanitize() {
  if command -v compute-sanitizer >/dev/null; then
    check "$1" env PRIVGRAD_TEST_GPU=1 compute-sanitizer --tool "$1" --error-exitcode 1 "$here/bin/cuda_test" \
      'cuda: so have examples whose roundings*,cuda: a pass refuses*,cuda: sums do not depend*,cuda: a step that stays*,cuda noise: what cannot*'
  else
    tell "{\"check\": \"$1\", \"missing\": \"compute-sanitizer is not installed\"}"
  fi
}

run() {
  [ -e "$here/built-in" ] || stop "run is for a folder that pack made"
  choose_libraries
  program=$here/privgrad-here
  work=$here
  rm -f "$here/failed" "$here/check.jsonl"
  # The tests look for plugins in the place where they were built.
  plugins=$(cat "$here/built-in")/lib/privgrad/plugins
  if [ ! -e "$plugins" ]; then
    mkdir -p "$(dirname "$plugins")"
    ln -s "$here/lib/privgrad/plugins" "$plugins"
  fi
  cat >"$here/privgrad-here" <<EOF
#!/bin/sh
LD_LIBRARY_PATH="$here/lib:$own_libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "$here/bin/privgrad" "\$@"
EOF
  chmod +x "$here/privgrad-here"
  missing=$(missing_hardware)
  tell "{\"device\": \"$(device)\", \"missing_hardware\": \"$missing\"}"
  [ -z "$missing" ] || exit 1
  check programs env PRIVGRAD_TEST_GPU=1 "$here/bin/cuda_test" 'cuda: *' &
  check noise env PRIVGRAD_TEST_GPU=1 "$here/bin/cuda_test" 'cuda noise*' &
  check same_model "$here/check-cuda.sh" same_model &
  wait
  check conformance "$here/lib/privgrad/privgrad-conformance" --quiet --time-limit 110 --memory-limit 0 \
    --params "cuda={device: 0}" "$here/lib/privgrad/plugins/backends/cuda.privgrad.so"
  sanitize memcheck &
  sanitize racecheck &
  wait
  compare cnn 60
  compare mlp 120
  compare encoder 90
  compare wrn 40
  tell "{\"passed\": $([ -e "$here/failed" ] && echo false || echo true)}"
  [ ! -e "$here/failed" ]
}

case "${1:-}" in
  pack) [ $# = 2 ] || stop "usage: check-cuda.sh pack DIR"; pack "$2" ;;
  run) run ;;
  same_model) program=$here/privgrad-here work=$here; same_model ;;
  here) [ $# = 2 ] || stop "usage: check-cuda.sh here PROGRAM"; here "$2" ;;
  *) stop "usage: check-cuda.sh pack DIR, and there: check-cuda.sh run; or check-cuda.sh here PROGRAM" ;;
esac
