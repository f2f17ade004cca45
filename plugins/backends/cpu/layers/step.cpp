// The common part of steps, with defaults for a layer without parameters.
#include "layers/step.hpp"

#include <cmath>
#include <limits>

namespace privgrad::cpu {
namespace {

constexpr std::uint64_t kMostSum = std::numeric_limits<std::int32_t>::max();

}  // namespace

Step::Step(const Shape& in, const Shape& out)
    : inputs_(element_count(in)), outputs_(element_count(out)) {}

Step::~Step() = default;

void Step::gradient_rows(std::size_t, const float*, const float*, float*, std::size_t,
                         Scratch&) const {}
void Step::forward_batch(const WholeBatch&, const StepPass&, float*) const {}
void Step::backward_batch(const WholeBatch&, const StepPass&, const float*, float*, float*) const {}
void Step::allocate(StepPass&) const {}
void Step::find_norms(std::size_t, std::size_t, const float*, StepPass&, Scratch&) const {}
void Step::make_cells(std::size_t, const bool*, StepPass&, Wide*) const {}
void Step::choose(std::span<const std::uint8_t>, StepPass&) const {}
void Step::undo_choice(std::span<const std::uint8_t>, StepPass&) const {}
void Step::add_cells(const Piece&, std::span<const std::uint8_t>, const StepPass&,
                     const Target&) const {}

double norm_or_nan(double squared) {
  return std::isfinite(squared) ? squared : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Run> find_runs(const StepPass& pass) {
  std::vector<Run> found;
  const std::size_t pairs = (pass.rows + 1) / 2;
  std::uint64_t sum = 0;
  std::size_t first = 0;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    std::uint64_t largest = pass.share(2 * pair).largest_cell;
    if (2 * pair + 1 < pass.rows) largest += pass.share(2 * pair + 1).largest_cell;
    if (sum + largest > kMostSum) {
      found.push_back({first, pair});
      first = pair;
      sum = 0;
    }
    sum += largest;
  }
  if (first < pairs) found.push_back({first, pairs});
  return found;
}

}  // namespace privgrad::cpu
