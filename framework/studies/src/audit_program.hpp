// Wraps a network's program so that canaries have separate gradients in spare parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/dataset.hpp"

namespace privgrad::core {

/// A network's parameters with spare parameters: each group has `spares` more at its end, which no
/// layer reads. A canary owns one spare coordinate of every group, so its gradient is separate even
/// under rules that clip each group separately.
class SpareLayout {
 public:
  /// \param groups  the network's parameters, in order, without gaps.
  SpareLayout(std::vector<ParameterGroup> groups, std::size_t spares);

  std::size_t spares() const { return spares_; }
  /// The number of parameters without the spare parameters.
  std::size_t parameters() const { return inner_.back().offset + inner_.back().size; }
  std::span<const ParameterGroup> inner() const { return inner_; }
  /// The groups with the spare parameters.
  const std::vector<ParameterGroup>& outer() const { return outer_; }
  std::size_t outer_parameters() const { return outer_.back().offset + outer_.back().size; }
  std::size_t spare(std::size_t group, std::size_t slot) const {
    return outer_[group].offset + inner_[group].size + slot;
  }

  /// Copies `from`, the [parameters()] of the network, to their places in `to`,
  /// [outer_parameters()], and leaves the spare parameters as they are; gather() copies back.
  void spread(std::span<const float> from, std::span<float> to) const;
  void gather(std::span<const float> from, std::span<float> to) const;
  /// to += from, modulo 2^64.
  void add(std::span<const std::int64_t> from, std::span<std::int64_t> to) const;

 private:
  std::vector<ParameterGroup> inner_, outer_;
  std::size_t spares_;
};

struct Role {
  /// 0: an example of the data; otherwise a canary, with spare coordinate slot - 1.
  std::uint32_t slot = 0;
  float gradient = 0.0f;  ///< The canary's gradient in one coordinate of each group.
};

/// The examples, with their roles as two additional features that audit_program() reads.
/// \param roles  one per row.
Dataset with_roles(const Dataset& data, std::span<const Role> roles);

/// Wraps a program for the examples of with_roles(): examples of the data keep their gradients, and
/// canaries have gradients in their spare coordinates. The wrapper offers the program's abilities,
/// so that sums are computed by the same code as without an audit.
/// \param program, layout must outlive the result.
std::unique_ptr<Program> audit_program(Program& program, const SpareLayout& layout);

}  // namespace privgrad::core
