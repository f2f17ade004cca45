// The engine for exact clipping: norms, whole-number contributions and their sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "../flow.hpp"
#include "layers/step.hpp"
#include "losses.hpp"
#include "privgrad/backend.hpp"
#include "tasks.hpp"

namespace privgrad::cpu {

using Steps = std::vector<std::unique_ptr<Step>>;

class ExactPass final : public ExactClipping::Pass {
 public:
  std::size_t most_rows() const noexcept { return most_rows_; }
  std::size_t rows() const noexcept { return batch_.rows(); }
  /// Returns the number of examples given to choose(); 0 before its first call.
  std::size_t chosen_rows() const noexcept { return taken_.size(); }

 private:
  friend class ExactEngine;
  using Memory = std::unique_ptr<float[]>;
  class Lease;

  std::size_t most_rows_ = 0;
  Batch batch_;
  std::vector<Memory> storage_;       // one for each value; empty if it shares memory
  std::vector<float*> memory_;        // one for each value; null for the features
  std::vector<const float*> values_;  // the last value is the outputs
  std::vector<Memory> deltas_;        // one for each value; empty if not stored for a whole batch
  Memory added_;                      // derivatives with respect to one value, before addition
  std::vector<StepPass> steps_;
  Memory panels_;                    // the examples that enter a step on whole batches
  std::vector<Share> shares_;        // [rows, groups]
  std::vector<std::uint8_t> taken_;  // [rows], from choose()
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

/// Computes norms, cells and their sums by one forward and one backward pass over a batch. An
/// example's results are a function of the example alone (chains.hpp, cells.hpp): no bit of them
/// depends on place, neighbours, threads or instruction set.
///
/// Steps on whole batches divide them into tiles; sequences of other steps process blocks of a few
/// examples through all of them while these are in the cache. Each layer's step defines the layer's
/// computation.
///
/// exact.cpp plans the work from the steps, exact_passes.cpp processes batches.
class ExactEngine {
 public:
  ExactEngine(const Network& network, const Flow& flow, const Steps& steps, Executor& executor);

  std::size_t groups() const noexcept { return group_steps_.size(); }
  std::size_t microbatch_rows() const noexcept { return microbatch_rows_; }
  std::uint64_t pass_bytes(std::size_t most_rows) const;

  std::unique_ptr<ExactPass> make_pass(std::size_t most_rows) const;
  std::unique_ptr<ExactPass> make_forward_pass(std::size_t most_rows) const;

  /// \returns the outputs, [rows, outputs]; valid until the pass is used again.
  const float* forward(const Batch& batch, ExactPass& pass) const;
  void backward(const Batch& batch, ExactPass& pass, std::span<double> squared_norms) const;
  void make_cells(ExactPass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const;
  /// Chooses examples; the choice holds until the next one, or until new cells are made.
  void choose(ExactPass& pass, std::span<const std::uint8_t> taken) const;
  /// Adds the cells of the chosen examples.
  void add_cells(ExactPass& pass, std::span<std::int64_t> sum) const;

  /// The ends of the parameter ranges. add_range() adds one range's cells, on the calling thread.
  std::span<const std::size_t> range_ends() const noexcept { return range_ends_; }
  void add_range(ExactPass& pass, std::size_t range, std::span<std::int64_t> sum) const;

 private:
  /// Steps that are executed together: either a step on whole batches, with its elementwise
  /// function if one follows, or a sequence of other steps.
  struct Stage {
    std::size_t first = 0, last = 0;  // the steps [first, last)
    bool is_batch = false;
    const Elementwise* function = nullptr;
    std::vector<std::size_t> slots;  // the number of floats per example in each slot
  };

  /// The location of the derivatives with respect to a value: ExactPass::deltas_[kept], or, for
  /// values inside a stage of blocks, a slot of the task's memory.
  struct Place {
    static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
    std::size_t kept = kNowhere, slot = kNowhere;
  };

  struct PieceOf {
    std::size_t step;
    Piece piece;
  };

  void make_stages();
  void place_derivatives();
  void place_in_blocks(Stage& stage);
  std::size_t floats_per_example() const;
  std::size_t panel_floats(std::size_t most_rows) const;
  void choose_rows();
  void make_ranges();
  std::size_t end_of(const PieceOf& one) const;
  std::size_t size_of(std::size_t value) const;
  bool may_be_overwritten(std::size_t value) const;
  bool works_in_place(std::size_t step) const;

  /// A task's examples, [first, first + count), and its memory with the slots of a stage.
  struct Block {
    std::size_t first, count;
    Scratch& scratch;
    std::vector<std::size_t> slots;  // the beginning of each slot
  };

  void block_forward(const Stage& stage, ExactPass& pass) const;
  void batch_backward(const Stage& stage, ExactPass& pass) const;
  void block_backward(const Stage& stage, ExactPass& pass) const;
  void step_backward(std::size_t step, ExactPass& pass, const Block& block) const;
  float* delta_of(std::size_t value, const ExactPass& pass, const Block& block) const;
  WholeBatch whole_batch(const Stage& stage, const ExactPass& pass) const;

  void choose_scales(ExactPass& pass, std::span<const double> scales, std::uint64_t most_cells,
                     std::size_t first, std::size_t count) const;
  void make_pair(ExactPass& pass, std::size_t pair, Wide most,
                 std::span<SquaredLength> lengths) const;
  void add_piece(const PieceOf& one, const ExactPass& pass, std::span<std::int64_t> sum,
                 std::size_t first) const;

  const Network& network_;
  LossOf loss_;
  const Flow& flow_;
  const Steps& steps_;
  Tasks tasks_;
  std::vector<std::size_t> group_steps_;  // the step of each group
  std::vector<Stage> stages_;
  std::vector<Place> places_;              // for the derivatives with respect to each value
  std::size_t added_ = 0;                  // floats per example of ExactPass::added_
  std::vector<PieceOf> pieces_;            // in the order of their first parameters
  std::vector<std::size_t> range_ends_;    // the end of each range
  std::vector<std::size_t> range_pieces_;  // the end of each range's pieces
  std::size_t microbatch_rows_ = 0;
};

/// Memory lent to a task, given back at its end.
class ExactPass::Lease {
 public:
  explicit Lease(ExactPass& pass) : pass_(pass) {
    const std::lock_guard lock(pass_.mutex_);
    if (pass_.scratch_.empty()) {
      scratch_ = std::make_unique<Scratch>();
    } else {
      scratch_ = std::move(pass_.scratch_.back());
      pass_.scratch_.pop_back();
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(pass_.mutex_);
    pass_.scratch_.push_back(std::move(scratch_));
  }
  Scratch& operator*() const { return *scratch_; }
  Scratch* operator->() const { return scratch_.get(); }

 private:
  ExactPass& pass_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace privgrad::cpu
