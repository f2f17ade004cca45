// A program whose cells can be added in pieces, for tests of sums shared by processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exact_echo.hpp"
#include "privgrad/backend.hpp"
#include "support.hpp"

/// ExactEcho with pieces, each of which is a part of the result of add_cells().
class PiecewiseEcho : public privgrad::Program, public privgrad::ExactClipping {
 public:
  /// \param lies  adds one cell too many to the first cell of each piece.
  PiecewiseEcho(std::size_t groups, std::vector<std::size_t> ends, bool lies = false)
      : echo_(groups), ends_(std::move(ends)), lies_(lies) {}
  std::size_t parameter_count() const override { return echo_.parameter_count(); }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    echo_.gradient_rows(batch, rows);
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    return echo_.evaluate(batch);
  }
  std::size_t groups() const override { return echo_.groups(); }
  std::size_t microbatch_rows() const override { return echo_.microbatch_rows(); }
  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override {
    auto pass = std::make_unique<Chosen>();
    pass->echo = echo_.make_pass(most_rows);
    return pass;
  }
  void backward(const privgrad::Batch& batch, Pass& pass,
                std::span<double> squared_norms) const override {
    echo_.backward(batch, *chosen(pass).echo, squared_norms);
  }
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<privgrad::SquaredLength> lengths) const override {
    echo_.make_cells(*chosen(pass).echo, scales, most_cells, lengths);
  }
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    echo_.add_cells(*chosen(pass).echo, taken, sum);
  }
  std::span<const std::size_t> piece_ends() const override { return ends_; }
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
    chosen(pass).cells.assign(parameter_count(), 0);
    add_cells(pass, taken, chosen(pass).cells);
  }
  void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override {
    const std::size_t begin = piece == 0 ? 0 : ends_[piece - 1];
    REQUIRE(sum.size() == ends_[piece] - begin);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += chosen(pass).cells[begin + i];
    if (lies_) ++sum[0];
  }

 private:
  struct Chosen final : Pass {
    std::unique_ptr<Pass> echo;
    std::vector<std::int64_t> cells;
  };
  static Chosen& chosen(Pass& pass) { return static_cast<Chosen&>(pass); }
  ExactEcho echo_;
  std::vector<std::size_t> ends_;
  bool lies_;
};
