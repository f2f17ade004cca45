// A fast check that no number of an array is infinite or NaN.
#pragma once

#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// Whether no value is infinite or NaN; true for none at all. As fast as the values can be read.
PRIVGRAD_API bool all_finite(std::span<const float> values) noexcept;

}  // namespace privgrad
