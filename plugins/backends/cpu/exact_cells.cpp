// Cells of ExactEngine, their lengths, and their sums in pieces of the parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cells.hpp"
#include "exact.hpp"
#include "exact_task.hpp"

namespace privgrad::cpu {
namespace {

/// The share by which a product is shrunk before its factors are rounded to nearest, so that it is
/// rarely longer than was asked for. Of 2^26 cells, a factor is some 2^13 long (more, the shorter
/// the other is); where its roundings are as good as random they change that by less than 1, 2^-13
/// of it. The few whose roundings all go one way (flat ones, or with one number that matters) are
/// rounded again.
constexpr double kMargin = 0x1p-11;

/// The share by which truncated numbers are shrunk. Truncation cannot lengthen, but products in
/// floating point are rounded before it: two roundings to float32 for each factor of a product, of
/// 2^-24 each, and a few to double. Together less than 2^-20.
constexpr double kRoundingMargin = 0x1p-20;

constexpr std::uint64_t kMostSum = std::numeric_limits<std::int32_t>::max();

}  // namespace

// --- Cells.

/// Cells for each of the whole numbers that a convolution's gradient was made of.
float ExactEngine::place_factor(const ExactPass::Share& share) {
  return static_cast<float>(share.scale * (1.0 - kRoundingMargin) * share.step);
}

void ExactEngine::make_cells(ExactPass& pass, std::span<const double> scales,
                             std::uint64_t most_cells, std::span<SquaredLength> lengths) const {
  constexpr std::size_t kPairs = 4;
  const Wide most = Wide{most_cells} * most_cells;
  pass.taken_out_.clear();  // of other cells
  pass.taken_.clear();
  for_each_block(pass.rows(), 2 * kPairs, [&](std::size_t first, std::size_t count) {
    choose_scales(pass, scales, most_cells, first, count);
    for (std::size_t row = first; row < first + count; row += 2) {
      make_pair(pass, row / 2, most, lengths);
    }
  });
}

/// A gradient that is not finite, or none, has no cells; and no group's scale makes it longer than
/// most_cells, whatever was asked for.
void ExactEngine::choose_scales(ExactPass& pass, std::span<const double> scales,
                                std::uint64_t most_cells, std::size_t first,
                                std::size_t count) const {
  for (std::size_t i = first * groups(); i < (first + count) * groups(); ++i) {
    ExactPass::Share& share = pass.shares_[i];
    share.scale = 0.0;
    share.largest_cell = 0;
    if (!(share.squared_norm > 0.0)) continue;  // a NaN is not
    share.scale =
        std::min(scales[i], static_cast<double>(most_cells) / std::sqrt(share.squared_norm));
  }
}

/// The rounding of a dense layer's biases, whose gradient is the error itself.
Rounding ExactEngine::bias_rounding(const ExactPass::Share& share) {
  return make_rounding(share.scale * (1.0 - kRoundingMargin), share.error, true);
}

/// Makes a pair's operands in one group and adds their squared lengths, biases included.
/// \param truncates  [2]: of each example, whether its numbers are truncated.
/// \param squares  [2].
void ExactEngine::round_pair(ExactPass& pass, std::size_t group, std::size_t pair,
                             const bool* truncates, Wide* squares) const {
  const std::size_t s = group_steps_[group];
  const std::size_t inputs = steps_[s]->inputs();
  const std::size_t units = steps_[s]->outputs();
  const std::size_t pairs = (pass.most_rows_ + 1) / 2;
  const float* in[2] = {zeros_.data(), zeros_.data()};
  const float* delta[2] = {zeros_.data(), zeros_.data()};
  Rounding of_inputs[2], of_units[2];
  Wide of_biases[2] = {};
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows(); ++half) {
    const std::size_t row = 2 * pair + half;
    ExactPass::Share& share = pass.share(row, group);
    share.largest_cell = 0;
    if (share.scale == 0.0) continue;
    const auto input = static_cast<double>(share.input);
    const auto error = static_cast<double>(share.error);
    const double scale = share.scale * (1.0 - (truncates[half] ? kRoundingMargin : kMargin));
    const double root = std::sqrt(scale * (input * error));
    in[half] = pass.entering_[s] + row * inputs;
    delta[half] = errors(pass, s) + row * units;
    if (input > 0.0) of_inputs[half] = make_rounding(root / input, share.input, truncates[half]);
    if (error > 0.0) of_units[half] = make_rounding(root / error, share.error, truncates[half]);
    const Rounding of_bias = bias_rounding(share);
    share.largest_cell = static_cast<std::uint32_t>(
        std::max(round_one(share.input, of_inputs[half]) * round_one(share.error, of_units[half]),
                 round_one(share.error, of_bias)));
    of_biases[half] = rounded_squares(of_bias, delta[half], units);
  }
  ExactPass::Operands& operands = pass.operands_[group];
  const PairSquares a =
      round_pair_inputs(in[0], in[1], of_inputs[0], of_inputs[1], inputs,
                        operands.inputs.get() + pair * kInputTile, pairs * kInputTile);
  const PairSquares d =
      round_pair_units(delta[0], delta[1], of_units[0], of_units[1], units,
                       operands.units.get() + pair * kUnitTile, pairs * kUnitTile);
  squares[0] += Wide{a.first} * d.first + of_biases[0];
  squares[1] += Wide{a.second} * d.second + of_biases[1];
}

void ExactEngine::make_pair(ExactPass& pass, std::size_t pair, Wide most,
                            std::span<SquaredLength> lengths) const {
  Wide rows_squares[2] = {};
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows(); ++half) {
    const std::size_t row = 2 * pair + half;
    for (std::size_t group = 0; group < groups(); ++group) {
      const std::size_t s = group_steps_[group];
      const double scale = pass.share(row, group).scale * (1.0 - kRoundingMargin);
      if (scale == 0.0) continue;
      const std::size_t parameters = steps_[s]->parameter_count();
      if (cells_by_[s] == CellsBy::places) {
        const std::size_t channels = conv(s).channels();
        const std::size_t weights = parameters - channels;
        const float factor = place_factor(pass.share(row, group));
        ExactPass::Share& share = pass.share(row, group);
        share.largest_cell =
            static_cast<std::uint32_t>(std::min(factor * share.largest_whole, 0x1p30f));
        rows_squares[half] +=
            truncated_squares(factor, pass.whole_[s].get() + row * weights, weights);
        rows_squares[half] +=
            truncated_squares(scale, pass.kept_[s].get() + row * channels, channels);
      } else if (cells_by_[s] == CellsBy::rows) {
        rows_squares[half] +=
            truncated_squares(scale, pass.kept_[s].get() + row * parameters, parameters);
      } else if (cells_by_[s] == CellsBy::tokens) {
        static_cast<const EmbeddingStep&>(*steps_[s])
            .for_each_row(pass.entering_[s] + row * steps_[s]->inputs(),
                          pass.kept_[s].get() + row * steps_[s]->outputs(),
                          [&](std::size_t, std::span<const float> gradient) {
                            rows_squares[half] +=
                                truncated_squares(scale, gradient.data(), gradient.size());
                          });
      }
    }
  }
  Wide squares[2] = {};
  bool truncates[2] = {false, false};
  const auto round_all = [&] {
    std::copy_n(rows_squares, 2, squares);
    for (std::size_t group = 0; group < groups(); ++group) {
      if (cells_by_[group_steps_[group]] == CellsBy::product) {
        round_pair(pass, group, pair, truncates, squares);
      }
    }
  };
  round_all();
  if (squares[0] > most || squares[1] > most) {
    truncates[0] = squares[0] > most;
    truncates[1] = squares[1] > most;
    round_all();
  }
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows(); ++half) {
    lengths[2 * pair + half] = {static_cast<std::uint64_t>(squares[half] >> 64),
                                static_cast<std::uint64_t>(squares[half])};
  }
}

// --- Sums.

void ExactEngine::choose(ExactPass& pass, std::span<const std::uint8_t> taken) const {
  put_back(pass);
  pass.taken_.assign(taken.begin(), taken.end());
  take_out(pass);
  pass.runs_.resize(groups());
  for (std::size_t group = 0; group < groups(); ++group) {
    const CellsBy by = cells_by_[group_steps_[group]];
    if (by == CellsBy::product || by == CellsBy::places) pass.runs_[group] = runs(pass, group);
  }
}

void ExactEngine::add_cells(ExactPass& pass, std::span<std::int64_t> sum) const {
  executor_.for_each_chunk(pass.rows() == 0 ? 0 : pieces_.size(), [&](std::size_t i) {
    sum_piece(pieces_[i], pass, {sum, 0});
  });
}

void ExactEngine::add_range(ExactPass& pass, std::size_t range, std::span<std::int64_t> sum) const {
  if (pass.rows() == 0) return;
  const Target target{sum, range == 0 ? 0 : range_ends_[range - 1]};
  for (std::size_t i = range == 0 ? 0 : range_pieces_[range - 1]; i < range_pieces_[range]; ++i) {
    sum_piece(pieces_[i], pass, target);
  }
}

void ExactEngine::sum_piece(const Piece& piece, ExactPass& pass, const Target& target) const {
  switch (cells_by_[piece.step]) {
    case CellsBy::nothing:
      return;
    case CellsBy::product:
      if (piece.right == 0) return sum_biases(piece, pass, target);
      return sum_product(piece, pass, target);
    case CellsBy::places:
      return sum_places(piece, pass, target);
    case CellsBy::rows:
      return sum_rows(piece, pass, target);
    case CellsBy::tokens:
      return sum_tokens(piece, pass, target);
  }
}

namespace {

/// Calls body with the place of each int16 of an example in an operand of units.
template <class Body>
void for_each_number(std::size_t units, std::size_t pairs, std::size_t row, std::uint32_t* operand,
                     const Body& body) {
  for (std::size_t unit = 0; unit < units; ++unit) {
    const std::size_t tile = unit / kUnitTile;
    body(operand[(tile * pairs + row / 2) * kUnitTile + unit % kUnitTile], row % 2 * 16);
  }
}

}  // namespace

/// Sets the units of examples that are not taken to 0, and notes what they were.
void ExactEngine::take_out(ExactPass& pass) const {
  const std::size_t pairs = (pass.most_rows_ + 1) / 2;
  for (std::size_t row = 0; row < pass.rows(); ++row) {
    for (std::size_t group = 0; group < groups() && pass.taken_[row] == 0; ++group) {
      if (cells_by_[group_steps_[group]] != CellsBy::product) continue;
      for_each_number(steps_[group_steps_[group]]->outputs(), pairs, row,
                      pass.operands_[group].units.get(),
                      [&](std::uint32_t& number, std::size_t shift) {
                        pass.taken_out_.push_back(static_cast<std::uint16_t>(number >> shift));
                        number &= ~(0xffffu << shift);
                      });
    }
  }
}

void ExactEngine::put_back(ExactPass& pass) const {
  const std::size_t pairs = (pass.most_rows_ + 1) / 2;
  auto next = pass.taken_out_.begin();
  for (std::size_t row = 0; row < pass.rows() && next != pass.taken_out_.end(); ++row) {
    for (std::size_t group = 0; group < groups() && pass.taken_[row] == 0; ++group) {
      if (cells_by_[group_steps_[group]] != CellsBy::product) continue;
      for_each_number(steps_[group_steps_[group]]->outputs(), pairs, row,
                      pass.operands_[group].units.get(),
                      [&](std::uint32_t& number, std::size_t shift) {
                        number |= std::uint32_t{*next++} << shift;
                      });
    }
  }
  pass.taken_out_.clear();
}

/// As long as they can be: a sum of an element's products is at most that of the largest ones.
std::vector<ExactEngine::Run> ExactEngine::runs(ExactPass& pass, std::size_t group) const {
  std::vector<Run> found;
  const std::size_t pairs = (pass.rows() + 1) / 2;
  std::uint64_t sum = 0;
  std::size_t first = 0;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    std::uint64_t largest = pass.share(2 * pair, group).largest_cell;
    if (2 * pair + 1 < pass.rows()) largest += pass.share(2 * pair + 1, group).largest_cell;
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

void ExactEngine::sum_product(const Piece& piece, ExactPass& pass, const Target& target) const {
  const std::vector<Run>& runs = pass.runs_[group_of_[piece.step]];
  const std::size_t s = piece.step;
  const std::size_t inputs = steps_[s]->inputs();
  const std::size_t units = steps_[s]->outputs();
  const std::size_t pairs = (pass.most_rows_ + 1) / 2;
  const ExactPass::Operands& operands = pass.operands_[group_of_[s]];
  alignas(64) std::int32_t products[kUnitTile * kInputTile];
  for (std::size_t down = piece.first; down < piece.end; ++down) {
    const std::size_t unit = down * kUnitTile;
    const std::size_t rows = std::min(kUnitTile, units - unit);
    for (std::size_t across = piece.left; across < piece.right; ++across) {
      const std::size_t input = across * kInputTile;
      const std::size_t columns = std::min(kInputTile, inputs - input);
      std::int64_t* const weights = target.at(steps_[s]->offset() + unit * inputs + input);
      fetch_tile(rows, columns, weights, inputs);
      for (const Run& run : runs) {
        multiply_pairs(rows, columns, run.end - run.first,
                       operands.units.get() + (down * pairs + run.first) * kUnitTile,
                       operands.inputs.get() + (across * pairs + run.first) * kInputTile, products,
                       kInputTile);
        add_tile(rows, columns, products, weights, inputs);
      }
    }
  }
}

void ExactEngine::sum_biases(const Piece& piece, ExactPass& pass, const Target& target) const {
  const std::size_t s = piece.step;
  const std::size_t units = steps_[s]->outputs();
  const std::size_t count = piece.end - piece.first;
  const std::size_t biases = steps_[s]->offset() + units * steps_[s]->inputs();
  std::array<std::int32_t, kBiasPiece> sums;
  for (const Run& run : pass.runs_[group_of_[s]]) {
    std::fill_n(sums.begin(), count, 0);
    for (std::size_t row = 2 * run.first; row < std::min(2 * run.end, pass.rows()); ++row) {
      const ExactPass::Share& share = pass.share(row, group_of_[s]);
      if (pass.taken_[row] == 0 || share.scale == 0.0) continue;
      add_rounded(bias_rounding(share), errors(pass, s) + row * units + piece.first, count,
                  sums.data());
    }
    add_whole(sums.data(), count, target.at(biases + piece.first));
  }
}

void ExactEngine::sum_rows(const Piece& piece, ExactPass& pass, const Target& target) const {
  const std::size_t s = piece.step;
  const std::size_t parameters = steps_[s]->parameter_count();
  for (std::size_t row = 0; row < pass.rows(); ++row) {
    const double scale = pass.share(row, group_of_[s]).scale * (1.0 - kRoundingMargin);
    if (pass.taken_[row] == 0 || scale == 0.0) continue;
    add_truncated(scale, pass.kept_[s].get() + row * parameters + piece.first,
                  piece.end - piece.first, target.at(steps_[s]->offset() + piece.first));
  }
}

void ExactEngine::sum_places(const Piece& piece, ExactPass& pass, const Target& target) const {
  const std::size_t s = piece.step;
  const std::size_t group = group_of_[s];
  const std::size_t channels = conv(s).channels();
  const std::size_t weights = steps_[s]->parameter_count() - channels;
  const std::size_t offset = steps_[s]->offset();
  const std::size_t count = std::min(piece.end, weights) - std::min(piece.first, weights);
  std::array<std::int32_t, kRowPiece> sums;
  for (const Run& run : pass.runs_[group]) {
    std::fill_n(sums.begin(), count, 0);
    for (std::size_t row = 2 * run.first; row < std::min(2 * run.end, pass.rows()); ++row) {
      if (pass.taken_[row] == 0 || pass.share(row, group).scale == 0.0) continue;
      add_truncated(place_factor(pass.share(row, group)),
                    pass.whole_[s].get() + row * weights + piece.first, count, sums.data());
    }
    add_whole(sums.data(), count, target.at(offset + piece.first));
  }
  if (piece.end < weights + channels) return;
  for (std::size_t row = 0; row < pass.rows(); ++row) {
    const double scale = pass.share(row, group).scale * (1.0 - kRoundingMargin);
    if (pass.taken_[row] == 0 || scale == 0.0) continue;
    add_truncated(scale, pass.kept_[s].get() + row * channels, channels,
                  target.at(offset + weights));
  }
}

void ExactEngine::sum_tokens(const Piece& piece, ExactPass& pass, const Target& target) const {
  const std::size_t s = piece.step;
  const auto& step = static_cast<const EmbeddingStep&>(*steps_[s]);
  for (std::size_t row = 0; row < pass.rows(); ++row) {
    const double scale = pass.share(row, group_of_[s]).scale * (1.0 - kRoundingMargin);
    if (pass.taken_[row] == 0 || scale == 0.0) continue;
    step.for_each_row(
        pass.entering_[s] + row * step.inputs(), pass.kept_[s].get() + row * step.outputs(),
        [&](std::size_t first, std::span<const float> gradient) {
          add_truncated(scale, gradient.data(), gradient.size(), target.at(step.offset() + first));
        });
  }
}

}  // namespace privgrad::cpu
