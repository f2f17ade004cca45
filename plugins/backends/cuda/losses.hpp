// Kernels for the losses: in double, except the derivatives of next_token, which are in float32.
#pragma once

#include "activations.hpp"
#include "sequences.hpp"

// Each sum over an example is computed by one thread, and each sum over a place by the lanes of a
// row, in the order of the backend `cpu`.
namespace privgrad::cuda {

enum class LossCode : uint32_t { cross_entropy, squared, logistic, next_token };

struct LossOf {
  LossCode loss;
  uint64_t classes;  // 0 for real targets
  uint64_t places;   // places of next_token; 1 for other losses
  uint64_t outputs;  // number of outputs of a place
  uint64_t inputs;
  const double* weights;  // [classes]; null: 1

  PRIVGRAD_HD static bool is_below(float number, uint64_t limit) {
    return number >= 0.0f && number < static_cast<float>(limit) &&
           static_cast<float>(static_cast<uint64_t>(number)) == number;
  }
  PRIVGRAD_HD bool is_class(float target) const { return is_below(target, classes); }

  /// Returns the index of the first of the largest outputs; a NaN counts as the largest only if it
  /// comes first.
  PRIVGRAD_HD uint64_t top(const float* output) const {
    uint64_t top = 0;
    for (uint64_t j = 1; j < outputs; ++j) {
      if (output[top] < output[j]) top = j;
    }
    return top;
  }

  PRIVGRAD_HD double value(const float* tokens, const float* output, float target) const {
    if (loss == LossCode::next_token) return next_token(tokens, output);
    if (classes == 0) return squared(output, 0, static_cast<double>(target));
    if (!is_class(target)) return double_of(kDoubleNan);
    const auto label = static_cast<uint64_t>(target);
    switch (loss) {
      case LossCode::cross_entropy:
        return weight(label) * cross_entropy(output, label);
      case LossCode::squared:
        return weight(label) * squared(output, label, 1.0);
      case LossCode::logistic:
      case LossCode::next_token:
        break;
    }
    const double margin = static_cast<double>(label == 1 ? output[0] : -output[0]);
    return weight(label) *
           ((-margin > 0.0 ? -margin : 0.0) + log1p_fixed(exp_fixed(-size_of(margin))));
  }

  PRIVGRAD_HD bool is_correct(const float* output, float target, double value) const {
    if (classes == 0 || !is_class(target) || !is_finite(value)) return false;
    const auto label = static_cast<uint64_t>(target);
    if (loss == LossCode::logistic) return (output[0] > 0.0f) == (label == 1);
    return top(output) == label;
  }

  /// Computes the derivatives with respect to the outputs; for next_token, see TokenLossGradient.
  PRIVGRAD_HD void gradient(const float* output, float target, float* gradient) const {
    if (classes != 0 && !is_class(target)) {
      for (uint64_t j = 0; j < outputs; ++j) gradient[j] = float_of(kFloatNan);
      return;
    }
    const uint64_t label = classes == 0 ? 0 : static_cast<uint64_t>(target);
    switch (loss) {
      case LossCode::cross_entropy:
        softmax_less_label(output, label, gradient);
        return;
      case LossCode::squared:
        for (uint64_t j = 0; j < outputs; ++j) gradient[j] = output[j];
        gradient[label] -= classes == 0 ? target : 1.0f;
        for (uint64_t j = 0; j < outputs; ++j)
          gradient[j] = static_cast<float>(weight(label) * static_cast<double>(gradient[j]));
        return;
      case LossCode::logistic: {
        const double sign = label == 1 ? 1.0 : -1.0;
        const double margin = sign * static_cast<double>(output[0]);
        const double small = exp_fixed(-size_of(margin));
        gradient[0] = static_cast<float>(weight(label) *
                                         (sign * (-(margin > 0.0 ? small : 1.0) / (1.0 + small))));
        return;
      }
      case LossCode::next_token:
        return;
    }
  }

  /// Returns the number of places with a next token; `places` if a token is not in the vocabulary.
  PRIVGRAD_HD uint64_t next_tokens(const float* tokens) const {
    uint64_t count = 0;
    for (uint64_t t = 1; t < places; ++t) {
      if (tokens[t] == kEmptyPlace) continue;
      if (!is_below(tokens[t], outputs)) return places;
      ++count;
    }
    return count;
  }

 private:
  PRIVGRAD_HD double next_token(const float* tokens, const float* output) const {
    const uint64_t count = next_tokens(tokens);
    if (count == places) return double_of(kDoubleNan);
    double sum = 0.0;
    for (uint64_t t = 1; t < places; ++t) {
      if (tokens[t] == kEmptyPlace) continue;
      sum += cross_entropy(output + (t - 1) * outputs, static_cast<uint64_t>(tokens[t]));
    }
    return sum / static_cast<double>(count == 0 ? 1 : count);
  }

  PRIVGRAD_HD double weight(uint64_t label) const {
    return weights == nullptr ? 1.0 : weights[label];
  }

  PRIVGRAD_HD double squared(const float* output, uint64_t hot, double value) const {
    double sum = 0.0;
    for (uint64_t j = 0; j < outputs; ++j) {
      const double difference = static_cast<double>(output[j]) - (j == hot ? value : 0.0);
      sum += difference * difference;
    }
    return sum / 2.0;
  }

  PRIVGRAD_HD double cross_entropy(const float* output, uint64_t label) const {
    const uint64_t best = top(output);
    const auto most = static_cast<double>(output[best]);
    double others = 0.0;
    for (uint64_t j = 0; j < outputs; ++j) {
      if (j != best) others += exp_fixed(static_cast<double>(output[j]) - most);
    }
    return log1p_fixed(others) + (most - static_cast<double>(output[label]));
  }

  PRIVGRAD_HD void softmax_less_label(const float* output, uint64_t label, float* gradient) const {
    const auto most = static_cast<double>(output[top(output)]);
    double sum = 0.0;
    for (uint64_t j = 0; j < outputs; ++j) sum += exp_fixed(static_cast<double>(output[j]) - most);
    for (uint64_t j = 0; j < outputs; ++j) {
      const double probability = exp_fixed(static_cast<double>(output[j]) - most) / sum;
      gradient[j] = static_cast<float>(weight(label) * (probability - (j == label ? 1.0 : 0.0)));
    }
  }
};

/// Computes each example's loss, and whether its outputs name its class.
struct Judge {
  uint64_t count;
  LossOf of;
  const float *features, *outputs, *targets;
  double* losses;
  uint8_t* correct;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float* own = outputs + i * of.places * of.outputs;
    losses[i] = of.value(features + i * of.inputs, own, targets[i]);
    correct[i] = of.is_correct(own, targets[i], losses[i]) ? 1 : 0;
  }
};

struct LossGradient {
  uint64_t count;
  LossOf of;
  const float *outputs, *targets;
  float* delta;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    of.gradient(outputs + i * of.outputs, targets[i], delta + i * of.outputs);
  }
};

/// Computes the derivatives of next_token.
struct TokenLossGradient {
  struct Shared {
    Lanes<float> tops, sums;
  };

  uint64_t count;  // places of all examples
  LossOf of;
  const float *features, *outputs;
  float* delta;

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      float top = float_of(0xff800000u);  // -infinity
      for (uint64_t j = thread % kRowLanes; i < count && j < of.outputs; j += kRowLanes) {
        const float output = outputs[i * of.outputs + j];
        top = output > top ? output : top;
      }
      shared.tops.of(thread) = top;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      const float top = shared.tops.largest(thread);
      float sum = 0.0f;
      for (uint64_t j = thread % kRowLanes; i < count && j < of.outputs; j += kRowLanes) {
        const float e = exp_of_negative(outputs[i * of.outputs + j] - top);
        delta[i * of.outputs + j] = e;
        sum += e;
      }
      shared.sums.of(thread) = sum;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i < count) finish(i, thread % kRowLanes, shared.sums.sum(thread));
    });
  }

 private:
  PRIVGRAD_HD void finish(uint64_t i, uint32_t lane, float sum) const {
    const float* tokens = features + i / of.places * of.inputs;
    const uint64_t place = i % of.places, next = of.next_tokens(tokens);
    const bool is_none = next == of.places;
    const bool has_next = !is_none && place + 1 < of.places && tokens[place + 1] != kEmptyPlace;
    const uint64_t label = has_next ? static_cast<uint64_t>(tokens[place + 1]) : of.outputs;
    const float share = 1.0f / static_cast<float>(next);
    const float scale = share / sum;
    for (uint64_t j = lane; j < of.outputs; j += kRowLanes) {
      float& gradient = delta[i * of.outputs + j];
      gradient = is_none ? float_of(kFloatNan) : has_next ? gradient * scale : 0.0f;
      if (j == label) gradient -= share;
    }
  }
};

}  // namespace privgrad::cuda
