// Tells whether the tests of the GPU backend run on a GPU or on its twin on the host.
#pragma once

#include <cstdlib>

/// Whether the tests that run on the host's twin are to run on GPU 0 instead, as
/// scripts/check-cuda.sh has them do.
inline bool on_gpu() { return std::getenv("PRIVGRAD_TEST_GPU") != nullptr; }
