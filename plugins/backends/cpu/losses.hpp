// The losses of a network: the loss of one example, whether it is classified correctly, and the
// derivative.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include "privgrad/network.hpp"

namespace privgrad::cpu {

/// The loss of one example and whether the outputs name its class.
struct Judgement {
  double loss = std::numeric_limits<double>::quiet_NaN();
  bool correct = false;
};

/// The loss of a network. The network outlives this object.
class LossOf {
 public:
  explicit LossOf(const Network& network);

  /// Computes one example's loss and correctness, in double, without overflow for finite
  /// outputs.
  /// \param features  the features of the example.
  /// \param outputs  [output_count(network)].
  /// \param target  the same as in a Batch. A value that is not a class index gives a loss of NaN:
  ///   such a target can only come from corrupted memory, and must not stop the other examples.
  /// \returns `correct` if the target class has the largest output; among equal outputs, the lowest
  ///   class wins. Never correct if the loss is not finite, or the target is not a class.
  Judgement judge(std::span<const float> features, std::span<const float> outputs,
                  float target) const;

  /// Computes the loss's derivative with respect to the outputs: in double, except for next_token,
  /// which uses float32.
  /// \param gradient  out: in the layout of outputs.
  void find_gradient(std::span<const float> features, std::span<const float> outputs, float target,
                     std::span<float> gradient) const;

 private:
  double next_token_loss(const float* tokens, const float* outputs) const;
  void next_token_gradient(const float* tokens, const float* outputs,
                           std::span<float> gradient) const;
  /// Returns the number of places with a next token; nothing if a token is not in the vocabulary.
  std::optional<std::size_t> next_tokens(const float* tokens) const;

  const Network& network_;
  std::size_t places_ = 0, vocabulary_ = 0;  // for next_token
};

}  // namespace privgrad::cpu
