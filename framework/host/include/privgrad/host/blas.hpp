// Configures OpenBLAS before plugins are loaded.
#pragma once

namespace privgrad::host {

/// Limits OpenBLAS, which some plugins use, to one thread. Must be called before plugins are
/// loaded. The executor already manages threads. OpenBLAS's threads would change the last bits of
/// products, and starting them takes longer than loading all plugins.
void limit_blas_threads();

/// If PRIVGRAD_INSTRUCTIONS names a level, makes OpenBLAS use its kernels of that level, too; must
/// be called before plugins are loaded. The last bits of its products depend on the level.
void choose_blas_kernels();

}  // namespace privgrad::host
