// The text of `privgrad plan`, for people.
#pragma once

#include <span>
#include <string>

#include "privgrad/plan/plan.hpp"

namespace privgrad::tool {

std::string plan_page(const core::Plan& plan);

/// Returns the values as a row of at most `width` characters of different heights: block elements
/// if `utf8`, otherwise ASCII. Empty if all values are equal.
std::string sparkline(std::span<const double> values, std::size_t width, bool utf8);

}  // namespace privgrad::tool
