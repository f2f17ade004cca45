#include "grid_sum.hpp"

#include "gradient_rows.hpp"
#include "privgrad/trust/cell_kernels.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"

namespace privgrad::core {
namespace {

/// Clips the gradient rows of examples, rounds them to the grid and adds them up.
class GridAdder {
 public:
  /// \param sum  [parameters], followed by the count if the sum has one.
  GridAdder(const Clip& clip, std::uint64_t count, std::vector<std::int64_t>& sum,
            std::size_t parameters)
      : clip_(clip),
        count_(count),
        share_(count == 0 ? 1.0 : gradient_share(clip.count_share)),
        sum_(sum),
        squared_norms_(clip.groups.size()),
        factors_(clip.groups.size()),
        cells_(parameters) {}

  void add(std::span<const float> row) {
    squared_norms(clip_, row, squared_norms_);
    const bool unclipped = clip_factors(clip_, squared_norms_, factors_);
    for (double& factor : factors_) factor *= share_;
    round_to_grid(row, clip_.groups, factors_, clip_.clip_norm, kExactLevels, cells_);
    if (count_ != 0) {
      const auto size = static_cast<std::int64_t>(count_);
      sum_.back() += unclipped ? size : -size;
      if (!no_longer_than(cells_, kExactLevels * kExactLevels - count_ * count_)) return;
    }
    cell_kernels().front().add(cells_, std::span(sum_).first(cells_.size()));
  }

 private:
  const Clip& clip_;
  std::uint64_t count_;
  double share_;  // the gradient's share of the bound
  std::vector<std::int64_t>& sum_;
  std::vector<double> squared_norms_, factors_;
  std::vector<std::int32_t> cells_;
};

}  // namespace

std::vector<std::int64_t> sum_of_rows_on_grid(const Program& program, const Dataset& data,
                                              std::span<const std::uint32_t> batch,
                                              const Clip& clip, std::uint64_t count,
                                              Executor& executor) {
  const std::size_t parameters = program.parameter_count();
  const std::size_t size = parameters + (count == 0 ? 0 : 1);
  std::vector<std::vector<std::int64_t>> sums(lanes_of(program, batch.size()));
  add_rows(program, data, batch, executor, [&](std::size_t lane) {
    sums[lane].assign(size, 0);
    return GridAdder(clip, count, sums[lane], parameters);
  });
  std::vector<std::int64_t> total(size, 0);
  for (const std::vector<std::int64_t>& sum : sums) {
    for (std::size_t i = 0; i < size; ++i) total[i] += sum[i];
  }
  return total;
}

}  // namespace privgrad::core
