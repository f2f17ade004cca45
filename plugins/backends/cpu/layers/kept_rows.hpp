// The exact part of layers whose gradients are kept as rows of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layers/step.hpp"

namespace privgrad::cpu {

/// A step for layers with few parameters. It stores each example's gradient as floats, as written
/// by gradient_rows(), and truncates it when it is used.
class KeptRows : public Step {
 public:
  using Step::Step;

  std::size_t kept_floats() const override { return parameter_count_; }
  void allocate(StepPass& pass) const override;
  void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                  Scratch& scratch) const override;
  void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                  Wide* squares) const override;
  std::vector<Piece> pieces() const override;
  void add_cells(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                 const Target& target) const override;
};

}  // namespace privgrad::cpu
