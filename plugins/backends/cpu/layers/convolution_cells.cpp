// The exact part of convolutions: norms, cells and their sums.
#include <algorithm>
#include <array>

#include "layers/convolution.hpp"
#include "loops.hpp"
#include "place_sums.hpp"

namespace privgrad::cpu {
namespace {

/// Returns the factor that turns a kept gradient's integers into cells.
float place_factor(const Share& share) {
  return static_cast<float>(truncating_scale(share) * share.step);
}

}  // namespace

void ConvStep::allocate(StepPass& pass) const {
  pass.whole = std::make_unique_for_overwrite<std::int16_t[]>(pass.most_rows * weight_count());
  pass.kept = std::make_unique_for_overwrite<float[]>(pass.most_rows * bias_count());
}

void ConvStep::find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                          Scratch& scratch) const {
  for (std::size_t i = first; i < first + count; ++i, delta += outputs_) {
    Share& share = pass.share(i);
    const WholeRow row = sum_over_places(*this, pass.in + i * inputs_, delta, scratch,
                                         pass.whole.get() + i * weight_count());
    float* biases = pass.kept.get() + i * bias_count();
    sum_errors(delta, biases);
    share.step = row.step;
    share.largest_whole = row.largest;
    share.squared_norm =
        norm_or_nan(row.squares * (row.step * row.step) + sum_of_squares(biases, bias_count()));
  }
}

void ConvStep::make_cells(std::size_t pair, const bool*, StepPass& pass, Wide* squares) const {
  for_each_of_pair(pair, pass, squares, [&](std::size_t row, Wide& square) {
    Share& share = pass.share(row);
    const float factor = place_factor(share);
    share.largest_cell =
        static_cast<std::uint32_t>(std::min(factor * share.largest_whole, 0x1p30f));
    square += truncated_squares(factor, pass.whole.get() + row * weight_count(), weight_count());
    square += truncated_squares(truncating_scale(share), pass.kept.get() + row * bias_count(),
                                bias_count());
  });
}

void ConvStep::choose(std::span<const std::uint8_t>, StepPass& pass) const {
  pass.runs = find_runs(pass);
}

/// The last piece adds all biases, even if some are in the range of the piece before it.
std::vector<Piece> ConvStep::pieces() const {
  std::vector<Piece> pieces;
  cut(parameter_count_, kRowPiece, [&](std::size_t first, std::size_t end) {
    pieces.push_back(
        {.first = first, .end = end, .until = end > weight_count() ? parameter_count_ : end});
  });
  return pieces;
}

void ConvStep::add_cells(const Piece& piece, std::span<const std::uint8_t> taken,
                         const StepPass& pass, const Target& target) const {
  const std::size_t weights = weight_count();
  const std::size_t count = std::min(piece.end, weights) - std::min(piece.first, weights);
  std::array<std::int32_t, kRowPiece> sums;
  for (const Run& run : pass.runs) {
    std::fill_n(sums.begin(), count, 0);
    for_each_chosen(
        2 * run.first, std::min(2 * run.end, pass.rows), taken, pass, [&](std::size_t row) {
          add_truncated(place_factor(pass.share(row)),
                        pass.whole.get() + row * weights + piece.first, count, sums.data());
        });
    add_whole(sums.data(), count, target.at(piece.first));
  }
  if (piece.end < parameter_count_) return;
  for_each_chosen(0, pass.rows, taken, pass, [&](std::size_t row) {
    add_truncated(truncating_scale(pass.share(row)), pass.kept.get() + row * bias_count(),
                  bias_count(), target.at(weights));
  });
}

}  // namespace privgrad::cpu
