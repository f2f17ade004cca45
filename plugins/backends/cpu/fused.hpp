#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "steps.hpp"

namespace privgrad::cpu {

/// How the gradients of a layer's parameters become a scaled sum.
enum class SumBy {
  nothing = 1,  ///< No parameters.
  product,      ///< Dense: the norm is |a| |d|, the sum one matrix product of inputs and scaled
                ///< errors.
  rows,         ///< Each example's gradient is kept from the norm to the sum: small layers, and
                ///< convolutions with few weights for their size.
  gram,         ///< The norm from the products of places with each other, the sum by a second
                ///< matrix product: convolutions with many weights that see few places.
  tokens,       ///< Embedding: rows of the table, for the tokens that occur.
};

/// Memory of a task, used again by the next.
struct Scratch {
  std::vector<float> patches, scaled, one, other;
};

class FusedPass final : public FusedClipping::Pass {
 public:
  std::size_t most_rows() const noexcept { return most_rows_; }
  std::size_t rows() const noexcept { return batch_.rows(); }
  bool has_norms() const noexcept { return has_norms_; }

 private:
  friend class FusedEngine;
  using Memory = std::unique_ptr<float[]>;
  class Lease;

  std::size_t most_rows_ = 0;
  Batch batch_;
  bool has_norms_ = false;
  std::vector<Memory> storage_;         // of step s's outputs; empty where they share memory
  std::vector<const float*> entering_;  // [steps + 1]; the last are the outputs
  std::vector<float*> leaving_;         // [steps]
  std::vector<Memory> deltas_;          // by the outputs of stage k
  std::vector<Memory> kept_;            // of step s: its rows, or its deltas
  std::vector<float> clean_features_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

/// Norms and scaled sums by one forward and one backward pass over a batch ("book-keeping": Bu et
/// al. 2023, Algorithm 1; ghost norms: Goodfellow 2015, Li et al. 2022), through OpenBLAS.
///
/// Dense layers work on the whole batch in tiles; the layers between them take blocks of a few
/// examples through all of them while they are in the cache. Tiles, blocks and the order in which
/// they are added up follow from the network and the place in the batch, never from threads.
///
/// fused.cpp plans what follows from the network, fused_passes.cpp computes outputs, norms and
/// errors, fused_sum.cpp adds up.
class FusedEngine {
 public:
  FusedEngine(const Network& network, const std::vector<std::unique_ptr<Step>>& steps,
              Executor& executor);

  std::size_t groups() const noexcept { return group_steps_.size(); }
  std::size_t chunk_rows() const noexcept { return chunk_rows_; }
  std::size_t pass_rows() const noexcept { return pass_rows_; }

  std::unique_ptr<FusedPass> make_pass(std::size_t most_rows) const;
  std::unique_ptr<FusedPass> make_forward_pass(std::size_t most_rows) const;

  /// \returns the outputs, [rows, outputs]; valid until the pass is used again.
  const float* forward(const Batch& batch, FusedPass& pass) const {
    return forward(batch, pass, Norms{});
  }
  void backward(const Batch& batch, FusedPass& pass, std::span<double> squared_norms) const;
  void add_scaled(FusedPass& pass, std::span<const float> factors, std::span<float> sum) const;

 private:
  /// Steps that are executed together: a dense layer with the activation after it, or others.
  struct Stage {
    std::size_t first = 0, last = 0;  // steps [first, last)
    bool is_dense = false;
  };

  struct Norms {
    std::span<double> squared;  // [rows, groups]; empty when nobody wants them
    std::size_t groups = 0;
    double& at(std::size_t row, std::size_t group) const { return squared[row * groups + group]; }
  };

  /// One piece of the sum: of step s, columns of units [first, end), inputs [left, right).
  struct Piece {
    std::size_t step, first, end, left, right;
  };

  void make_stages();
  void choose_sums();
  void choose_rows();
  void add_pieces(std::size_t step);
  const DenseStep& dense(std::size_t step) const;
  const ConvStep& conv(std::size_t step) const;
  bool shares_memory(std::size_t step) const;
  std::size_t kept_rows(std::size_t rows, bool has_norms) const;

  void for_each_block(std::size_t rows, std::size_t block,
                      const std::function<void(std::size_t, std::size_t)>& body) const;
  void for_each_tile(
      std::size_t rows, std::size_t columns,
      const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const;

  const float* forward(const Batch& batch, FusedPass& pass, const Norms& norms) const;
  void square_inputs(const Stage& stage, const FusedPass& pass, const Norms& norms) const;
  void dense_forward(const Stage& stage, FusedPass& pass) const;
  void block_forward(const Stage& stage, FusedPass& pass) const;
  void conv_forward(const ConvStep& step, std::size_t count, const float* in, float* out,
                    Scratch& scratch) const;
  void dense_backward(std::size_t stage, FusedPass& pass, const Norms& norms) const;
  void block_backward(std::size_t stage, FusedPass& pass, const Norms& norms) const;
  float* step_backward(std::size_t step, FusedPass& pass, std::size_t first, std::size_t count,
                       float* delta, float* below, Scratch& scratch, const Norms& norms) const;
  void conv_backward(std::size_t step, FusedPass& pass, std::size_t first, std::size_t count,
                     const float* delta, float* below, Scratch& scratch, const Norms& norms) const;

  void clean_inputs(std::size_t group, FusedPass& pass, std::span<const float> factors) const;
  void sum_product(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                   std::span<float> sum) const;
  void sum_rows(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                std::span<float> sum) const;
  void sum_gram(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                std::span<float> sum) const;
  void sum_tokens(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                  std::span<float> sum) const;
  float factor(std::span<const float> factors, std::size_t row, std::size_t step) const;

  const Network& network_;
  const std::vector<std::unique_ptr<Step>>& steps_;
  Executor& executor_;
  std::vector<SumBy> sum_by_;             // of each step
  std::vector<std::size_t> group_of_;     // of each step
  std::vector<std::size_t> group_steps_;  // of each group
  std::vector<Stage> stages_;
  std::vector<Piece> pieces_;
  std::size_t first_with_parameters_ = 0;
  std::size_t chunk_rows_ = 0, pass_rows_ = 0;
};

}  // namespace privgrad::cpu
