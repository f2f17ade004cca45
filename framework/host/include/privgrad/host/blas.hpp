// Settings of OpenBLAS that must be made before plugins are loaded.
#pragma once

namespace privgrad::host {

/// Must be called before plugins are loaded: limits OpenBLAS, which some plugins use, to one
/// thread. The executor already manages threads. A product that OpenBLAS splits among threads has
/// other last bits, and starting its threads takes longer than loading all plugins.
void limit_blas_threads();

/// Must be called before plugins are loaded: if PRIVGRAD_INSTRUCTIONS names a level, OpenBLAS also
/// uses its kernels of that level. The last bits of its products depend on the level.
void choose_blas_kernels();

}  // namespace privgrad::host
