# What scripts/python-test.sh and scripts/python-wheel.sh have in common; they read it ('.') with $build and $jobs set.
#
# One environment for both: another one would make scikit-build-core configure the folder anew.
python=${PYTHON:-/usr/bin/python3}
place=$(cd "$build" && pwd)/python-environment

# make_environment PINS: what the package is built and tested with is of all checkouts (scripts/environment.sh); the
# package itself is installed beside it, in the build folder.
make_environment() {
  packages=$(PYTHON=$python scripts/environment.sh python "$1")
  [ "$(cat "$place/of" 2>/dev/null)" != "$packages" ] || return 0
  "$python" -m venv --clear "$place"
  site=$("$place/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  echo "$packages/lib/${site##*/lib/}" >"$site/packages.pth"
  # PyTorch of PyPI brings gigabytes of CUDA, Debian's is for the processor; it lies beside a NumPy of Debian's, which
  # must not be found. Without it the tests that need it are skipped by name.
  for module in torch torchgen functorch; do
    [ ! -d "/usr/lib/python3/dist-packages/$module" ] || ln -s "/usr/lib/python3/dist-packages/$module" "$site"
  done
  # Programs that the tests start (Flower's among them) import the package, too.
  for program in "$packages"/bin/*; do
    [ -f "$program" ] && [ "$(head -c 2 "$program")" = "#!" ] && [ ! -e "$place/bin/${program##*/}" ] || continue
    sed "1s|^#!$packages/bin/python.*|#!$place/bin/python|" "$program" >"$place/bin/${program##*/}"
    chmod +x "$place/bin/${program##*/}"
  done
  echo "$packages" >"$place/of"
}

setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# build_with install|wheel PIP_ARG...: with the folder's own compiler and settings, so that nothing is compiled again.
build_with() {
  action=$1
  shift
  prefix=$(setting CMAKE_INSTALL_PREFIX)
  CC=$(setting CMAKE_C_COMPILER)
  CXX=$(setting CMAKE_CXX_COMPILER)
  export CC CXX
  for name in PRIVGRAD_CCACHE PRIVGRAD_BUILD_TESTS PRIVGRAD_UNITY_BUILD \
    PRIVGRAD_WERROR; do
    [ -z "$(setting $name)" ] || set -- "$@" "--config-settings=cmake.define.$name=$(setting $name)"
  done
  PATH=$packages/bin:$PATH scripts/alone.sh "$jobs" "$place/bin/python" -m pip "$action" -q --disable-pip-version-check \
    --no-build-isolation --no-deps --config-settings=build-dir="$build" \
    --config-settings=cmake.build-type="$(setting CMAKE_BUILD_TYPE)" "$@" .
  # The folder installs where it did before.
  cmake -S . -B "$build" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
}
