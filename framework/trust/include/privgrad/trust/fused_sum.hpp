#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"

namespace privgrad::core {

/// Says how much of an example's gradient is added up.
/// \param squared_norms  [groups], finite, of its gradient in each group, rounded up.
/// \param factors  out: [groups], finite, >= 0. The bound on the whole contribution, || factor_g
///   norm_g || over the groups g, is the rule's to keep. Called for one example after the other, in
///   the order of the batch, by one thread.
using ClippingRule =
    std::function<void(std::span<const double> squared_norms, std::span<double> factors)>;

/// Memory that steps of a run use one after the other, so that it is asked for once. Belongs to one
/// program and must not outlive it.
struct SumMemory {
  std::unique_ptr<FusedClipping::Pass> pass;
  std::size_t pass_rows = 0;
  std::vector<float> features, targets;
};

/// The sum over a batch of factor times gradient, group by group: one backward pass over a few
/// chunks of examples after another.
///
/// Memory: proportional to the examples of a pass, whatever the batch. The result is bitwise the
/// same for any `most_rows` and any number of threads. An example with a norm that is not finite
/// contributes nothing. A contribution is made with each factor rounded down to float32, in
/// float32; what the rule bounds is the norm of the contribution itself. The rounding of the sums
/// of contributions, 2^-24 of their size, is not part of it.
/// \param most_rows  of a pass: rounded down to chunks, at least one; 0: as the program suggests.
std::vector<float> fused_sum(const FusedClipping& program, std::size_t parameters,
                             const Dataset& data, std::span<const std::uint32_t> batch,
                             const ClippingRule& rule, Executor& executor, std::size_t most_rows,
                             SumMemory& memory);

}  // namespace privgrad::core
