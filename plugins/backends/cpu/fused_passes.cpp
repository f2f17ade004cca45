// The two passes of FusedEngine over a batch, forwards and backwards, and the norms that come of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "fused.hpp"
#include "fused_task.hpp"
#include "gemm.hpp"
#include "loops.hpp"
#include "losses.hpp"

namespace privgrad::cpu {
namespace {

/// Half the distance from 1 to the next float: the relative error of one operation.
constexpr double kRoundoff = 0x1p-24;

/// What squares of norms grow by so that rounding is covered: twice two float32 operations on each
/// element (the scaling and the product), and the sum of `count` squares in double.
double enlarged(double squares, std::size_t count) {
  return squares * (1.0 + 5.0 * kRoundoff + static_cast<double>(count) * 0x1p-50);
}

}  // namespace

// --- Forwards.

const float* FusedEngine::forward(const Batch& batch, FusedPass& pass, const Norms& norms) const {
  use_one_blas_thread();
  pass.batch_ = batch;
  pass.entering_[0] = batch.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass.entering_[s + 1] = pass.leaving_[s] != nullptr ? pass.leaving_[s] : pass.entering_[s];
  }
  for (const Stage& stage : stages_) {
    if (stage.is_dense) {
      if (!norms.squared.empty()) square_inputs(stage, pass, norms);
      dense_forward(stage, pass);
    } else {
      block_forward(stage, pass);
    }
  }
  return pass.entering_.back();
}

/// The half of the norm that is known before the errors are, while the inputs are in the cache.
void FusedEngine::square_inputs(const Stage& stage, const FusedPass& pass,
                                const Norms& norms) const {
  const std::size_t inputs = steps_[stage.first]->inputs();
  for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      norms.at(i, group_of_[stage.first]) =
          sum_of_squares(pass.entering_[stage.first] + i * inputs, inputs);
    }
  });
}

void FusedEngine::dense_forward(const Stage& stage, FusedPass& pass) const {
  const DenseStep& step = dense(stage.first);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  const float* in = pass.entering_[stage.first];
  float* out = pass.leaving_[stage.first];
  for_each_tile(pass.rows(), units,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  float* tile = out + row * units + column;
                  for (std::size_t i = 0; i < rows; ++i) {
                    std::copy_n(step.biases() + column, columns, tile + i * units);
                  }
                  multiply(rows, columns, inputs, {in + row * inputs, inputs},
                           {step.weights() + column * inputs, inputs, true}, true, tile, units);
                  if (stage.last == stage.first + 1) return;
                  const auto kind = std::get<Activation>(network_.layers[stage.first + 1]).kind;
                  for (std::size_t i = 0; i < rows; ++i) {
                    activate(kind, tile + i * units, columns, tile + i * units);
                  }
                });
}

void FusedEngine::block_forward(const Stage& stage, FusedPass& pass) const {
  for_each_block(pass.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const FusedPass::Lease scratch(pass);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      const float* in = pass.entering_[s] + first * steps_[s]->inputs();
      if (pass.leaving_[s] == nullptr) continue;
      float* out = pass.leaving_[s] + first * steps_[s]->outputs();
      if (std::holds_alternative<Conv2d>(network_.layers[s])) {
        conv_forward(conv(s), count, in, out, *scratch);
      } else {
        steps_[s]->forward(count, in, out);
      }
    }
  });
}

void FusedEngine::conv_forward(const ConvStep& step, std::size_t count, const float* in, float* out,
                               Scratch& scratch) const {
  const std::size_t together = examples_together(step, count);
  const std::size_t size = step.places() * step.patch();
  float* patches = at_least(scratch.patches, together * size);
  for (std::size_t first = 0; first < count; first += together) {
    const std::size_t examples = std::min(together, count - first);
    float* product = out + first * step.outputs();
    for (std::size_t i = 0; i < examples; ++i) {
      step.gather_patches(in + (first + i) * step.inputs(), patches + i * size);
    }
    const std::size_t rows = examples * step.places();
    for (std::size_t i = 0; i < rows; ++i) {
      copy_short(step.biases(), step.channels(), product + i * step.channels());
    }
    multiply(rows, step.channels(), step.patch(), {patches, step.patch()},
             {step.weights(), step.patch(), true}, true, product, step.channels());
  }
}

// --- Backwards.

void FusedEngine::backward(const Batch& batch, FusedPass& pass,
                           std::span<double> squared_norms) const {
  pass.has_norms_ = !squared_norms.empty();
  pass.clean_features_.clear();
  const Norms norms{squared_norms, groups()};
  const float* outputs = forward(batch, pass, norms);
  const std::size_t width = steps_.back()->outputs();
  for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss_gradient(network_, {outputs + i * width, width}, batch.targets[i],
                    {pass.deltas_.back().get() + i * width, width});
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0 && stages_[k].last > first_with_parameters_;) {
    if (stages_[k].is_dense) {
      dense_backward(k, pass, norms);
    } else {
      block_backward(k, pass, norms);
    }
  }
}

void FusedEngine::dense_backward(std::size_t k, FusedPass& pass, const Norms& norms) const {
  const Stage& stage = stages_[k];
  const std::size_t s = stage.first;
  const DenseStep& step = dense(s);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  float* delta = pass.deltas_[k].get();
  const bool activated = stage.last > s + 1;
  if (activated || !norms.squared.empty()) {
    for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (activated) {
          activate_backward(std::get<Activation>(network_.layers[s + 1]).kind,
                            pass.leaving_[s] + i * units, units, delta + i * units);
        }
        if (norms.squared.empty()) continue;
        // || delta a^T ||^2 + || delta ||^2: the weights and the biases.
        double& squared = norms.at(i, group_of_[s]);
        squared =
            enlarged((squared + 1.0) * sum_of_squares(delta + i * units, units), inputs + units);
      }
    });
  }
  if (s <= first_with_parameters_) return;
  float* below = pass.deltas_[k - 1].get();
  for_each_tile(pass.rows(), inputs,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  multiply(rows, columns, units, {delta + row * units, units},
                           {step.weights() + column, inputs}, false, below + row * inputs + column,
                           inputs);
                });
}

void FusedEngine::block_backward(std::size_t k, FusedPass& pass, const Norms& norms) const {
  const Stage& stage = stages_[k];
  std::size_t widest = 0;
  for (std::size_t s = stage.first; s < stage.last; ++s) {
    widest = std::max(widest, steps_[s]->inputs());
  }
  for_each_block(pass.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const FusedPass::Lease scratch(pass);
    float* one = at_least(scratch->one, count * widest);
    float* other = at_least(scratch->other, count * widest);
    float* delta = pass.deltas_[k].get() + first * steps_[stage.last - 1]->outputs();
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (s < first_with_parameters_) return;
      delta =
          step_backward(s, pass, first, count, delta, delta == one ? other : one, *scratch, norms);
      if (s == first_with_parameters_) return;
    }
    const std::size_t size = steps_[stage.first]->inputs();
    std::copy_n(delta, count * size, pass.deltas_[k - 1].get() + first * size);
  });
}

float* FusedEngine::step_backward(std::size_t s, FusedPass& pass, std::size_t first,
                                  std::size_t count, float* delta, float* below, Scratch& scratch,
                                  const Norms& norms) const {
  const Step& step = *steps_[s];
  const float* in = pass.entering_[s] + first * step.inputs();
  const float* out = pass.entering_[s + 1] + first * step.outputs();
  const bool goes_on = s > first_with_parameters_;
  if (std::holds_alternative<Conv2d>(network_.layers[s])) {
    conv_backward(s, pass, first, count, delta, goes_on ? below : nullptr, scratch, norms);
    return below;
  }
  const std::size_t parameters = step.parameter_count();
  if (sum_by_[s] == SumBy::tokens) {
    float* kept = pass.kept_[s].get() + first * step.outputs();
    std::copy_n(delta, count * step.outputs(), kept);
    for (std::size_t i = 0; i < count && !norms.squared.empty(); ++i) {
      double squares = 0.0;
      const bool tokens = static_cast<const EmbeddingStep&>(step).for_each_row(
          in + i * step.inputs(), delta + i * step.outputs(),
          [&](std::size_t, std::span<const float> gradient) {
            squares += sum_of_squares(gradient.data(), gradient.size());
          });
      norms.at(first + i, group_of_[s]) =
          tokens ? enlarged(squares, step.outputs()) : std::numeric_limits<double>::quiet_NaN();
    }
  } else if (sum_by_[s] == SumBy::rows && !norms.squared.empty()) {
    float* kept = pass.kept_[s].get() + first * parameters;
    step.gradient_rows(count, in, delta, kept, parameters);
    for (std::size_t i = 0; i < count; ++i) {
      norms.at(first + i, group_of_[s]) =
          enlarged(sum_of_squares(kept + i * parameters, parameters), parameters);
    }
  } else if (sum_by_[s] == SumBy::rows) {
    float* rows = at_least(scratch.scaled, count * parameters);
    float* kept = pass.kept_[s].get() + first / kBlock * parameters;
    step.gradient_rows(count, in, delta, rows, parameters);
    std::copy_n(rows, parameters, kept);
    for (std::size_t i = 1; i < count; ++i) add(rows + i * parameters, parameters, kept);
  }
  return goes_on ? step.backward(count, in, out, delta, below) : below;
}

namespace {

/// The squared norm of one example's gradient from its patches a_t and errors d_t:
///   || sum_t d_t a_t^T ||^2 = sum_{t, u} (a_t . a_u) (d_t . d_u), with 1 in a_t for the bias.
/// With S = sum_t |a_t| |d_t|: a float32 inner product of n terms is off by at most about n 2^-24
/// |x| |y| (Higham 2002, section 3.1), so the sum by (patch + channels) 2^-24 S^2, and the gradient
/// that add_scaled() makes, of products of `places` terms, by places 2^-24 S.
double gram_squared_norm(const ConvStep& step, const float* patches, const float* delta,
                         std::vector<float>& memory) {
  const std::size_t places = step.places();
  float* inputs = at_least(memory, 2 * places * places);
  float* errors = inputs + places * places;
  multiply(places, places, step.patch(), {patches, step.patch()}, {patches, step.patch(), true},
           false, inputs, places);
  multiply(places, places, step.channels(), {delta, step.channels()},
           {delta, step.channels(), true}, false, errors, places);
  double squares = 0.0;
  for (std::size_t i = 0; i < places * places; ++i) {
    squares += (static_cast<double>(inputs[i]) + 1.0) * static_cast<double>(errors[i]);
  }
  double size = 0.0;
  for (std::size_t t = 0; t < places; ++t) {
    size += std::sqrt((sum_of_squares(patches + t * step.patch(), step.patch()) + 1.0) *
                      sum_of_squares(delta + t * step.channels(), step.channels()));
  }
  const auto inner = static_cast<double>(step.patch() + step.channels() + 8);
  const double root = std::sqrt(std::max(squares, 0.0) + inner * 0x1.01p-24 * size * size) +
                      static_cast<double>(places + 4) * 0x1.01p-24 * size;
  return std::isfinite(squares) ? enlarged(root * root, places * places) : squares;
}

}  // namespace

void FusedEngine::conv_backward(std::size_t s, FusedPass& pass, std::size_t first,
                                std::size_t count, const float* delta, float* below,
                                Scratch& scratch, const Norms& norms) const {
  const ConvStep& step = conv(s);
  const std::size_t places = step.places();
  const std::size_t patch = step.patch();
  const std::size_t channels = step.channels();
  const std::size_t size = places * patch;
  const std::size_t parameters = step.parameter_count();
  const bool wanted = !norms.squared.empty();
  const std::size_t together = examples_together(step, count);
  float* patches = at_least(scratch.patches, together * size);
  const float* in = pass.entering_[s] + first * step.inputs();

  // The gradient of `rows` rows of patches and errors, into or onto a kept row.
  const auto add_gradient = [&](std::size_t rows, const float* a, const float* d, bool onto,
                                float* kept) {
    multiply(channels, patch, rows, {d, channels, true}, {a, patch}, onto, kept, patch);
    float* bias = kept + channels * patch;
    if (!onto) std::fill_n(bias, channels, 0.0f);
    for (std::size_t row = 0; row < rows; ++row) add(d + row * channels, channels, bias);
  };

  if (sum_by_[s] == SumBy::gram) {
    std::copy_n(delta, count * step.outputs(), pass.kept_[s].get() + first * step.outputs());
  }
  for (std::size_t begin = 0; begin < count; begin += together) {
    const std::size_t examples = std::min(together, count - begin);
    const float* deltas = delta + begin * step.outputs();
    const bool needs_patches = sum_by_[s] == SumBy::rows || wanted;
    for (std::size_t i = 0; i < examples && needs_patches; ++i) {
      step.gather_patches(in + (begin + i) * step.inputs(), patches + i * size);
    }
    if (sum_by_[s] == SumBy::rows && !wanted) {
      add_gradient(examples * places, patches, deltas, begin > 0,
                   pass.kept_[s].get() + first / kBlock * parameters);
    }
    for (std::size_t i = 0; i < examples && wanted; ++i) {
      const std::size_t row = first + begin + i;
      const float* own_delta = deltas + i * step.outputs();
      double& squared = norms.at(row, group_of_[s]);
      if (sum_by_[s] == SumBy::rows) {
        float* kept = pass.kept_[s].get() + row * parameters;
        add_gradient(places, patches + i * size, own_delta, false, kept);
        squared = enlarged(sum_of_squares(kept, parameters), parameters);
      } else {
        squared = gram_squared_norm(step, patches + i * size, own_delta, scratch.scaled);
      }
    }
    if (below == nullptr) continue;
    multiply(examples * places, patch, channels, {deltas, channels}, {step.weights(), patch}, false,
             patches, patch);
    for (std::size_t i = 0; i < examples; ++i) {
      step.add_patches(patches + i * size, below + (begin + i) * step.inputs());
    }
  }
}

}  // namespace privgrad::cpu
