// Settings of OpenBLAS that must be made before plugins are loaded.
#pragma once

namespace privgrad::host {

/// Must be called before plugins are loaded: limits OpenBLAS, which some plugins use, to one
/// thread. The executor manages threads; a product that OpenBLAS splits differs in its last bits
/// from one that it does not, and starting its threads takes longer than loading all plugins.
void limit_blas_threads();

/// Must be called before plugins are loaded: if PRIVGRAD_INSTRUCTIONS names a level, OpenBLAS uses
/// its kernels of that level, too. Its products differ between levels in their last bits.
void choose_blas_kernels();

}  // namespace privgrad::host
