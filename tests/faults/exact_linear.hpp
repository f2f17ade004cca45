// A small program with exact sums that derived classes break in one way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "linear_program.hpp"

/// One dense layer whose rows are rounded to cells towards zero: correct, with functions that
/// faults can override.
class ExactRows : public LinearProgram,
                  public privgrad::ExactClipping,
                  public privgrad::ReproducibleRows {
 public:
  using LinearProgram::LinearProgram;

  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 16; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Rows>(); }

  void backward(const privgrad::Batch& batch, Pass& pass,
                std::span<double> squared_norms) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.gradients.assign(batch.rows() * size(), 0.0f);
    gradient_rows(batch, rows.gradients);
    for (std::size_t i = 0; i < batch.rows(); ++i) squared_norms[i] = squared_norm(rows, i);
  }

  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<privgrad::SquaredLength> lengths) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.cells.assign(rows.gradients.size(), 0);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      // Unsigned, because faulty derived classes make cells whose squares exceed 63 bits.
      std::uint64_t length = 0;
      for (std::size_t j = 0; j < size(); ++j) {
        const double wanted =
            scaled({scales[i], scales, row(rows, i)[j], i, j, static_cast<double>(most_cells)});
        const auto cell = static_cast<std::int64_t>(wanted * (1.0 - 0x1p-30));
        rows.cells[i * size() + j] = cell;
        length += static_cast<std::uint64_t>(cell) * static_cast<std::uint64_t>(cell);
      }
      lengths[i] = {0, told(length, most_cells)};
    }
  }

  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    const auto& rows = static_cast<Rows&>(pass);
    const auto& cells = rows.cells;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const std::size_t i = k / size();
      std::int64_t& to = sum[k % size()];
      to = added(to, share(rows, cells[k], taken[i] != 0, i));
    }
  }

  struct Rows final : Pass {
    std::vector<float> gradients;
    std::vector<std::int64_t> cells;
    std::vector<std::uint8_t> taken;
  };
  /// Coordinate j of row i, before rounding to whole cells.
  struct Cell {
    double scale;
    std::span<const double> scales;  ///< one for each row
    float x;
    std::size_t i, j;
    double most;

    double right() const { return scale == 0.0 ? 0.0 : scale * static_cast<double>(x); }
  };
  std::size_t size() const { return parameters_.size(); }
  std::span<const float> row(const Rows& rows, std::size_t i) const {
    return std::span(rows.gradients).subspan(i * size(), size());
  }
  static double square(std::span<const float> row) {
    double squares = 0.0;
    for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
    return squares;
  }

 protected:
  virtual double squared_norm(const Rows& rows, std::size_t i) const {
    return square(row(rows, i));
  }
  virtual double scaled(const Cell& cell) const { return cell.right(); }
  /// Changes the reported squared length; the second number is the largest allowed one.
  virtual std::uint64_t told(std::uint64_t length, std::uint64_t) const { return length; }
  /// Returns the part of its cell that row i adds.
  virtual std::int64_t share(const Rows&, std::int64_t cell, bool is_taken, std::size_t) const {
    return is_taken ? cell : 0;
  }
  virtual std::int64_t added(std::int64_t sum, std::int64_t cell) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                     static_cast<std::uint64_t>(cell));
  }
};

/// ExactRows that can also add up its sums in two pieces.
class ExactLinear : public ExactRows {
 public:
  explicit ExactLinear(privgrad::Network network)
      : ExactRows(std::move(network)), ends_{1, size()} {}

  std::span<const std::size_t> piece_ends() const override { return ends_; }
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
    static_cast<Rows&>(pass).taken.assign(taken.begin(), taken.end());
  }
  void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override {
    const auto& rows = static_cast<Rows&>(pass);
    const std::size_t begin = piece == 0 ? 0 : ends_[piece - 1];
    for (std::size_t i = 0; i < rows.taken.size(); ++i) {
      for (std::size_t j = 0; j < sum.size(); ++j)
        sum[j] =
            added(sum[j], share(rows, rows.cells[i * size() + begin + j], rows.taken[i] != 0, i));
    }
  }

 protected:
  std::vector<std::size_t> ends_;
};
