# Common code of scripts/python-test.sh and scripts/python-wheel.sh, which source it ('.') with
# $build and $jobs set.
#
# Both use one environment, because with another one scikit-build-core would configure the folder
# again.
python=${PYTHON:-/usr/bin/python3}
place=$(cd "$build" && pwd)/python-environment

# make_environment PINS: the packages for building and testing are shared by all checkouts
# (scripts/environment.sh); the package itself is installed beside them, in the build folder.
make_environment() {
  packages=$(PYTHON=$python scripts/environment.sh python "$1")
  [ "$(cat "$place/of" 2>/dev/null)" != "$packages" ] || return 0
  "$python" -m venv --clear "$place"
  site=$("$place/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  echo "$packages/lib/${site##*/lib/}" >"$site/packages.pth"
  # PyPI's PyTorch includes gigabytes of CUDA, while Debian's is for the processor only. It is
  # installed beside Debian's NumPy, which must not be found. Without PyTorch, the tests that need
  # it are skipped by name.
  for module in torch torchgen functorch; do
    [ ! -d "/usr/lib/python3/dist-packages/$module" ] || ln -s "/usr/lib/python3/dist-packages/$module" "$site"
  done
  # Programs that the tests start (including Flower's) import the package too.
  for program in "$packages"/bin/*; do
    [ -f "$program" ] && [ "$(head -c 2 "$program")" = "#!" ] && [ ! -e "$place/bin/${program##*/}" ] || continue
    sed "1s|^#!$packages/bin/python.*|#!$place/bin/python|" "$program" >"$place/bin/${program##*/}"
    chmod +x "$place/bin/${program##*/}"
  done
  echo "$packages" >"$place/of"
}

setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# build_with install|wheel PIP_ARG...: uses the folder's own compiler and settings, so that nothing
# is compiled again.
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
  # Restore the folder's installation prefix.
  cmake -S . -B "$build" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
}
