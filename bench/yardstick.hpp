// What private steps are held against: the products of floats that this processor can make.
#pragma once

#include <nlohmann/json.hpp>

namespace privgrad::bench {

/// Has OpenBLAS take the kernels for the instructions that PrivGrad uses (`instruction_set()`), on
/// one thread, whatever the environment says: some set OPENBLAS_CORETYPE to an older processor, and
/// an OpenBLAS that does not know the processor takes an older one's by itself. Either would make
/// the plain step slow, and private ones look fast. OpenBLAS chooses when it is loaded, so that the
/// program is started again where it has chosen others. Call it first.
/// \throws std::runtime_error if this OpenBLAS has no such kernels.
void use_own_kernels(char** argv);

/// The machine, and what its products reach: OpenBLAS's kernels, their rate and oneDNN's (null where
/// it is not installed) for matrices of 1024 x 1024 on one thread, and the peak, fused multiply-adds
/// of independent registers; all in GFLOP/s of processor time.
nlohmann::json yardstick();

}  // namespace privgrad::bench
