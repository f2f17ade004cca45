// The two passes of ExactEngine over a batch, forwards and backwards, and the norms that come of
// them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "chains.hpp"
#include "exact.hpp"
#include "exact_task.hpp"
#include "loops.hpp"
#include "losses.hpp"
#include "place_sums.hpp"

namespace privgrad::cpu {
namespace {

/// Units, or inputs, of a product that are one task's.
constexpr std::size_t kTileColumns = 240;
/// Examples of a product backwards that are one task's.
constexpr std::size_t kTileRows = 96;

/// One NaN for all gradients that are not finite, of which each instruction set would make its own.
double norm_or_nan(double squared) {
  return std::isfinite(squared) ? squared : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

// --- Forwards.

const float* ExactEngine::forward(const Batch& batch, ExactPass& pass) const {
  pass.batch_ = batch;
  pass.taken_.clear();
  pass.taken_out_.clear();
  pass.entering_[0] = batch.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass.entering_[s + 1] = pass.leaving_[s] != nullptr ? pass.leaving_[s] : pass.entering_[s];
  }
  for (const Stage& stage : stages_) {
    if (stage.is_dense) {
      dense_forward(stage, pass);
    } else {
      block_forward(stage, pass);
    }
  }
  return pass.entering_.back();
}

void ExactEngine::dense_forward(const Stage& stage, ExactPass& pass) const {
  const DenseStep& step = dense(stage.first);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  const float* in = pass.entering_[stage.first];
  float* out = pass.leaving_[stage.first];
  for_each_block(pass.rows(), kPanel, [&](std::size_t first, std::size_t count) {
    pack_panel(count, inputs, in + first * inputs, pass.panels_.get() + first * inputs);
  });
  for_each_tile(pass.rows(), kPanel, units, kTileColumns,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  float* tile = out + row * units + column;
                  multiply_panel(rows, columns, inputs, pass.panels_.get() + row * inputs,
                                 step.weights() + column * inputs, step.biases() + column, tile,
                                 units);
                  if (stage.last == stage.first + 1) return;
                  const auto kind = std::get<Activation>(network_.layers[stage.first + 1]).kind;
                  for (std::size_t i = 0; i < rows; ++i) {
                    activate(kind, tile + i * units, columns, tile + i * units);
                  }
                });
}

void ExactEngine::block_forward(const Stage& stage, ExactPass& pass) const {
  for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      if (pass.leaving_[s] == nullptr) continue;
      float* out = pass.leaving_[s] + first * steps_[s]->outputs();
      steps_[s]->forward(count, pass.entering_[s] + first * steps_[s]->inputs(), out, *scratch);
      if (!is_shortcut(s)) continue;
      const std::size_t source = shortcuts_.source_of[s];
      static_cast<const ShortcutStep&>(*steps_[s])
          .add_earlier(count, pass.entering_[source] + first * steps_[source]->inputs(), out,
                       *scratch);
    }
  });
}

// --- Backwards.

void ExactEngine::backward(const Batch& batch, ExactPass& pass,
                           std::span<double> squared_norms) const {
  const float* outputs = forward(batch, pass);
  const std::size_t width = steps_.back()->outputs();
  for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss_gradient(network_, {outputs + i * width, width}, batch.targets[i],
                    {pass.deltas_.back().get() + i * width, width});
      for (std::size_t s = 0; s < steps_.size(); ++s) {
        const std::size_t size = steps_[s]->inputs();
        if (shortcuts_.is_source[s]) std::fill_n(pass.added_[s].get() + i * size, size, 0.0f);
      }
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0 && stages_[k].last > first_with_parameters_;) {
    if (stages_[k].is_dense) {
      dense_backward(k, pass);
    } else {
      block_backward(k, pass);
    }
  }
  for (std::size_t i = 0; i < pass.rows() * groups(); ++i) {
    squared_norms[i] = pass.shares_[i].squared_norm;
  }
}

void ExactEngine::dense_backward(std::size_t k, ExactPass& pass) const {
  const Stage& stage = stages_[k];
  const std::size_t s = stage.first;
  const DenseStep& step = dense(s);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  float* delta = pass.deltas_[k].get();
  const float* in = pass.entering_[s];
  for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      float* own = delta + i * units;
      if (stage.last > s + 1) {
        activate_backward(std::get<Activation>(network_.layers[s + 1]).kind,
                          pass.leaving_[s] + i * units, units, own);
      }
      ExactPass::Share& share = pass.share(i, group_of_[s]);
      share.input = largest_size(in + i * inputs, inputs);
      share.error = largest_size(own, units);
      // || delta a^T ||^2 + || delta ||^2: the weights and the biases.
      share.squared_norm =
          norm_or_nan((sum_of_squares(in + i * inputs, inputs) + 1.0) * sum_of_squares(own, units));
    }
  });
  if (s <= first_with_parameters_) return;
  float* below = pass.deltas_[k - 1].get();
  for_each_tile(pass.rows(), kTileRows, inputs, kTileColumns,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  multiply_chains(rows, columns, units, {delta + row * units, units, 1},
                                  step.weights() + column, inputs, {},
                                  below + row * inputs + column, inputs);
                });
  for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    add_from_shortcuts(s, pass, first, count, below + first * inputs);
  });
}

void ExactEngine::block_backward(std::size_t k, ExactPass& pass) const {
  const Stage& stage = stages_[k];
  std::size_t widest = 0;
  for (std::size_t s = stage.first; s < stage.last; ++s) {
    widest = std::max(widest, steps_[s]->inputs());
  }
  for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    float* one = at_least(scratch->one, count * widest);
    float* other = at_least(scratch->other, count * widest);
    float* delta = pass.deltas_[k].get() + first * steps_[stage.last - 1]->outputs();
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (s < first_with_parameters_) return;
      delta = step_backward(s, pass, first, count, delta, delta == one ? other : one, *scratch);
      if (s == first_with_parameters_) return;
      add_from_shortcuts(s, pass, first, count, delta);
    }
    const std::size_t size = steps_[stage.first]->inputs();
    std::copy_n(delta, count * size, pass.deltas_[k - 1].get() + first * size);
  });
}

float* ExactEngine::step_backward(std::size_t s, ExactPass& pass, std::size_t first,
                                  std::size_t count, float* delta, float* below,
                                  Scratch& scratch) const {
  const Step& step = *steps_[s];
  const float* in = pass.entering_[s] + first * step.inputs();
  const float* out = pass.entering_[s + 1] + first * step.outputs();
  const bool goes_on = s > first_with_parameters_;
  if (std::holds_alternative<Conv2d>(network_.layers[s])) {
    conv_backward(s, pass, first, count, delta, goes_on ? below : nullptr, scratch);
    return below;
  }
  if (is_shortcut(s)) {
    shortcut_backward(s, pass, first, count, delta, scratch);
    return delta;
  }
  const std::size_t parameters = step.parameter_count();
  if (cells_by_[s] == CellsBy::tokens) {
    std::copy_n(delta, count * step.outputs(), pass.kept_[s].get() + first * step.outputs());
    for (std::size_t i = 0; i < count; ++i) {
      double squares = 0.0;
      const bool tokens = static_cast<const EmbeddingStep&>(step).for_each_row(
          in + i * step.inputs(), delta + i * step.outputs(),
          [&](std::size_t, std::span<const float> gradient) {
            squares += sum_of_squares(gradient.data(), gradient.size());
          });
      pass.share(first + i, group_of_[s]).squared_norm =
          norm_or_nan(tokens ? squares : std::numeric_limits<double>::quiet_NaN());
    }
  } else if (cells_by_[s] == CellsBy::rows) {
    float* kept = pass.kept_[s].get() + first * parameters;
    step.gradient_rows(count, in, delta, kept, parameters, scratch);
    for (std::size_t i = 0; i < count; ++i) {
      pass.share(first + i, group_of_[s]).squared_norm =
          norm_or_nan(sum_of_squares(kept + i * parameters, parameters));
    }
  }
  return goes_on ? step.backward(count, in, out, delta, below, scratch) : below;
}

void ExactEngine::conv_backward(std::size_t s, ExactPass& pass, std::size_t first,
                                std::size_t count, const float* delta, float* below,
                                Scratch& scratch) const {
  const ConvStep& step = conv(s);
  const float* in = pass.entering_[shortcuts_.source_of[s]];
  const std::size_t channels = step.channels();
  const std::size_t weights = step.parameter_count() - channels;
  float* patches = at_least(scratch.patches, step.places() * step.patch());
  for (std::size_t i = 0; i < count; ++i) {
    const float* own = delta + i * step.outputs();
    ExactPass::Share& share = pass.share(first + i, group_of_[s]);
    const WholeRow row = sum_over_places(step, in + (first + i) * step.inputs(), own, scratch,
                                         pass.whole_[s].get() + (first + i) * weights);
    float* biases = pass.kept_[s].get() + (first + i) * channels;
    step.sum_errors(own, biases);
    share.step = row.step;
    share.largest_whole = row.largest;
    share.squared_norm =
        norm_or_nan(row.squares * (row.step * row.step) + sum_of_squares(biases, channels));
    if (below == nullptr) continue;
    step.patches_backward(own, patches);
    step.add_patches(patches, below + i * step.inputs());
  }
}

/// The derivatives by what a shortcut adds, and its projection's norms.
void ExactEngine::shortcut_backward(std::size_t s, ExactPass& pass, std::size_t first,
                                    std::size_t count, const float* delta, Scratch& scratch) const {
  const auto& step = static_cast<const ShortcutStep&>(*steps_[s]);
  const std::size_t source = shortcuts_.source_of[s];
  if (step.projection() != nullptr) conv_backward(s, pass, first, count, delta, nullptr, scratch);
  // Nobody asks for them in front of all parameters.
  if (source <= first_with_parameters_) return;
  step.add_backward(count, delta, pass.added_[source].get() + first * steps_[source]->inputs(),
                    scratch);
}

/// delta += what shortcuts hand down to what enters step s.
void ExactEngine::add_from_shortcuts(std::size_t s, const ExactPass& pass, std::size_t first,
                                     std::size_t count, float* delta) const {
  const std::size_t size = steps_[s]->inputs();
  if (shortcuts_.is_source[s]) add(pass.added_[s].get() + first * size, count * size, delta);
}

}  // namespace privgrad::cpu
