#include "privgrad/trust/exact_sum.hpp"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "certified_cells.hpp"
#include "checked_pass.hpp"
#include "deferred_pass.hpp"
#include "gradient_rows.hpp"
#include "grid_sum.hpp"
#include "microbatches.hpp"
#include "privgrad/trust/program_around.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Adds up the cells of a batch, one pass after the other.
class PassSum {
 public:
  /// \param in_pieces  whether the last pass is added up in pieces.
  PassSum(const Program& program, bool in_pieces, const CellGrid& grid, std::size_t batch_rows,
          ContributionCheck* check, Executor& executor)
      : program_(program),
        exact_(*ability_of<ExactClipping>(program)),
        in_pieces_(in_pieces),
        grid_(grid),
        batch_rows_(batch_rows),
        check_(check),
        executor_(executor) {}

  void take(const Batch& examples, SumMemory& memory) {
    const std::size_t first = std::exchange(first_, first_ + examples.rows());
    const bool is_checked = check_ != nullptr && check_->place - first < examples.rows();
    const bool in_pieces = in_pieces_ && first_ == batch_rows_;
    const CertifiedCells made = make_cells(exact_, examples, grid_, memory);
    if (in_pieces && !is_checked) {
      deferred_ = std::make_unique<DeferredPass>(
          exact_, memory, made.taken, grid_.count == 0 ? std::nullopt : std::optional(made.count));
      return;
    }
    const auto sum = parameters();
    if (grid_.count != 0) total_.back() += made.count;
    std::vector<std::int64_t> before;
    if (is_checked && first != 0) before.assign(sum.begin(), sum.end());
    if (in_pieces) {
      add_pieces(made, memory);
    } else {
      exact_.add_cells(*memory.pass, made.taken, sum);
    }
    if (is_checked) look_at(examples, memory, first, before);
  }

  /// Returns the sum, after all passes.
  BoundedOnGrid bounded(double clip_norm, PrivacyUnit unit) {
    if (deferred_ != nullptr) {
      return TrustBase::bounded_on_grid(std::move(total_), std::move(deferred_), kExactLevels,
                                        clip_norm, batch_rows_, unit);
    }
    parameters();  // an empty batch gives zeros
    return TrustBase::bounded_on_grid(std::move(total_), kExactLevels, clip_norm, batch_rows_,
                                      unit);
  }

 private:
  /// The parameters' part of the sum, without the count.
  std::span<std::int64_t> parameters() {
    const std::size_t size = program_.parameter_count();
    if (total_.empty()) total_.assign(size + (grid_.count == 0 ? 0 : 1), 0);
    return std::span(total_).first(size);
  }

  /// Adds the pass in pieces, as a release would.
  void add_pieces(const CertifiedCells& made, SumMemory& memory) {
    const DeferredPass pass(exact_, memory, made.taken, std::nullopt);
    const auto ends = pass.ends();
    executor_.for_each_chunk(ends.size(), [&](std::size_t i) {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      pass.add(i, std::span(total_).subspan(begin, ends[i] - begin));
    });
  }

  void look_at(const Batch& examples, SumMemory& memory, std::size_t first,
               std::span<const std::int64_t> before) {
    const ScalesOf scales = [&](std::span<const double> norms, std::span<double> out) {
      grid_.scale(norms, out);
    };
    check_pass({.program = exact_,
                .rows = program_,
                .batch = examples,
                .first = first,
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
  bool in_pieces_;
  const CellGrid& grid_;
  std::size_t batch_rows_;
  ContributionCheck* check_;
  Executor& executor_;
  std::size_t first_ = 0;            // the batch's row with which the next pass begins
  std::vector<std::int64_t> total_;  // [parameters], followed by the count if the sum has one
  std::unique_ptr<DeferredCells> deferred_;
};

BoundedOnGrid sum_up(const Program& program, bool in_pieces, const Dataset& data,
                     std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                     std::size_t most_rows, SumMemory& memory, PrivacyUnit unit,
                     ContributionCheck* check) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
  const CellGrid grid(clip);
  if (const auto* exact = ability_of<ExactClipping>(program)) {
    PassSum sum(program, in_pieces, grid, batch.size(), check, executor);
    for_each_microbatch(*exact, data, batch, executor, most_rows, memory,
                        [&](const Batch& examples, SumMemory& used) { sum.take(examples, used); });
    return sum.bounded(clip.clip_norm, unit);
  }
  std::vector<std::int64_t> total =
      sum_of_rows_on_grid(program, data, batch, clip, grid.count, executor);
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
  return sum_up(program, /*in_pieces=*/false, data, batch, clip, executor, most_rows,
                memory != nullptr ? *memory : own, unit, check);
}

BoundedOnGrid deferred_exact_sum(const Program& program, const Dataset& data,
                                 std::span<const std::uint32_t> batch, const Clip& clip,
                                 Executor& executor, std::size_t most_rows, SumMemory& memory,
                                 PrivacyUnit unit, ContributionCheck* check) {
  return sum_up(program, DeferredPass::in_pieces(program) != nullptr, data, batch, clip, executor,
                most_rows, memory, unit, check);
}

}  // namespace privgrad::core
