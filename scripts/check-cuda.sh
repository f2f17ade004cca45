#!/bin/sh
# Tries the backend `cuda` on a machine with a GPU, which need not have the project's libraries, nor a compiler.
#
#   scripts/check-cuda.sh pack DIR   builds what is needed and puts it in DIR, below 64 MiB (BUILD=build-ci names a
#                                    build folder other than build)
#   DIR/check-cuda.sh run            there: runs the suite, and prints one JSON document; also kept in DIR/check.json
#
# What is run on the GPU: every rule of the conformance suite, with each precision; every network beside the backend cpu, bit by bit; the
# noise beside the trust base's, bit by bit; whole runs beside those of the backend cpu. Exit code 0 if all is well.
# Times are told of whole runs; nothing is promised of them. Steps are then measured beside those of PyTorch, Opacus and JAX
# Privacy (bench/compare_gpu.py), whichever are installed there: `comparison` has a document for each precision, and what
# could not be measured is null, with the reason. COMPARE="--batch 8 --steps 1" makes less of it.
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
  # None of these is used, and what they are linked with (linear algebra; HDF5 with curl; archives with Unicode) is most of
  # all that there is.
  rm -rf "$1/lib/privgrad/plugins/transforms" "$1/lib/privgrad/plugins/clusters"
  rm -f "$1"/lib/privgrad/plugins/data_sources/hdf5.* "$1"/lib/privgrad/plugins/data_sources/npy.*
  cp "$here/check-cuda.sh" "$root/bench/compare_gpu.py" "$1/"
  cp "$root/examples/manifests/quickstart.yaml" "$1/"
  echo "$build" >"$1/built-in"
  # Whatever they are linked with, the C library and its loader too: that machine's may be older.
  for file in "$1/bin/"* "$1/lib/privgrad/privgrad-conformance" "$1"/lib/privgrad/plugins/*/*.so; do
    ldd "$file" | sed -nE 's/.*=> (\/[^ ]*) .*/\1/p; s/^[[:space:]]*(\/[^ ]*ld-linux[^ ]*) .*/\1/p'
  done | sort -u | grep -v libprivgrad_sdk | while read -r library; do
    cp -L "$library" "$1/libraries/"
  done
  size=$(du -sm "$1" | cut -f1)
  [ "$size" -lt 64 ] || stop "$1 has $size MiB, allowed are 63"
  echo "$1: $size MiB"
}

# started PROGRAM WORDS...: with the libraries that came along, but the driver of this machine. (Not the loader that came
# along: a program that asks for itself must find itself.)
started() {
  LD_LIBRARY_PATH="$here/lib:$own_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}

# Those that this machine has not are taken from here; a C library of another version than the loader would not start.
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

# check NAME COMMAND...: a member of the document; its last lines where it fails.
check() {
  name=$1
  shift
  begin=$(date +%s)
  if "$@" >"$here/$name.log" 2>&1; then result=true; else result=false failed=1; fi
  [ "$result" = true ] || tail -n 20 "$here/$name.log" >&2
  printf ',\n  "%s": {"passed": %s, "seconds": %s}' "$name" "$result" "$(($(date +%s) - begin))"
}

# The bytes of a model behind its header, whose length its first eight bytes tell.
tensors() {
  header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  tail -c "+$((header + 9))" "$1" | sha256sum | cut -d' ' -f1
}

# train BACKEND OUT [--set KEY=VALUE]
train() {
  set -- "$1" "$2" "${3:-}" "${4:-}"
  started "$here/bin/privgrad" run "$here/quickstart.yaml" --quiet --set seed=5 --set steps=30 \
    --set "model={kind: mlp, hidden: [64, 32], loss: cross_entropy}" --set "backend=$1" --out "$2" --state "$2.state" $3 $4
}

same_model() {
  rm -rf "$here/runs"
  mkdir "$here/runs"
  train '{kind: cpu}' "$here/runs/cpu" || return 1
  train '{kind: cuda, device: 0}' "$here/runs/gpu" || return 1
  train '{kind: cuda, device: 0}' "$here/runs/again" --set microbatch_size=77 || return 1
  [ "$(tensors "$here/runs/cpu/model.safetensors")" = "$(tensors "$here/runs/gpu/model.safetensors")" ] || return 1
  [ "$(tensors "$here/runs/cpu/model.safetensors")" = "$(tensors "$here/runs/again/model.safetensors")" ]
}

# compare: a member of the document. Python keeps this machine's libraries; privgrad is started with those that came along.
compare() {
  cat >"$here/privgrad-here" <<EOF
#!/bin/sh
LD_LIBRARY_PATH="$here/lib:$own_libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "$here/bin/privgrad" "\$@"
EOF
  chmod +x "$here/privgrad-here"
  printf ',\n  "comparison": {'
  separator=
  for precision in float32 tf32 bf16; do
    printf '%s\n  "%s": ' "$separator" "$precision"
    separator=,
    # COMPARE is words of options.
    if timeout 100 python3 "$here/compare_gpu.py" --program "$here/privgrad-here" --precision "$precision" \
      --capability "$PRIVGRAD_TEST_CAPABILITY" ${COMPARE:-} >"$here/compare.json" 2>"$here/compare_$precision.log"; then
      cat "$here/compare.json"
    else
      printf '{"missing": "%s"}' "$(tail -n 1 "$here/compare_$precision.log" | tr -d '"\\' | grep . || echo 'it took too long')"
    fi
  done
  printf '}'
}

run() {
  [ -e "$here/built-in" ] || stop "run is for a folder that pack made"
  choose_libraries
  failed=0
  # The tests look for plugins where they were built.
  plugins=$(cat "$here/built-in")/lib/privgrad/plugins
  if [ ! -e "$plugins" ]; then
    mkdir -p "$(dirname "$plugins")"
    ln -s "$here/lib/privgrad/plugins" "$plugins"
  fi
  missing=$(started "$here/bin/privgrad" plugins list --json |
            sed -nE 's/.*"missing_hardware": ?"([^"]+)".*/\1/p' | head -n 1)
  device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
  {
    printf '{\n  "device": "%s",\n  "missing_hardware": "%s"' "$device" "$missing"
    if [ -z "$missing" ]; then
      check conformance started "$here/lib/privgrad/privgrad-conformance" --quiet --time-limit 300 --memory-limit 0 \
        --params 'cuda={device: 0}' "$here/lib/privgrad/plugins/backends/cuda.privgrad.so"
      PRIVGRAD_TEST_CAPABILITY=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 || true)
      export PRIVGRAD_TEST_CAPABILITY="${PRIVGRAD_TEST_CAPABILITY:-9.0}"
      for precision in tf32 bf16; do
        check "conformance_$precision" started "$here/lib/privgrad/privgrad-conformance" --quiet --time-limit 300 \
          --memory-limit 0 \
          --params "cuda={device: 0, precision: $precision, compute_capability: '$PRIVGRAD_TEST_CAPABILITY'}" \
          "$here/lib/privgrad/plugins/backends/cuda.privgrad.so"
      done
      check programs started env PRIVGRAD_TEST_GPU=1 "$here/bin/cuda_test" 'cuda: *'
      check noise started env PRIVGRAD_TEST_GPU=1 "$here/bin/cuda_test" 'cuda noise*'
      check same_model same_model
      compare
    else
      failed=1
    fi
    printf ',\n  "passed": %s\n}\n' "$([ "$failed" = 0 ] && echo true || echo false)"
  } >"$here/check.json"
  cat "$here/check.json"
  grep -q '"passed": true$' "$here/check.json"
}

case "${1:-}" in
  pack) [ $# = 2 ] || stop "usage: check-cuda.sh pack DIR"; pack "$2" ;;
  run) run ;;
  *) stop "usage: check-cuda.sh pack DIR, and there: check-cuda.sh run" ;;
esac
