#include "piece_sum.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gradient_rows.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/cell_kernels.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kPiece = 1024;  // numbers: 16 KiB with their cells and sums
constexpr std::size_t kRows = 32;     // each piece of the sum is loaded once for this many rows
constexpr std::size_t kLanes = 8;     // a fixed number of sums, whatever the number of threads
static_assert(kPiece % SquaredNorm::kTogether == 0);

class PieceAdder {
 public:
  PieceAdder(const Clip& clip, std::size_t size, std::string_view who)
      : clip_(clip), who_(who), sum_(size, 0), numbers_(kPiece), cells_(kPiece) {}

  /// \param some  at most kRows.
  void add(std::vector<std::unique_ptr<Contribution>> some) {
    rows_.clear();
    for (auto& contribution : some) take(std::move(contribution));
    for (std::size_t begin = 0; begin < sum_.size(); begin += kPiece) {
      const auto sum = std::span(sum_).subspan(begin, std::min(kPiece, sum_.size() - begin));
      for (Row& row : rows_) add_piece(row, begin, sum);
    }
  }

  const std::vector<std::int64_t>& sum() const { return sum_; }

 private:
  struct Row {
    std::unique_ptr<Contribution> contribution;
    double scale;        // cells per unit of the contribution's numbers
    std::uint64_t left;  // the squared length left for its next cells
  };

  /// Numbers that the contribution leaves unwritten are NaN.
  std::span<const float> piece(const Contribution& contribution, std::size_t begin) {
    const auto out = std::span(numbers_).first(std::min(kPiece, sum_.size() - begin));
    in_wide_registers(
        [=] { std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN()); });
    contribution.piece(begin, out);
    return out;
  }

  /// A contribution that is not finite adds nothing.
  void take(std::unique_ptr<Contribution> contribution) {
    if (contribution == nullptr) return refuse("gives no contribution in pieces");
    SquaredNorm norm;
    for (std::size_t begin = 0; begin < sum_.size(); begin += kPiece)
      norm.add(piece(*contribution, begin));
    const double squares = norm.at_most();
    double factor = 0.0;
    clip_factors(clip_, {&squares, 1}, {&factor, 1});
    if (factor == 0.0) return;
    const double scale = factor / clip_.clip_norm * static_cast<double>(kExactLevels);
    rows_.push_back({std::move(contribution), scale, kExactLevels * kExactLevels});
  }

  void add_piece(Row& row, std::size_t begin, std::span<std::int64_t> sum) {
    const CellKernels& kernels = cell_kernels().front();
    const auto cells = std::span(cells_).first(sum.size());
    const bool fits = kernels.round(piece(*row.contribution, begin), row.scale,
                                    static_cast<double>(kExactLevels), cells);
    if (!fits || !take_squares(cells, row.left)) refuse("gives a contribution that changes");
    kernels.add(cells, sum);
  }

  void refuse(const std::string& what) const {
    throw PluginError(std::string(who_) + " broke its promise: it " + what);
  }

  const Clip& clip_;
  std::string_view who_;
  std::vector<std::int64_t> sum_;
  std::vector<float> numbers_;
  std::vector<std::int32_t> cells_;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<std::int64_t> sum_of_pieces_on_grid(const PiecesOf& pieces_of, const Dataset& data,
                                                std::size_t size, const Clip& clip,
                                                std::string_view who, Executor& executor) {
  const std::vector<std::uint32_t> rows = all_rows(data.rows());
  const std::size_t blocks = (data.rows() + kRows - 1) / kRows;
  std::vector<std::vector<std::int64_t>> sums(std::min(kLanes, blocks));
  executor.for_each_chunk(sums.size(), [&](std::size_t lane) {
    PieceAdder adder(clip, size, who);
    Chunk scratch(data, kRows);
    for (std::size_t block = lane; block < blocks; block += sums.size()) {
      const std::size_t begin = block * kRows;
      const auto batch = std::span(rows).subspan(begin, std::min(kRows, data.rows() - begin));
      const Batch examples = scratch.gather(data, batch);
      std::vector<std::unique_ptr<Contribution>> some;
      for (std::size_t i = 0; i < batch.size(); ++i)
        some.push_back(pieces_of(examples.features.subspan(i * data.row_size(), data.row_size())));
      adder.add(std::move(some));
    }
    sums[lane] = adder.sum();
  });
  std::vector<std::int64_t> total(size, 0);
  for (const std::vector<std::int64_t>& sum : sums) {
    for (std::size_t i = 0; i < size; ++i) total[i] += sum[i];
  }
  return total;
}

}  // namespace privgrad::core
