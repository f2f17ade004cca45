#include "losses.hpp"

#include <algorithm>
#include <cmath>

#include "../elementary.hpp"
#include "layers/softmax.hpp"

namespace privgrad::cpu {
namespace {

using namespace elementary;

/// \returns whether `target` is one of 0, 1, .., classes - 1.
bool is_class(float target, std::size_t classes) {
  return target >= 0 && target < static_cast<float>(classes) && std::floor(target) == target;
}

std::size_t largest(std::span<const float> outputs) {
  return static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin());
}

double squared_loss(std::span<const float> outputs, std::size_t hot, double value) {
  double sum = 0.0;
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    const double difference = outputs[j] - (j == hot ? value : 0.0);
    sum += difference * difference;
  }
  return sum / 2;
}

/// Returns ln(sum_j exp(o_j)) - o_t, relative to the largest output: no exponential exceeds 1, and
/// a loss near 0 keeps its digits.
double cross_entropy(std::span<const float> outputs, std::size_t target) {
  const std::size_t top = largest(outputs);
  double others = 0.0;
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    if (j != top) others += exp_fixed(static_cast<double>(outputs[j]) - outputs[top]);
  }
  return log1p_fixed(others) + (static_cast<double>(outputs[top]) - outputs[target]);
}

/// gradient = weight (softmax(outputs) - onehot(target)).
void cross_entropy_gradient(std::span<const float> outputs, std::size_t target, double weight,
                            std::span<float> gradient) {
  const double top = outputs[largest(outputs)];
  double sum = 0.0;
  for (const float output : outputs) sum += exp_fixed(output - top);
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    const double probability = exp_fixed(outputs[j] - top) / sum;
    gradient[j] = static_cast<float>(weight * (probability - (j == target ? 1.0 : 0.0)));
  }
}

double logistic_loss(double margin) {
  return std::max(-margin, 0.0) + log1p_fixed(exp_fixed(-std::abs(margin)));
}

/// d/dm ln(1 + exp(-m)) = -1 / (1 + exp(m)).
double logistic_slope(double margin) {
  const double small = exp_fixed(-std::abs(margin));
  return -(margin > 0 ? small : 1.0) / (1.0 + small);
}

}  // namespace

LossOf::LossOf(const Network& network) : network_(network) {
  if (network.loss != Loss::next_token) return;
  const Shape outputs = value_shapes(network).back();
  places_ = outputs[0];
  vocabulary_ = outputs[1];
}

Judgement LossOf::judge(std::span<const float> features, std::span<const float> outputs,
                        float target) const {
  if (network_.loss == Loss::next_token)
    return {next_token_loss(features.data(), outputs.data()), false};
  const std::size_t classes = network_.input.classes;
  if (classes == 0) return {squared_loss(outputs, 0, target), false};
  if (!is_class(target, classes)) return {};
  const auto label = static_cast<std::size_t>(target);
  const double weight = class_weight(network_, target);
  if (network_.loss == Loss::logistic) {
    const double loss = weight * logistic_loss(label == 1 ? outputs[0] : -outputs[0]);
    return {loss, std::isfinite(loss) && (outputs[0] > 0) == (label == 1)};
  }
  const double loss = weight * (network_.loss == Loss::squared ? squared_loss(outputs, label, 1.0)
                                                               : cross_entropy(outputs, label));
  return {loss, std::isfinite(loss) && largest(outputs) == label};
}

void LossOf::find_gradient(std::span<const float> features, std::span<const float> outputs,
                           float target, std::span<float> gradient) const {
  const std::size_t classes = network_.input.classes;
  if (classes != 0 && !is_class(target, classes)) {
    std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const std::size_t label = classes == 0 ? 0 : static_cast<std::size_t>(target);
  const double weight = class_weight(network_, target);
  switch (network_.loss) {
    case Loss::cross_entropy:
      return cross_entropy_gradient(outputs, label, weight, gradient);
    case Loss::squared:
      std::ranges::copy(outputs, gradient.begin());
      gradient[label] -= classes == 0 ? target : 1.0f;
      for (float& one : gradient) one = static_cast<float>(weight * static_cast<double>(one));
      return;
    case Loss::logistic: {
      const double sign = label == 1 ? 1.0 : -1.0;
      gradient[0] = static_cast<float>(weight * (sign * logistic_slope(sign * outputs[0])));
      return;
    }
    case Loss::next_token:
      return next_token_gradient(features.data(), outputs.data(), gradient);
  }
}

std::optional<std::size_t> LossOf::next_tokens(const float* tokens) const {
  std::size_t count = 0;
  for (std::size_t t = 1; t < places_; ++t) {
    if (tokens[t] == kEmptyPlace) continue;
    if (!is_class(tokens[t], vocabulary_)) return std::nullopt;
    ++count;
  }
  return count;
}

double LossOf::next_token_loss(const float* tokens, const float* outputs) const {
  const auto count = next_tokens(tokens);
  if (!count) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0.0;
  for (std::size_t t = 1; t < places_; ++t) {
    if (tokens[t] == kEmptyPlace) continue;
    sum += cross_entropy({outputs + (t - 1) * vocabulary_, vocabulary_},
                         static_cast<std::size_t>(tokens[t]));
  }
  return sum / static_cast<double>(std::max<std::size_t>(*count, 1));
}

void LossOf::next_token_gradient(const float* tokens, const float* outputs,
                                 std::span<float> gradient) const {
  const auto count = next_tokens(tokens);
  std::ranges::fill(gradient, count ? 0.0f : std::numeric_limits<float>::quiet_NaN());
  if (!count) return;
  const float share = 1.0f / static_cast<float>(std::max<std::size_t>(*count, 1));
  for (std::size_t t = 1; t < places_; ++t) {
    if (tokens[t] == kEmptyPlace) continue;
    float* const own = gradient.data() + (t - 1) * vocabulary_;
    scaled_softmax(outputs + (t - 1) * vocabulary_, vocabulary_, share, own);
    own[static_cast<std::size_t>(tokens[t])] -= share;
  }
}

}  // namespace privgrad::cpu
