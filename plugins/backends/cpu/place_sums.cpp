#include "place_sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cells.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

/// Returns the largest integer up to 2^14 whose square, times the number of places, fits in int32.
double largest_factor(std::size_t places) {
  const double most = std::numeric_limits<std::int32_t>::max();
  return std::min(std::floor(std::sqrt(most / static_cast<double>(places))), 0x1p14);
}

/// Returns the exact factor of a rounding.
double factor_of(const Rounding& rounding) {
  return static_cast<double>(rounding.shift) * static_cast<double>(rounding.factor);
}

std::uint32_t* at_least_words(std::vector<std::uint32_t>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

}  // namespace

WholeRow sum_over_places(const ConvStep& step, const float* image, const float* delta,
                         Scratch& scratch, std::int16_t* row) {
  const std::size_t channels = step.channels();
  const std::size_t patch = step.patch();
  const float input = largest_size(image, step.inputs());
  const float error = largest_size(delta, step.outputs());
  if (!std::isfinite(input) || !std::isfinite(error) || input == 0.0f || error == 0.0f) {
    std::fill_n(row, channels * patch, std::int16_t{0});
    const bool finite = std::isfinite(input) && std::isfinite(error);
    return {finite ? 0.0 : std::numeric_limits<double>::quiet_NaN(), 0.0, 0.0f};
  }
  const double largest = largest_factor(step.places());
  const Rounding of_image = make_rounding(largest / static_cast<double>(input), input, false);
  const Rounding of_delta = make_rounding(largest / static_cast<double>(error), error, false);
  const std::size_t pairs = step.place_pairs();
  std::uint32_t* inputs =
      at_least_words(scratch.place_inputs, operand_size(patch, kInputTile, pairs));
  std::uint32_t* units =
      at_least_words(scratch.place_units, operand_size(channels, kUnitTile, pairs));
  step.gather_place_pairs(image, of_image, scratch, inputs);
  step.round_errors(delta, of_delta, units);

  const std::size_t stride = (patch + kInputTile - 1) / kInputTile * kInputTile;
  if (scratch.sums.size() < (channels + kUnitTile) * stride) {
    scratch.sums.resize((channels + kUnitTile) * stride);
  }
  std::int32_t* sums = scratch.sums.data();
  for (std::size_t unit = 0; unit < channels; unit += kUnitTile) {
    for (std::size_t at = 0; at < patch; at += kInputTile) {
      multiply_pairs(std::min(kUnitTile, channels - unit), std::min(kInputTile, patch - at), pairs,
                     units + unit * pairs, inputs + at * pairs, sums + unit * stride + at, stride);
    }
  }
  std::int32_t top = 0;
  for (std::size_t unit = 0; unit < channels; ++unit) {
    top = std::max(top, largest_whole(sums + unit * stride, patch));
  }
  if (top == 0) {
    std::fill_n(row, channels * patch, std::int16_t{0});
    return {};
  }
  const float shrink = std::min(1.0f, 32766.0f / static_cast<float>(top));
  std::uint64_t squares = 0;
  for (std::size_t unit = 0; unit < channels; ++unit) {
    squares += shrink_whole(shrink, sums + unit * stride, patch, row + unit * patch);
  }
  return {1.0 / (factor_of(of_image) * factor_of(of_delta) * static_cast<double>(shrink)),
          static_cast<double>(squares), std::ceil(shrink * static_cast<float>(top))};
}

}  // namespace privgrad::cpu
