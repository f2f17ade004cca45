#!/bin/sh
# Installs the missing Debian packages of those that are needed to build PrivGrad.
#
#   scripts/install-dependencies.sh            the packages for building
#   scripts/install-dependencies.sh --test     also the programs that tests start: Python, and a browser for reports;
#                                              and onnxruntime, in its own folder, if PyPI can be reached
#   scripts/install-dependencies.sh --python   also the packages of Debian for building the Python package;
#                                              scripts/python-test.sh installs those of PyPI in the build folder
#   scripts/install-dependencies.sh --format   also the formatter that the continuous checks run
#   scripts/install-dependencies.sh --bench    also oneDNN, whose kernels the benchmarks compare with
#   scripts/install-dependencies.sh --lint     also the linter, and oneDNN, because it reads the benchmarks
#   scripts/install-dependencies.sh --sanitizers   also the compiler of the preset asan, with libFuzzer
#   scripts/install-dependencies.sh --cuda     also the compiler for the kernels for GPUs, of CUDA 13, in its own folder
#                                              (100 MB), if PyPI can be reached; Debian 12 has that of CUDA 11, which
#                                              is too old for C++20
#   scripts/install-dependencies.sh --compilers   also all compilers with which make test-long builds plugins
#   scripts/install-dependencies.sh --docs     also the programs of Debian that make docs starts; make docs installs those
#                                              of PyPI in its own folder
#   scripts/install-dependencies.sh --release   also the programs that make release-check starts
#   scripts/install-dependencies.sh --list     prints the packages and installs nothing
#
# If nothing is missing, it only calls dpkg once: it neither uses the network nor changes the system.
# PRIVGRAD_SKIP_DEPENDENCIES=1 makes it do nothing, for machines whose packages come from elsewhere.
set -eu
here=$(dirname "$0")

packages() {
  cat <<'LIST'
g++                           the compiler (C++20)
cmake                         configures the build
ninja-build                   runs the build
ccache                        compiles what did not change once for all checkouts (GPL-3.0-or-later, a program)
pkg-config                    finds libsodium, libcurl, OpenBLAS and others for CMake
libboost-dev                  Boost.DLL, which loads the plugins (BSL-1.0)
libboost-program-options-dev  reads the command line (BSL-1.0)
libtbb-dev                    the threads of the executor
libsodium-dev                 randomness, keys and SHA-256 for pins and the ledger's chain
libssl-dev                    AES-128 in counter mode, which the noise is made from; hashes of plugin files
libyaml-dev                   reads manifests
libcurl4-openssl-dev          downloads public data sets (curl licence), in a program of its own
ca-certificates               tells downloads which servers to believe
libarchive-dev                unpacks them, and .npz files (BSD)
nlohmann-json3-dev            reads and writes JSON
zlib1g-dev                    reads gzip-compressed data sets
libzstd-dev                   reads zstd-compressed ones (BSD-3-Clause)
libpng-dev                    reads images (libpng-2.0)
libturbojpeg0-dev             and photographs (IJG and BSD-3-Clause)
libhdf5-dev                   reads HDF5 files (BSD-3-Clause)
libutf8proc-dev               Unicode tables for texts (MIT)
libxtensor-dev                arrays inside the numerical plugins
libxtensor-blas-dev           linear algebra on those arrays
libopenblas-pthread-dev       the matrix products and eigenvectors beneath it (BLAS and LAPACK)
libmpfr-dev                   the last digits of exact noise (LGPL-3.0-or-later, linked as a shared library)
libgmp-dev                    the whole numbers beneath MPFR (LGPL-3.0-or-later, linked as a shared library)
libkissfft-dev                the Fourier transforms of the pld accountant (BSD-3-Clause, a header)
libonnx-dev                   writes models as ONNX (Apache-2.0), in a program of its own
libprotobuf-dev               the format beneath it (BSD-3-Clause)
catch2                        the test framework
LIST
  if [ "$with_test" = 1 ]; then
    echo 'python3                       runs the fragments of the documentation in the tests'
    echo 'python3-venv                  a folder for the Python packages that Debian does not have'
    echo 'libopenmpi-dev                builds the plugin mpi (BSD-3-Clause); nothing else needs it'
    echo 'openmpi-bin                   starts several processes'
    echo 'librsvg2-bin                  makes PDF files of charts (LGPL-2.1-or-later), as a program of its own'
    echo 'chromium                      opens reports in the tests: no script error, every chart drawn, printable'
  fi
  if [ "$with_bench" = 1 ]; then
    echo 'libdnnl-dev                   oneDNN, whose kernels the benchmarks compare with (Apache-2.0)'
  fi
  if [ "$with_cuda" = 1 ]; then
    echo 'python3-venv                  a folder for the packages from PyPI that CUDA'"'"'s compiler comes in'
  fi
  if [ "$with_docs" = 1 ]; then
    echo 'python3-venv                  a folder for the packages from PyPI that make the site'
    echo 'doxygen                       its pages of the C++ interface (GPL-2.0-only, a program)'
  fi
  if [ "$with_compilers" = 1 ]; then
    echo 'g++-11                        the oldest compiler of Debian 12 that plugins are built by'
    echo 'g++-12                        its default'
    echo 'clang-14                      its other default'
    echo 'clang-16                      the newest'
  fi
  if [ "$with_python" = 1 ]; then
    echo 'python3                       the interpreter that the package is for'
    echo 'python3-dev                   its headers'
    echo 'python3-venv                  an environment to install the package in'
    echo 'python3-torch                 PyTorch for the processor (BSD-3-Clause), which networks are compared with'
  fi
  if [ "$with_release" = 1 ]; then
    echo 'dpkg-dev                      finds what the Debian packages depend on'
    echo 'debootstrap                   makes an empty Debian to install them in'
    echo 'abigail-tools                 compares the ABI of the SDK with the one that was released (Apache-2.0 with LLVM exception)'
  fi
  if [ "$with_format" = 1 ]; then
    echo 'clang-format-14               formats the sources; one version, because versions disagree'
  fi
  if [ "$with_lint" = 1 ]; then
    echo 'clang-14                      the compiler whose view of the sources the linter takes'
    echo 'python3-venv                  a folder for clang-tidy, of which PyPI has a version that skips the headers of others'
  fi
  if [ "$with_sanitizers" = 1 ]; then
    echo 'clang-14                      the compiler of the preset asan, which libFuzzer comes with'
    echo 'libclang-rt-14-dev            libFuzzer and the sanitizers'
  fi
}

stop() {
  echo "install-dependencies: $1" >&2
  exit 1
}

with_format=0
with_bench=0
with_test=0
with_lint=0
with_sanitizers=0
with_python=0
with_cuda=0
with_compilers=0
with_docs=0
with_release=0
list_only=0
for argument in "$@"; do
  case "$argument" in
    --format) with_format=1 ;;
    --test) with_test=1 ;;
    --bench) with_bench=1 ;;
    --lint) with_lint=1 with_bench=1 ;;
    --sanitizers) with_sanitizers=1 ;;
    --python) with_python=1 ;;
    --cuda) with_cuda=1 ;;
    --compilers) with_compilers=1 ;;
    --docs) with_docs=1 ;;
    --release) with_release=1 ;;
    --list) list_only=1 ;;
    *) stop "unknown argument '$argument'; allowed are --bench, --compilers, --cuda, --docs, --format, --lint, --list, --python, --release, --sanitizers and --test" ;;
  esac
done

if [ "$list_only" = 1 ]; then
  packages
  exit 0
fi
[ "${PRIVGRAD_SKIP_DEPENDENCIES:-0}" = 1 ] && exit 0

# Packages with which `privgrad export` and examples/use are compared, and which Debian does not
# have. Tests find them there (tests/support/test_python.hpp), and are skipped by name if they are
# missing.
install_python_packages() {
  [ "$with_test" = 1 ] || return 0
  "$here/environment.sh" test-python "$here/../tests/support/python-packages.txt" >/dev/null ||
    echo "install-dependencies: could not install them; the tests that compare with onnxruntime will be skipped" >&2
}

# NVIDIA's own packages: nvcc with the programs it starts (nvvm) and the headers it always includes
# (crt, runtime).
install_cuda() {
  [ "$with_cuda" = 1 ] || return 0
  place=$("$here/environment.sh" cuda "$here/../plugins/backends/cuda/compiler-packages.txt" --no-deps) || {
    echo "install-dependencies: could not install them; the kernels for GPUs are NOT compiled here" >&2
    return 0
  }
  chmod +x "$place"/lib/python3*/site-packages/nvidia/cu13/bin/* "$place"/lib/python3*/site-packages/nvidia/cu13/nvvm/bin/*
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  stop "this is not Debian or a relative of it (no apt-get). Install the counterparts of these packages, then set PRIVGRAD_SKIP_DEPENDENCIES=1:
$(packages)"
fi

# dpkg-query fails if it does not know a package at all, which here only means that the package is
# missing.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(packages | cut -d' ' -f1) 2>/dev/null |
            sed -n 's/^installed //p') || true
missing=""
for package in $(packages | cut -d' ' -f1); do
  case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
if [ -z "$missing" ]; then
  install_python_packages
  install_cuda
  exit 0
fi

echo "Installing the Debian packages that are missing:"
packages | while read -r package purpose; do
  case "$missing " in
    *" $package "*) printf '  %-29s %s\n' "$package" "$purpose" ;;
  esac
done

as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null ||
    stop "this needs root and there is no sudo; as root, run: apt-get install --no-install-recommends$missing"
  as_root="sudo"
fi
# Waits for a lock that another installation holds. Does not use `sudo VARIABLE=value`, which many
# sudo configurations refuse.
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@"; }

apt update || stop "apt-get update failed: is there a network and a package mirror in /etc/apt?"
apt install -y --no-install-recommends $missing >/dev/null ||
  stop "apt-get install failed; to see why, run as root: apt-get install --no-install-recommends$missing"
install_python_packages
install_cuda
