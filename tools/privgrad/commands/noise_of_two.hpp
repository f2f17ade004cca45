// `privgrad noise-error` of two manifests.
#pragma once

#include "arguments.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::tool {

/// Prints the noise of two manifests side by side, and which is lower.
/// \param arguments  of `noise-error`, with two operands.
/// \returns the exit code.
/// \throws UsageError for manifests whose noise cannot be compared, and options of one manifest.
int compare_noise_of_two(const Arguments& arguments, const Catalog& catalog);

}  // namespace privgrad::tool
