#include "layers/embedding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cells.hpp"
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {

std::unique_ptr<Step> step_of(const Embedding& layer, const Place& place) {
  return std::make_unique<EmbeddingStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Embedding&, const Place&);

EmbeddingStep::EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out)
    : Step(in, out), layer_(layer) {
  parameter_count_ = element_count({layer.vocabulary, layer.width});
}

bool EmbeddingStep::is_token(float value) const {
  return value >= 0.0f && value < static_cast<float>(layer_.vocabulary) &&
         value == std::floor(value);
}

bool EmbeddingStep::is_allowed(float value) const {
  return value == kEmptyPlace || is_token(value);
}

void EmbeddingStep::forward(std::size_t count, Values values, float* out, Scratch&) const {
  const float* in = values[0];
  for (std::size_t i = 0; i < count * inputs_; ++i, out += layer_.width) {
    if (is_token(in[i])) {
      std::copy_n(own_ + static_cast<std::size_t>(in[i]) * layer_.width, layer_.width, out);
    } else {
      std::fill_n(out, layer_.width,
                  in[i] == kEmptyPlace ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    }
  }
}

/// Tokens have no derivative. None is requested, because no layer before them has parameters.
void EmbeddingStep::backward(std::size_t, Values, const float*, const float*, Below,
                             Scratch&) const {}

bool EmbeddingStep::for_each_row(
    const float* in, const float* delta,
    const std::function<void(std::size_t, std::span<const float>)>& body) const {
  if (!std::all_of(in, in + inputs_, [&](float value) { return is_allowed(value); })) return false;
  std::vector<std::size_t> order(inputs_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return in[a] != in[b] ? in[a] < in[b] : a < b; });
  std::vector<double> sum(layer_.width);
  std::vector<float> gradient(layer_.width);
  // Empty places sort first, because their token is below all others.
  const auto is_empty = [&](std::size_t place) { return in[place] == kEmptyPlace; };
  std::size_t end = static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_empty));
  for (std::size_t first = end; first < inputs_; first = end) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (end = first; end < inputs_ && in[order[end]] == in[order[first]]; ++end) {
      const float* deltas = delta + order[end] * layer_.width;
      for (std::size_t k = 0; k < layer_.width; ++k) sum[k] += static_cast<double>(deltas[k]);
    }
    std::transform(sum.begin(), sum.end(), gradient.begin(),
                   [](double value) { return static_cast<float>(value); });
    body(static_cast<std::size_t>(in[order[first]]) * layer_.width, gradient);
  }
  return true;
}

void EmbeddingStep::gradient_rows(std::size_t count, const float* in, const float* delta,
                                  float* rows, std::size_t stride, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i) {
    float* row = rows + i * stride;
    std::fill_n(row, parameter_count_, 0.0f);
    const bool tokens = for_each_row(in + i * inputs_, delta + i * outputs_,
                                     [&](std::size_t first, std::span<const float> gradient) {
                                       std::copy(gradient.begin(), gradient.end(), row + first);
                                     });
    if (!tokens) row[0] = std::numeric_limits<float>::quiet_NaN();
  }
}

// --- Cells.

void EmbeddingStep::allocate(StepPass& pass) const {
  pass.kept = std::make_unique_for_overwrite<float[]>(pass.most_rows * outputs_);
}

void EmbeddingStep::find_norms(std::size_t first, std::size_t count, const float* delta,
                               StepPass& pass, Scratch&) const {
  std::copy_n(delta, count * outputs_, pass.kept.get() + first * outputs_);
  for (std::size_t i = 0; i < count; ++i) {
    double squares = 0.0;
    const bool tokens = for_each_row(pass.in + (first + i) * inputs_, delta + i * outputs_,
                                     [&](std::size_t, std::span<const float> gradient) {
                                       squares += sum_of_squares(gradient.data(), gradient.size());
                                     });
    pass.share(first + i).squared_norm =
        norm_or_nan(tokens ? squares : std::numeric_limits<double>::quiet_NaN());
  }
}

void EmbeddingStep::make_cells(std::size_t pair, const bool*, StepPass& pass, Wide* squares) const {
  for_each_of_pair(pair, pass, squares, [&](std::size_t row, Wide& square) {
    const double scale = truncating_scale(pass.share(row));
    for_each_row(pass.in + row * inputs_, pass.kept.get() + row * outputs_,
                 [&](std::size_t, std::span<const float> gradient) {
                   square += truncated_squares(scale, gradient.data(), gradient.size());
                 });
  });
}

void EmbeddingStep::add_cells(const Piece&, std::span<const std::uint8_t> taken,
                              const StepPass& pass, const Target& target) const {
  for_each_chosen(0, pass.rows, taken, pass, [&](std::size_t row) {
    const double scale = truncating_scale(pass.share(row));
    for_each_row(pass.in + row * inputs_, pass.kept.get() + row * outputs_,
                 [&](std::size_t first, std::span<const float> gradient) {
                   add_truncated(scale, gradient.data(), gradient.size(), target.at(first));
                 });
  });
}

}  // namespace privgrad::cpu
