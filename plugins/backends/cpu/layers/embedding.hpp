// A table of rows, one for each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layers/step.hpp"

namespace privgrad::cpu {

/// A gradient is zero except in the rows of tokens that occur. So only the derivatives with respect
/// to the outputs are stored. Each use adds them up by token and truncates the sums.
class EmbeddingStep final : public Step {
 public:
  EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

  std::size_t kept_floats() const override { return outputs_; }
  void allocate(StepPass& pass) const override;
  void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                  Scratch& scratch) const override;
  void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                  Wide* squares) const override;
  std::vector<Piece> pieces() const override { return {{.until = parameter_count_}}; }
  void add_cells(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                 const Target& target) const override;

  /// Calls body(first element of the token's row in the table, its gradient [width]) once for each
  /// distinct token of one example, in order.
  /// \returns whether all inputs are tokens or empty places; if not, body is not called.
  bool for_each_row(const float* in, const float* delta,
                    const std::function<void(std::size_t, std::span<const float>)>& body) const;

 private:
  bool is_token(float value) const;
  bool is_allowed(float value) const;
  Embedding layer_;
};

}  // namespace privgrad::cpu
