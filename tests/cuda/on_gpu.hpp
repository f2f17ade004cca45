// Decides whether the tests of the GPU backend run on a GPU or on its host twin.
#pragma once

#include <cstdlib>

/// Whether the tests of the host twin should run on GPU 0 instead, as in scripts/check-cuda.sh.
inline bool on_gpu() { return std::getenv("PRIVGRAD_TEST_GPU") != nullptr; }
