// A fast check that no number in an array is infinite or NaN.
#pragma once

#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// Whether all values are finite; true for an empty span. As fast as the values can be read.
PRIVGRAD_API bool all_finite(std::span<const float> values) noexcept;

}  // namespace privgrad
