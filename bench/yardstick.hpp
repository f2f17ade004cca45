// The reference for private steps: the products of floats that this processor can compute.
#pragma once

#include <nlohmann/json.hpp>

namespace privgrad::bench {

/// Makes OpenBLAS use the kernels for PrivGrad's instructions (`instruction_set()`), on one thread,
/// whatever the environment says. Some environments set OPENBLAS_CORETYPE to an older processor,
/// and an OpenBLAS that does not know the processor chooses kernels of an older one. Either would
/// make the plain step slow and private steps look fast. OpenBLAS chooses when it is loaded, so the
/// program is started again if the choice was another. Call this first.
/// \throws std::runtime_error if this OpenBLAS has no such kernels.
void use_own_kernels(char** argv);

/// The machine, and the rate of its products: OpenBLAS's kernels, their rate and oneDNN's for
/// matrices of 1024 x 1024 on one thread, and the peak rate, with fused multiply-adds of
/// independent registers; all in GFLOP/s of processor time.
nlohmann::json yardstick();

}  // namespace privgrad::bench
