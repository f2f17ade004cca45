// The engine for exact clipping: norms, whole-number contributions and their sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cells.hpp"
#include "layer_steps.hpp"
#include "privgrad/backend.hpp"

namespace privgrad::cpu {

/// Holds squared lengths, which 64 bits do not.
__extension__ using Wide = unsigned __int128;

/// How a layer's parameters get their cells.
enum class CellsBy {
  nothing = 1,  ///< No parameters.
  product,      ///< Dense: products of whole numbers, of the inputs and of the errors.
  places,       ///< Convolutions: each example's gradient is kept as int16 numbers, that of its
                ///< biases as floats, and truncated where it is used.
  rows,         ///< Each example's gradient is kept as floats, and truncated where it is used.
  tokens,       ///< Embedding: rows of the table, for the tokens that occur, truncated.
};

class ExactPass final : public ExactClipping::Pass {
 public:
  std::size_t most_rows() const noexcept { return most_rows_; }
  std::size_t rows() const noexcept { return batch_.rows(); }
  std::size_t chosen_rows() const noexcept { return taken_.size(); }  ///< As set by choose().

 private:
  friend class ExactEngine;
  using Memory = std::unique_ptr<float[]>;
  class Lease;

  /// The data kept for an example in a group between two calls.
  struct Share {
    double squared_norm = 0.0;
    double scale = 0.0;                // of make_cells(), 0 where there is nothing to add
    float input = 0.0f, error = 0.0f;  // of a product: the largest sizes
    double step = 0.0;                 // of a convolution's whole numbers
    float largest_whole = 0.0f;        // of these
    std::uint32_t largest_cell = 0;    // of a dense layer, or no less, of a convolution
  };

  /// A product's operands.
  struct Operands {
    std::unique_ptr<std::uint32_t[]> units, inputs;
  };

  /// Pairs of examples whose products stay within int32 together.
  struct Run {
    std::size_t first, end;
  };

  Share& share(std::size_t row, std::size_t group) { return shares_[row * groups_ + group]; }

  std::size_t most_rows_ = 0, groups_ = 0;
  Batch batch_;
  std::vector<Memory> storage_;         // of step s's outputs; empty where they share memory
  std::vector<const float*> entering_;  // [steps + 1]; the last are the outputs
  std::vector<float*> leaving_;         // [steps]
  std::vector<Memory> deltas_;          // by the outputs of stage k
  std::vector<Memory> added_;           // by what enters step s, as shortcuts hand it down
  std::vector<Memory> kept_;            // of step s: its rows, or its deltas
  std::vector<std::unique_ptr<std::int16_t[]>> whole_;  // of convolution s: its rows
  Memory panels_;                                       // of the examples that enter a dense layer
  std::vector<Operands> operands_;                      // of group g
  std::vector<Share> shares_;                           // [rows, groups]
  std::vector<std::uint8_t> taken_;                     // [rows], of choose()
  std::vector<std::uint16_t> taken_out_;                // the units of those that are not
  std::vector<std::vector<Run>> runs_;                  // of group g
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

/// Norms, cells and their sums by one forward and one backward pass over a batch. An example's
/// results are a function of the example alone (chains.hpp, cells.hpp): no place, neighbour, thread
/// or instruction set changes a bit of them.
///
/// Dense layers work on the whole batch in tiles; the layers between them take blocks of a few
/// examples through all of them while they are in the cache.
///
/// exact.cpp plans the work from the network, exact_passes.cpp computes outputs, norms and errors,
/// exact_cells.cpp makes cells and adds them up.
class ExactEngine {
 public:
  ExactEngine(const Network& network, const Shortcuts& shortcuts,
              const std::vector<std::unique_ptr<Step>>& steps, Executor& executor);

  std::size_t groups() const noexcept { return group_steps_.size(); }
  std::size_t microbatch_rows() const noexcept { return microbatch_rows_; }

  std::unique_ptr<ExactPass> make_pass(std::size_t most_rows) const;
  std::unique_ptr<ExactPass> make_forward_pass(std::size_t most_rows) const;

  /// \returns the outputs, [rows, outputs]; valid until the pass is used again.
  const float* forward(const Batch& batch, ExactPass& pass) const;
  void backward(const Batch& batch, ExactPass& pass, std::span<double> squared_norms) const;
  void make_cells(ExactPass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const;
  /// The choice stays until another choice, or other cells.
  void choose(ExactPass& pass, std::span<const std::uint8_t> taken) const;
  /// Adds the cells of the chosen examples.
  void add_cells(ExactPass& pass, std::span<std::int64_t> sum) const;

  /// The same in ranges of the parameters, each on the calling thread.
  std::span<const std::size_t> range_ends() const noexcept { return range_ends_; }
  void add_range(ExactPass& pass, std::size_t range, std::span<std::int64_t> sum) const;

 private:
  /// Steps that are executed together: a dense layer with the activation after it, or others.
  struct Stage {
    std::size_t first = 0, last = 0;  // steps [first, last)
    bool is_dense = false;
  };

  /// One piece of the sum: of a product, tiles of units [first, end) and of inputs [left, right),
  /// or where right is 0 biases [first, end); of others, parameters [first, end) of the step.
  struct Piece {
    std::size_t step, first, end, left, right;
  };

  /// The sum of the parameters from `first` on.
  struct Target {
    std::span<std::int64_t> sum;
    std::size_t first;
    std::int64_t* at(std::size_t parameter) const { return sum.data() + (parameter - first); }
  };

  using Run = ExactPass::Run;

  void make_stages();
  void choose_cells();
  void choose_rows();
  void add_pieces(std::size_t step);
  void make_ranges();
  std::size_t end_of(const Piece& piece) const;
  bool is_shortcut(std::size_t step) const { return shortcuts_.source_of[step] != step; }
  const DenseStep& dense(std::size_t step) const;
  const ConvStep& conv(std::size_t step) const;  // or the projection of a shortcut
  bool shares_memory(std::size_t step) const;
  const float* errors(const ExactPass& pass, std::size_t step) const;

  void for_each_block(std::size_t rows, std::size_t block,
                      const std::function<void(std::size_t, std::size_t)>& body) const;
  void for_each_tile(
      std::size_t rows, std::size_t tile_rows, std::size_t columns, std::size_t tile_columns,
      const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const;

  void dense_forward(const Stage& stage, ExactPass& pass) const;
  void block_forward(const Stage& stage, ExactPass& pass) const;
  void dense_backward(std::size_t stage, ExactPass& pass) const;
  void block_backward(std::size_t stage, ExactPass& pass) const;
  float* step_backward(std::size_t step, ExactPass& pass, std::size_t first, std::size_t count,
                       float* delta, float* below, Scratch& scratch) const;
  void shortcut_backward(std::size_t step, ExactPass& pass, std::size_t first, std::size_t count,
                         const float* delta, Scratch& scratch) const;
  void add_from_shortcuts(std::size_t step, const ExactPass& pass, std::size_t first,
                          std::size_t count, float* delta) const;
  void conv_backward(std::size_t step, ExactPass& pass, std::size_t first, std::size_t count,
                     const float* delta, float* below, Scratch& scratch) const;

  void choose_scales(ExactPass& pass, std::span<const double> scales, std::uint64_t most_cells,
                     std::size_t first, std::size_t count) const;
  void round_pair(ExactPass& pass, std::size_t group, std::size_t pair, const bool* truncates,
                  Wide* squares) const;
  void make_pair(ExactPass& pass, std::size_t pair, Wide most,
                 std::span<SquaredLength> lengths) const;
  void take_out(ExactPass& pass) const;
  void put_back(ExactPass& pass) const;
  static Rounding bias_rounding(const ExactPass::Share& share);
  static float place_factor(const ExactPass::Share& share);
  std::vector<Run> runs(ExactPass& pass, std::size_t group) const;
  void sum_piece(const Piece& piece, ExactPass& pass, const Target& target) const;
  void sum_product(const Piece& piece, ExactPass& pass, const Target& target) const;
  void sum_biases(const Piece& piece, ExactPass& pass, const Target& target) const;
  void sum_rows(const Piece& piece, ExactPass& pass, const Target& target) const;
  void sum_places(const Piece& piece, ExactPass& pass, const Target& target) const;
  void sum_tokens(const Piece& piece, ExactPass& pass, const Target& target) const;

  const Network& network_;
  const Shortcuts& shortcuts_;
  const std::vector<std::unique_ptr<Step>>& steps_;
  Executor& executor_;
  std::vector<CellsBy> cells_by_;         // of each step
  std::vector<std::size_t> group_of_;     // of each step
  std::vector<std::size_t> stage_of_;     // of each step
  std::vector<std::size_t> group_steps_;  // of each group
  std::vector<Stage> stages_;
  std::vector<Piece> pieces_;              // in the order of their first parameters
  std::vector<std::size_t> range_ends_;    // in parameters
  std::vector<std::size_t> range_pieces_;  // where the pieces of each range end
  std::vector<float> zeros_;               // as many as the widest operand has
  std::size_t first_with_parameters_ = 0;
  std::size_t microbatch_rows_ = 0;
};

}  // namespace privgrad::cpu
