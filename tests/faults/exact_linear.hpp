// A small program with exact sums that derived classes break in one way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "linear_program.hpp"

/// One dense layer, its cells rounded towards zero from its rows: right, and open to faults.
class ExactLinear : public LinearProgram,
                    public privgrad::ExactClipping,
                    public privgrad::CellsInPieces,
                    public privgrad::ReproducibleRows {
 public:
  explicit ExactLinear(privgrad::Network network)
      : LinearProgram(std::move(network)), ends_{1, parameters_.size()} {}

  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 16; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Rows>(); }

  void backward(const privgrad::Batch& batch, Pass& pass,
                std::span<double> squared_norms) const override {
    auto& rows = static_cast<Rows&>(pass).gradients;
    rows.assign(batch.rows() * parameters_.size(), 0.0f);
    gradient_rows(batch, rows);
    for (std::size_t i = 0; i < batch.rows(); ++i) squared_norms[i] = square(row(rows, i));
  }

  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<privgrad::SquaredLength> lengths) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.cells.assign(rows.gradients.size(), 0);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = {};
      for (std::size_t j = 0; j < parameters_.size(); ++j) {
        std::int64_t& cell = rows.cells[i * parameters_.size() + j];
        const double wanted = scaled(scales[i], scales, row(rows.gradients, i)[j], most_cells);
        cell = static_cast<std::int64_t>(wanted * (1.0 - 0x1p-30));
        // Without a sign, since derived classes with a fault make cells whose squares go beyond 63 bits.
        lengths[i].low += static_cast<std::uint64_t>(cell) * static_cast<std::uint64_t>(cell);
      }
      lengths[i] = told(lengths[i]);
    }
  }

  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    const auto& cells = static_cast<Rows&>(pass).cells;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!takes(taken[i / parameters_.size()])) continue;
      std::int64_t& to = sum[i % parameters_.size()];
      to = added(to, cells[i]);
    }
  }

  std::span<const std::size_t> piece_ends() const override { return ends_; }
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
    static_cast<Rows&>(pass).taken.assign(taken.begin(), taken.end());
  }
  void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override {
    const auto& rows = static_cast<Rows&>(pass);
    const std::size_t begin = piece == 0 ? 0 : ends_[piece - 1];
    for (std::size_t i = 0; i < rows.taken.size(); ++i) {
      if (!takes(rows.taken[i])) continue;
      for (std::size_t j = 0; j < sum.size(); ++j)
        sum[j] = added(sum[j], rows.cells[i * parameters_.size() + begin + j]);
    }
  }

 protected:
  struct Rows final : Pass {
    std::vector<float> gradients;
    std::vector<std::int64_t> cells;
    std::vector<std::uint8_t> taken;
  };
  std::vector<std::size_t> ends_;
  std::span<const float> row(const std::vector<float>& rows, std::size_t i) const {
    return std::span(rows).subspan(i * parameters_.size(), parameters_.size());
  }
  virtual double square(std::span<const float> row) const {
    double squares = 0.0;
    for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
    return squares;
  }
  virtual double scaled(double scale, std::span<const double>, float x, std::uint64_t) const {
    return scale == 0.0 ? 0.0 : scale * static_cast<double>(x);
  }
  virtual privgrad::SquaredLength told(privgrad::SquaredLength length) const { return length; }
  virtual bool takes(std::uint8_t taken) const { return taken != 0; }
  virtual std::int64_t added(std::int64_t sum, std::int64_t cell) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                     static_cast<std::uint64_t>(cell));
  }
};
