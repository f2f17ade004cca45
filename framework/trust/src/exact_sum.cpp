#include "privgrad/trust/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "checked_pass.hpp"
#include "gradient_rows.hpp"
#include "grid_sum.hpp"
#include "pass.hpp"
#include "pass_to_come.hpp"
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

/// What a pass has to add.
struct Made {
  std::span<const std::uint8_t> taken;
  std::int64_t count = 0;  // of all its examples, in cells
};

/// Makes and certifies the cells of the examples of a pass.
Made make_cells(const ExactClipping& program, const Batch& batch, const Grid& grid,
                SumMemory& memory) {
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
  return {taken, balance * static_cast<std::int64_t>(grid.count)};
}

/// Adds up the cells of a batch, a pass after the other.
class PassSum {
 public:
  /// \param pieces  null: the last pass is added like the others.
  PassSum(const Program& program, const CellsInPieces* pieces, const Grid& grid,
          std::size_t batch_rows, ContributionCheck* check, Executor& executor)
      : program_(program),
        exact_(dynamic_cast<const ExactClipping&>(program)),
        pieces_(pieces),
        grid_(grid),
        batch_rows_(batch_rows),
        check_(check),
        executor_(executor) {}

  void take(const Batch& examples, SumMemory& memory) {
    const std::size_t place = check_ == nullptr ? 0 : check_->place - first_;
    const bool is_checked = check_ != nullptr && place < examples.rows();
    first_ += examples.rows();
    const bool in_pieces = pieces_ != nullptr && first_ == batch_rows_;
    const Made made = make_cells(exact_, examples, grid_, memory);
    if (in_pieces && !is_checked) {
      to_come_ =
          std::make_unique<PassToCome>(*pieces_, memory, made.taken,
                                       grid_.count == 0 ? std::nullopt : std::optional(made.count));
      return;
    }
    const auto sum = parameters();
    if (grid_.count != 0) total_.back() += made.count;
    const std::vector<std::int64_t> before = is_checked
                                                 ? std::vector<std::int64_t>(sum.begin(), sum.end())
                                                 : std::vector<std::int64_t>();
    if (in_pieces) {
      add_pieces(made, memory);
    } else {
      exact_.add_cells(*memory.pass, made.taken, sum);
    }
    if (is_checked) look_at(examples, memory, place, before);
  }

  /// Once all passes are made.
  BoundedOnGrid bounded(double clip_norm, PrivacyUnit unit) {
    if (to_come_ != nullptr) {
      return TrustBase::bounded_on_grid(std::move(total_), std::move(to_come_), kExactLevels,
                                        clip_norm, batch_rows_, unit);
    }
    parameters();  // of an empty batch: zeros
    return TrustBase::bounded_on_grid(std::move(total_), kExactLevels, clip_norm, batch_rows_,
                                      unit);
  }

 private:
  /// Of the sum, without the count.
  std::span<std::int64_t> parameters() {
    const std::size_t size = program_.parameter_count();
    if (total_.empty()) total_.assign(size + (grid_.count == 0 ? 0 : 1), 0);
    return std::span(total_).first(size);
  }

  /// As a release of the pass would add it.
  void add_pieces(const Made& made, SumMemory& memory) {
    const PassToCome pass(*pieces_, memory, made.taken, std::nullopt);
    const auto ends = pass.ends();
    executor_.for_each_chunk(ends.size(), [&](std::size_t i) {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      pass.add(i, std::span(total_).subspan(begin, ends[i] - begin));
    });
  }

  void look_at(const Batch& examples, SumMemory& memory, std::size_t place,
               std::vector<std::int64_t> before) {
    const ScalesOf scales = [&](std::span<const double> norms, std::span<double> out) {
      grid_.scale(norms, out);
    };
    check_pass({.program = exact_,
                .rows = program_,
                .batch = examples,
                .place = place,
                .most = grid_.most,
                .scales = scales,
                .memory = memory,
                .groups = grid_.clip.groups,
                .before = before,
                .after = parameters()},
               *check_);
  }

  const Program& program_;
  const ExactClipping& exact_;
  const CellsInPieces* pieces_;
  const Grid& grid_;
  std::size_t batch_rows_;
  ContributionCheck* check_;
  Executor& executor_;
  std::size_t first_ = 0;            // row of the next pass
  std::vector<std::int64_t> total_;  // [parameters], and one more for the count where there is one
  std::unique_ptr<CellsToCome> to_come_;
};

BoundedOnGrid sum_up(const Program& program, const CellsInPieces* pieces, const Dataset& data,
                     std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                     std::size_t most_rows, SumMemory& memory, PrivacyUnit unit,
                     ContributionCheck* check) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
  const Grid grid(clip);
  if (const auto* exact = dynamic_cast<const ExactClipping*>(&program)) {
    PassSum sum(program, pieces, grid, batch.size(), check, executor);
    for_each_pass(*exact, data, batch, executor, most_rows, memory,
                  [&](const Batch& examples, SumMemory& used) { sum.take(examples, used); });
    return sum.bounded(clip.clip_norm, unit);
  }
  std::vector<std::int64_t> total =
      sum_of_rows_on_grid(program, data, batch, clip, kExactLevels, grid.count, executor);
  if (check != nullptr) check_row(program, data, batch, *check);
  return TrustBase::bounded_on_grid(std::move(total), kExactLevels, clip.clip_norm, batch.size(),
                                    unit);
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
  SumMemory own;
  return sum_up(program, nullptr, data, batch, clip, executor, most_rows,
                memory != nullptr ? *memory : own, unit, check);
}

BoundedOnGrid exact_sum_to_come(const Program& program, const Dataset& data,
                                std::span<const std::uint32_t> batch, const Clip& clip,
                                Executor& executor, std::size_t most_rows, SumMemory& memory,
                                PrivacyUnit unit, ContributionCheck* check) {
  return sum_up(program, PassToCome::ability(program), data, batch, clip, executor, most_rows,
                memory, unit, check);
}

}  // namespace privgrad::core
