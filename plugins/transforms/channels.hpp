// The parameter `axis`: which axis of an example holds its channels.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "privgrad/dataset.hpp"
#include "privgrad/error.hpp"
#include "privgrad/params.hpp"

namespace channels {

/// An example's features as an array [before, length, after] with `length` channels.
struct Layout {
  std::size_t before = 1, length = 1, after = 1;
};

inline privgrad::ParamSpec axis_param() {
  return privgrad::param::integer(
             "axis", "The axis of an example that holds its channels, from 0; default: the last.")
      .at_least(0)
      .at_most(7)
      .optional();
}

/// \returns the given axis; nothing means the last axis.
inline std::optional<std::size_t> axis_from(const privgrad::Params& params) {
  if (!params.has("axis")) return std::nullopt;
  return static_cast<std::size_t>(params.integer("axis"));
}

/// \throws ConfigError if there is no such axis.
inline Layout layout_of(const privgrad::Shape& shape, std::optional<std::size_t> axis,
                        const std::string& who) {
  if (shape.empty()) return {};
  const std::size_t at = axis.value_or(shape.size() - 1);
  if (at >= shape.size()) {
    throw privgrad::ConfigError(who + ": axis is " + std::to_string(at) + ", but an example is " +
                                privgrad::to_text(shape));
  }
  const auto product = [&](std::size_t begin, std::size_t end) {
    return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                           shape.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{1},
                           std::multiplies<>());
  };
  return {product(0, at), shape[at], product(at + 1, shape.size())};
}

}  // namespace channels
