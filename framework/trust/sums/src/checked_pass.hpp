// Checks some examples of a pass against the sum before and after that pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/exact_sum.hpp"

namespace privgrad::core {

/// Computes an example's scales from its squared norms.
using ScalesOf = std::function<void(std::span<const double> squared_norms, std::span<double> out)>;

/// A pass whose cells have just been added up, for check_pass(). `memory` holds its norms, scales
/// and lengths, and which examples were added.
struct CheckedPass {
  const ExactClipping& program;
  const Program& rows;  ///< The same program.
  const Batch& batch;
  std::size_t first = 0;   ///< The place of the pass's first example in the batch.
  std::uint64_t most = 0;  ///< The most cells of a contribution.
  const ScalesOf& scales;  ///< Computes scales as the clipping does.
  SumMemory& memory;
  std::span<const ParameterGroup> groups;
  std::span<const std::int64_t> before;  ///< The sum before the pass; empty: zeros.
  std::span<const std::int64_t> after;   ///< The sum after the pass.
};

/// \throws PluginError as ContributionCheck says.
void check_pass(const CheckedPass& pass, ContributionCheck& check);

}  // namespace privgrad::core
