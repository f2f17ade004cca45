// Dense layers: products for a whole batch, and cells that are products of integers.
#include "layers/dense.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "chains.hpp"
#include "layers/convolution.hpp"
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

/// How many units, or inputs, of a product one task computes.
constexpr std::size_t kTileColumns = 240;
/// How many examples of a backward product one task computes.
constexpr std::size_t kTileRows = 96;
/// How many biases one task adds up.
constexpr std::size_t kBiasPiece = 1024;

/// The share by which a product is shrunk before its factors are rounded to nearest, so that the
/// rounded product is rarely too long. For 2^26 cells, a factor is about 2^13 long (longer if the
/// other is shorter); if its rounding errors behave like random ones, they change its length by
/// less than 1, a share of 2^-13. In a few products, flat or with one dominating number, all
/// rounding errors have one direction; these products are rounded again.
constexpr double kMargin = 0x1p-11;

/// Returns the rounding of the biases, whose gradient is the error itself.
Rounding bias_rounding(const Share& share) {
  return make_rounding(truncating_scale(share), share.error, true);
}

/// Calls body(element, shift) for each int16 of an example in an operand; the int16 is the half of
/// the element that begins at bit `shift`.
template <class Body>
void for_each_number(std::size_t units, std::size_t pairs, std::size_t row, std::uint32_t* operand,
                     const Body& body) {
  for (std::size_t unit = 0; unit < units; ++unit) {
    const std::size_t tile = unit / kUnitTile;
    body(operand[(tile * pairs + row / 2) * kUnitTile + unit % kUnitTile], row % 2 * 16);
  }
}

}  // namespace

/// At several places, the layer is a convolution with kernel 1 over an image of one row: its
/// gradient is a sum over the places.
std::unique_ptr<Step> step_of(const Dense& layer, const Place& place) {
  const std::size_t places =
      layer.per_place ? element_count(place.in()) / place.in().back() : std::size_t{1};
  if (places > 1) {
    return std::make_unique<ConvStep>(
        Conv2d{.channels = layer.units, .kernel = 1, .no_bias = layer.no_bias},
        Shape{1, places, place.in().back()}, Shape{1, places, layer.units});
  }
  return std::make_unique<DenseStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Dense&, const Place&);

DenseStep::DenseStep(const Dense& layer, const Shape& in, const Shape& out)
    : Step(in, out), has_biases_(!layer.no_bias) {
  parameter_count_ = element_count({outputs_, inputs_}) + (has_biases_ ? outputs_ : 0);
  zeros_.resize(std::max(inputs_, outputs_));
}

// --- Blocks of examples.

void DenseStep::forward(std::size_t count, Values in, float* out, Scratch& scratch) const {
  float* panel = at_least(scratch.panel, inputs_ * kPanel);
  for (std::size_t first = 0; first < count; first += kPanel) {
    const std::size_t rows = std::min(kPanel, count - first);
    pack_panel(rows, inputs_, in[0] + first * inputs_, panel);
    multiply_panel(rows, outputs_, inputs_, panel, weights(), biases(), out + first * outputs_,
                   outputs_);
  }
}

void DenseStep::backward(std::size_t count, Values, const float*, const float* delta, Below below,
                         Scratch&) const {
  multiply_chains(count, inputs_, outputs_, {delta, outputs_, 1}, weights(), inputs_, {}, below[0],
                  inputs_);
}

void DenseStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                              std::size_t stride, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i) {
    const float* entering = in + i * inputs_;
    const float* deltas = delta + i * outputs_;
    float* weights = rows + i * stride;
    for (std::size_t j = 0; j < outputs_; ++j, weights += inputs_) {
      for (std::size_t k = 0; k < inputs_; ++k) weights[k] = deltas[j] * entering[k];
    }
    if (has_biases_) std::copy_n(deltas, outputs_, weights);
  }
}

// --- Whole batches.

void DenseStep::forward_batch(const WholeBatch& batch, const StepPass& pass, float* out) const {
  batch.tasks.for_each_block(pass.rows, kPanel, [&](std::size_t first, std::size_t count) {
    pack_panel(count, inputs_, pass.in + first * inputs_, batch.panels + first * inputs_);
  });
  batch.tasks.for_each_tile(
      pass.rows, kPanel, outputs_, kTileColumns,
      [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
        float* tile = out + row * outputs_ + column;
        multiply_panel(rows, columns, inputs_, batch.panels + row * inputs_,
                       weights() + column * inputs_, biases() + column, tile, outputs_);
        if (batch.function == nullptr) return;
        for (std::size_t i = 0; i < rows; ++i) {
          batch.function->apply(tile + i * outputs_, columns, tile + i * outputs_);
        }
      });
}

void DenseStep::backward_batch(const WholeBatch& batch, const StepPass& pass, const float* out,
                               float* errors, float* below) const {
  batch.tasks.for_each_block(pass.rows, kExactBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      const float* in = pass.in + i * inputs_;
      float* own = errors + i * outputs_;
      if (batch.function != nullptr) batch.function->hand_down(out + i * outputs_, outputs_, own);
      if (pass.shares == nullptr) continue;
      Share& share = pass.share(i);
      share.input = largest_size(in, inputs_);
      share.error = largest_size(own, outputs_);
      // || delta a^T ||^2 + || delta ||^2: the squared norms of the gradients of weights and
      // biases.
      const double of_bias = has_biases_ ? 1.0 : 0.0;
      share.squared_norm =
          norm_or_nan((sum_of_squares(in, inputs_) + of_bias) * sum_of_squares(own, outputs_));
    }
  });
  if (below == nullptr) return;
  batch.tasks.for_each_tile(
      pass.rows, kTileRows, inputs_, kTileColumns,
      [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
        multiply_chains(rows, columns, outputs_, {errors + row * outputs_, outputs_, 1},
                        weights() + column, inputs_, {}, below + row * inputs_ + column, inputs_);
      });
}

// --- Cells.

void DenseStep::allocate(StepPass& pass) const {
  pass.units = std::make_unique_for_overwrite<std::uint32_t[]>(
      operand_size(outputs_, kUnitTile, pass.pairs()));
  pass.inputs = std::make_unique_for_overwrite<std::uint32_t[]>(
      operand_size(inputs_, kInputTile, pass.pairs()));
}

DenseStep::Roundings DenseStep::round_example(std::size_t row, bool truncates,
                                              const StepPass& pass) const {
  Roundings roundings;
  Share& share = pass.share(row);
  const auto input = static_cast<double>(share.input);
  const auto error = static_cast<double>(share.error);
  const double scale = share.scale * (1.0 - (truncates ? kRoundingMargin : kMargin));
  const double root = std::sqrt(scale * (input * error));
  if (input > 0.0) roundings.of_inputs = make_rounding(root / input, share.input, truncates);
  if (error > 0.0) roundings.of_units = make_rounding(root / error, share.error, truncates);
  share.largest_cell = static_cast<std::uint32_t>(round_one(share.input, roundings.of_inputs) *
                                                  round_one(share.error, roundings.of_units));
  if (!has_biases_) return roundings;
  const Rounding of_bias = bias_rounding(share);
  share.largest_cell =
      std::max(share.largest_cell, static_cast<std::uint32_t>(round_one(share.error, of_bias)));
  roundings.bias_squares = rounded_squares(of_bias, pass.errors + row * outputs_, outputs_);
  return roundings;
}

/// Makes a pair's operands.
void DenseStep::make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                           Wide* squares) const {
  const std::size_t pairs = pass.pairs();
  const float* in[2] = {zeros_.data(), zeros_.data()};
  const float* delta[2] = {zeros_.data(), zeros_.data()};
  Roundings of[2];
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows; ++half) {
    const std::size_t row = 2 * pair + half;
    pass.share(row).largest_cell = 0;
    if (pass.share(row).scale == 0.0) continue;
    in[half] = pass.in + row * inputs_;
    delta[half] = pass.errors + row * outputs_;
    of[half] = round_example(row, truncates[half], pass);
  }
  const PairSquares a =
      round_pair_inputs(in[0], in[1], of[0].of_inputs, of[1].of_inputs, inputs_,
                        pass.inputs.get() + pair * kInputTile, pairs * kInputTile);
  const PairSquares d =
      round_pair_units(delta[0], delta[1], of[0].of_units, of[1].of_units, outputs_,
                       pass.units.get() + pair * kUnitTile, pairs * kUnitTile);
  squares[0] += Wide{a.first} * d.first + of[0].bias_squares;
  squares[1] += Wide{a.second} * d.second + of[1].bias_squares;
}

/// Saves the units of examples that are left out, and sets them to 0.
void DenseStep::choose(std::span<const std::uint8_t> taken, StepPass& pass) const {
  pass.taken_out.clear();
  for (std::size_t row = 0; row < pass.rows; ++row) {
    if (taken[row] != 0) continue;
    for_each_number(outputs_, pass.pairs(), row, pass.units.get(),
                    [&](std::uint32_t& number, std::size_t shift) {
                      pass.taken_out.push_back(static_cast<std::uint16_t>(number >> shift));
                      number &= ~(0xffffu << shift);
                    });
  }
  pass.runs = find_runs(pass);
}

void DenseStep::undo_choice(std::span<const std::uint8_t> taken, StepPass& pass) const {
  auto next = pass.taken_out.begin();
  for (std::size_t row = 0; row < pass.rows && next != pass.taken_out.end(); ++row) {
    if (taken[row] != 0) continue;
    for_each_number(outputs_, pass.pairs(), row, pass.units.get(),
                    [&](std::uint32_t& number, std::size_t shift) {
                      number |= std::uint32_t{*next++} << shift;
                    });
  }
  pass.taken_out.clear();
}

// --- Sums.

/// A piece has the product's units [first, end) and inputs [left, right); if right is 0, the biases
/// [first, end).
std::vector<Piece> DenseStep::pieces() const {
  std::vector<Piece> pieces;
  const std::size_t units = (outputs_ + kUnitTile - 1) / kUnitTile;
  const std::size_t inputs = (inputs_ + kInputTile - 1) / kInputTile;
  // A piece has whole rows of weights, unless there are few units.
  const std::size_t across = units < 8 ? std::min<std::size_t>(inputs, 4) : inputs;
  const std::size_t down =
      std::max<std::size_t>(1, kProductPiece / (across * kUnitTile * kInputTile));
  cut(units, down, [&](std::size_t first, std::size_t end) {
    const std::size_t until = std::min(end * kUnitTile, outputs_) * inputs_;
    cut(inputs, across, [&](std::size_t left, std::size_t right) {
      pieces.push_back({first, end, left, right, until});
    });
  });
  cut(has_biases_ ? outputs_ : 0, kBiasPiece, [&](std::size_t first, std::size_t end) {
    pieces.push_back({first, end, 0, 0, inputs_ * outputs_ + end});
  });
  return pieces;
}

void DenseStep::add_cells(const Piece& piece, std::span<const std::uint8_t> taken,
                          const StepPass& pass, const Target& target) const {
  if (piece.right == 0) return add_biases(piece, taken, pass, target);
  add_products(piece, pass, target);
}

void DenseStep::add_products(const Piece& piece, const StepPass& pass, const Target& target) const {
  const std::size_t pairs = pass.pairs();
  alignas(64) std::int32_t products[kUnitTile * kInputTile];
  for (std::size_t down = piece.first; down < piece.end; ++down) {
    const std::size_t unit = down * kUnitTile;
    const std::size_t rows = std::min(kUnitTile, outputs_ - unit);
    for (std::size_t across = piece.left; across < piece.right; ++across) {
      const std::size_t input = across * kInputTile;
      const std::size_t columns = std::min(kInputTile, inputs_ - input);
      std::int64_t* const weights = target.at(unit * inputs_ + input);
      fetch_tile(rows, columns, weights, inputs_);
      for (const Run& run : pass.runs) {
        multiply_pairs(rows, columns, run.end - run.first,
                       pass.units.get() + (down * pairs + run.first) * kUnitTile,
                       pass.inputs.get() + (across * pairs + run.first) * kInputTile, products,
                       kInputTile);
        add_tile(rows, columns, products, weights, inputs_);
      }
    }
  }
}

void DenseStep::add_biases(const Piece& piece, std::span<const std::uint8_t> taken,
                           const StepPass& pass, const Target& target) const {
  const std::size_t count = piece.end - piece.first;
  std::array<std::int32_t, kBiasPiece> sums;
  for (const Run& run : pass.runs) {
    std::fill_n(sums.begin(), count, 0);
    for_each_chosen(2 * run.first, std::min(2 * run.end, pass.rows), taken, pass,
                    [&](std::size_t row) {
                      add_rounded(bias_rounding(pass.share(row)),
                                  pass.errors + row * outputs_ + piece.first, count, sums.data());
                    });
    add_whole(sums.data(), count, target.at(inputs_ * outputs_ + piece.first));
  }
}

}  // namespace privgrad::cpu
