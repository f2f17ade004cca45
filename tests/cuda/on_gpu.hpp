#pragma once

#include <cstdlib>

/// Whether the tests that run on the host's twin are to run on GPU 0 instead, as
/// scripts/check-cuda.sh has them do.
inline bool on_gpu() { return std::getenv("PRIVGRAD_TEST_GPU") != nullptr; }
