// Settings of OpenBLAS that must be made before plugins are loaded.
#pragma once

namespace privgrad::host {

/// To be called before plugins are loaded: keeps OpenBLAS, which some bring in, to one thread.
/// Threads are the executor's business: a product that OpenBLAS splits differs in its last bits
/// from one that it does not, and starting its threads takes longer than loading all plugins.
void limit_blas_threads();

/// To be called before plugins are loaded: where PRIVGRAD_INSTRUCTIONS names a level, OpenBLAS uses
/// its kernels of that level, too. Its products differ from level to level in their last bits.
void choose_blas_kernels();

}  // namespace privgrad::host
