// Makes settings of OpenBLAS, which must be made before plugins are loaded.
#pragma once

namespace privgrad::host {

/// Limits OpenBLAS, which some plugins use, to one thread; must be called before plugins are
/// loaded. The executor already manages threads; a product that OpenBLAS splits among threads has
/// different last bits, and starting OpenBLAS's threads takes longer than loading all plugins.
void limit_blas_threads();

/// If PRIVGRAD_INSTRUCTIONS names a level, makes OpenBLAS use its kernels of that level, too; must
/// be called before plugins are loaded. The last bits of its products depend on the level.
void choose_blas_kernels();

}  // namespace privgrad::host
