#include "privgrad/trust/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "checked_pass.hpp"
#include "gradient_rows.hpp"
#include "grid_sum.hpp"
#include "pass.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// How the gradients of a batch become cells.
struct Grid {
  const Clip& clip;
  std::uint64_t count;  // cells of an example's count
  std::uint64_t most;   // of the length of its gradient's part

  explicit Grid(const Clip& the_clip)
      : clip(the_clip),
        count(count_cells(the_clip.count_share)),
        most(whole_root(kExactLevels * kExactLevels - count * count)) {}

  /// \returns whether the example is within the clip norm.
  bool scale(std::span<const double> squared_norms, std::span<double> scales) const {
    const double share = count == 0 ? 1.0 : gradient_share(clip.count_share);
    const bool unclipped = clip_factors(clip, squared_norms, scales);
    for (double& cells : scales) {
      cells *= share / clip.clip_norm * static_cast<double>(kExactLevels);
      if (!std::isfinite(cells)) cells = 0.0;
    }
    return unclipped;
  }

  bool takes(const SquaredLength& length) const {
    return length.high == 0 && length.low <= most * most;
  }
};

/// \param total  [parameters], and one more for the count where there is one.
/// \returns of total, the parameters' part.
std::span<std::int64_t> add_pass(const ExactClipping& program, const Batch& batch, const Grid& grid,
                                 SumMemory& memory, std::span<std::int64_t> total) {
  const std::size_t groups = program.groups();
  const std::size_t rows = batch.rows();
  const auto norms = resized(memory.squared_norms, rows * groups);
  const auto scales = resized(memory.scales, rows * groups);
  const auto lengths = resized(memory.lengths, rows);
  const auto taken = resized(memory.taken, rows);
  // What a program forgets to write counts as not finite, and as too long.
  std::fill(norms.begin(), norms.end(), std::numeric_limits<double>::quiet_NaN());
  std::fill(lengths.begin(), lengths.end(), SquaredLength{~std::uint64_t{0}, 0});
  program.backward(batch, *memory.pass, norms);
  std::int64_t balance = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const bool unclipped =
        grid.scale(norms.subspan(i * groups, groups), scales.subspan(i * groups, groups));
    balance += unclipped ? 1 : -1;
  }
  program.make_cells(*memory.pass, scales, grid.most, lengths);
  for (std::size_t i = 0; i < rows; ++i) taken[i] = grid.takes(lengths[i]) ? 1 : 0;
  if (grid.count != 0) {
    total.back() += balance * static_cast<std::int64_t>(grid.count);
    total = total.first(total.size() - 1);
  }
  program.add_cells(*memory.pass, taken, total);
  return total;
}

/// As add_pass(), and looks at the contribution of one example of the pass.
/// \param place  of the example in the pass.
void add_and_check_pass(const Program& program, const Batch& batch, const Grid& grid,
                        SumMemory& memory, std::span<std::int64_t> total, std::size_t place,
                        ContributionCheck& check) {
  const auto& exact = dynamic_cast<const ExactClipping&>(program);
  std::vector<std::int64_t> before(total.begin(), total.end());
  const auto after = add_pass(exact, batch, grid, memory, total);
  const ScalesOf scales = [&](std::span<const double> norms, std::span<double> out) {
    grid.scale(norms, out);
  };
  check_pass({.program = exact,
              .rows = program,
              .batch = batch,
              .place = place,
              .most = grid.most,
              .scales = scales,
              .memory = memory,
              .groups = grid.clip.groups,
              .before = std::span(before).first(after.size()),
              .after = after},
             check);
}

}  // namespace

std::uint64_t count_cells(double count_share) {
  return static_cast<std::uint64_t>(count_share * static_cast<double>(kExactLevels));
}

std::uint64_t whole_root(std::uint64_t square) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(square)));
  while (root > 0 && root > square / root) --root;
  while (root + 1 <= square / (root + 1)) ++root;
  return root;
}

BoundedOnGrid exact_sum(const Program& program, const Dataset& data,
                        std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                        std::size_t most_rows, SumMemory* memory, PrivacyUnit unit,
                        ContributionCheck* check) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
  const Grid grid(clip);
  std::vector<std::int64_t> total;
  if (const auto* exact = dynamic_cast<const ExactClipping*>(&program)) {
    SumMemory own;
    total.assign(program.parameter_count() + (grid.count == 0 ? 0 : 1), 0);
    std::size_t first = 0;  // of the pass, in the batch
    for_each_pass(*exact, data, batch, executor, most_rows, memory != nullptr ? *memory : own,
                  [&](const Batch& examples, SumMemory& used) {
                    const std::size_t place = check == nullptr ? 0 : check->place - first;
                    first += examples.rows();
                    if (check != nullptr && place < examples.rows()) {
                      add_and_check_pass(program, examples, grid, used, total, place, *check);
                    } else {
                      add_pass(*exact, examples, grid, used, total);
                    }
                  });
  } else {
    total = sum_of_rows_on_grid(program, data, batch, clip, kExactLevels, grid.count, executor);
    if (check != nullptr) check_row(program, data, batch, *check);
  }
  return TrustBase::bounded_on_grid(std::move(total), kExactLevels, clip.clip_norm, batch.size(),
                                    unit);
}

}  // namespace privgrad::core
