// Kernels for the losses: in double, except the derivatives of next_token, which are in float32.
#pragma once

#include "activations.hpp"
#include "sequences.hpp"

// One thread computes each sum for one example, in the order of the backend `cpu`.
namespace privgrad::cuda {

enum class LossCode : uint32_t { cross_entropy, squared, logistic, next_token };

struct LossOf {
  LossCode loss;
  uint64_t classes;  // 0 for real targets
  uint64_t places;   // places of next_token; 1 for other losses
  uint64_t outputs;  // outputs of a place
  uint64_t inputs;
  const double* weights;  // [classes]; null: 1

  PRIVGRAD_HD static bool is_below(float number, uint64_t limit) {
    return number >= 0.0f && number < static_cast<float>(limit) &&
           static_cast<float>(static_cast<uint64_t>(number)) == number;
  }
  PRIVGRAD_HD bool is_class(float target) const { return is_below(target, classes); }

  /// The index of the first of the largest outputs; a NaN at the start compares as larger than
  /// everything.
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

  /// The derivatives with respect to the outputs of a place.
  PRIVGRAD_HD void gradient(const float* tokens, uint64_t place, const float* output, float target,
                            float* gradient) const {
    if (loss == LossCode::next_token) {
      next_token_gradient(tokens, place, output, gradient);
      return;
    }
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

 private:
  /// The number of places with a next token; `places` if a next token is not in the vocabulary.
  PRIVGRAD_HD uint64_t next_tokens(const float* tokens) const {
    uint64_t count = 0;
    for (uint64_t t = 1; t < places; ++t) {
      if (tokens[t] == kEmptyPlace) continue;
      if (!is_below(tokens[t], outputs)) return places;
      ++count;
    }
    return count;
  }

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

  PRIVGRAD_HD void next_token_gradient(const float* tokens, uint64_t place, const float* output,
                                       float* gradient) const {
    const uint64_t count = next_tokens(tokens);
    const bool is_none = count == places;
    if (is_none || place + 1 == places || tokens[place + 1] == kEmptyPlace) {
      for (uint64_t j = 0; j < outputs; ++j) gradient[j] = is_none ? float_of(kFloatNan) : 0.0f;
      return;
    }
    float top = float_of(0xff800000u);  // -infinity
    for (uint64_t j = 0; j < outputs; ++j) top = output[j] > top ? output[j] : top;
    PlaceLanes lanes;
    for (uint64_t j = 0; j < outputs; ++j) {
      gradient[j] = exp_of_negative(output[j] - top);
      lanes.add(j, gradient[j]);
    }
    const float share = 1.0f / static_cast<float>(count);
    const float scale = share / lanes.sum();
    for (uint64_t j = 0; j < outputs; ++j) gradient[j] *= scale;
    gradient[static_cast<uint64_t>(tokens[place + 1])] -= share;
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

/// One example's loss, and whether its outputs name its class.
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
  uint64_t count;  // places of all examples
  LossOf of;
  const float *features, *outputs, *targets;
  float* delta;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / of.places;
    of.gradient(features + example * of.inputs, i % of.places, outputs + i * of.outputs,
                targets[example], delta + i * of.outputs);
  }
};

}  // namespace privgrad::cuda
