// A training step without privacy, the reference for private steps.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "layers/convolution.hpp"
#include "layers/dense.hpp"
#include "privgrad/backend.hpp"

namespace privgrad::bench {

/// The sum of a batch's gradients by one forward and one backward pass, through OpenBLAS in
/// float32. Layers without products use the backend's own code (plugins/backends/cpu), and the work
/// is divided into tiles and blocks in the same way.
///
/// Dense layers process the whole batch in tiles; blocks of a few examples pass through all layers
/// between dense layers while they are in the cache. For a convolution with few weights, a block's
/// gradients are added up immediately; for a convolution with many weights and few places, a matrix
/// product over the batch adds them up after both passes.
///
/// Threads: an object is used by one thread at a time, and divides its work among the threads of
/// the executor.
class PlainSum {
 public:
  PlainSum(const Network& network, Executor& executor);

  /// Returns the best number of examples per call, if that many are available.
  std::size_t microbatch_rows() const noexcept { return microbatch_rows_; }

  /// \param parameters  must stay valid until the next call.
  void load_parameters(std::span<const float> parameters);

  /// sum += the sum of the gradients of the batch's losses.
  /// \param batch  at most microbatch_rows() rows.
  void add(const Batch& batch, std::span<float> sum);

 private:
  enum class SumBy { nothing = 1, product, rows, places, tokens };

  /// Steps that are executed together: a dense layer with its activation, or other layers.
  struct Stage {
    std::size_t first = 0, last = 0;  // steps [first, last)
    bool is_dense = false;
    const cpu::Elementwise* function = nullptr;  // after a dense layer, in place
  };

  /// One piece of the sum: for step s, columns of units [first, end) and inputs [left, right).
  struct Piece {
    std::size_t step, first, end, left, right;
  };

  using Memory = std::unique_ptr<float[]>;
  class Lease;

  void make_stages();
  void choose_sums();
  void choose_rows();
  void add_pieces(std::size_t step);
  void make_memory();
  bool shares_memory(std::size_t step) const;
  const cpu::DenseStep& dense(std::size_t step) const;
  const cpu::ConvStep& conv(std::size_t step) const;
  void for_each_block(std::size_t rows, std::size_t block,
                      const std::function<void(std::size_t, std::size_t)>& body) const;
  void for_each_tile(
      std::size_t rows, std::size_t columns,
      const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const;

  void forward();
  void dense_forward(const Stage& stage);
  void block_forward(const Stage& stage);
  void conv_forward(const cpu::ConvStep& step, std::size_t count, const float* in, float* out,
                    cpu::Scratch& scratch) const;
  void backward();
  void dense_backward(std::size_t stage);
  void block_backward(std::size_t stage);
  float* step_backward(std::size_t step, std::size_t first, std::size_t count, float* delta,
                       float* below, cpu::Scratch& scratch);
  void conv_backward(std::size_t step, std::size_t first, std::size_t count, const float* delta,
                     float* below, cpu::Scratch& scratch);
  void sum_product(const Piece& piece, std::span<float> sum) const;
  void sum_rows(const Piece& piece, std::span<float> sum) const;
  void sum_places(const Piece& piece, std::span<float> sum);
  void sum_tokens(const Piece& piece, std::span<float> sum) const;

  const Network& network_;
  Executor& executor_;
  std::vector<std::unique_ptr<cpu::Step>> steps_;
  std::vector<SumBy> sum_by_;  // one for each step
  std::vector<Stage> stages_;
  std::vector<Piece> pieces_;
  std::size_t first_with_parameters_ = 0;
  std::size_t chunk_rows_ = 0, microbatch_rows_ = 0;

  Batch batch_;
  std::vector<Memory> storage_;         // for step s's outputs; empty if they share memory
  std::vector<const float*> entering_;  // [steps + 1]; the last are the outputs
  std::vector<float*> leaving_;         // [steps]
  std::vector<Memory> deltas_;          // for the outputs of stage k
  std::vector<Memory> kept_;            // for step s: the gradients of its blocks, or its deltas
  std::mutex mutex_;
  std::vector<std::unique_ptr<cpu::Scratch>> scratch_;
};

}  // namespace privgrad::bench
