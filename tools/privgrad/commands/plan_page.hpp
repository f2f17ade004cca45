// The text of `privgrad plan`, for people.
#pragma once

#include <span>
#include <string>

#include "privgrad/plan/plan.hpp"

namespace privgrad::tool {

/// The output of `privgrad plan` for people.
std::string plan_page(const core::Plan& plan);

/// The values as a row of characters of different heights, at most `width` of them; with `utf8`
/// from block elements, else from ASCII. Empty if all values are the same.
std::string sparkline(std::span<const double> values, std::size_t width, bool utf8);

}  // namespace privgrad::tool
