// A minimal program with exact clipping, and ways to make it wrong, for tests of the core's checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fake_program.hpp"
#include "privgrad/backend.hpp"

/// A program whose per-example gradient is the example, in whole numbers: the smallest possible
/// exact program. It has groups of two parameters; cells are rounded towards zero. Passes accept
/// any number of rows.
class ExactEcho : public privgrad::Program, public privgrad::ExactClipping {
 public:
  /// The possible mistakes of the program.
  enum class Fault {
    none = 1,
    forgets_lengths,
    too_long,
    longest,
    certifies_less,     ///< Cells of twice the certified length.
    certifies_one_off,  ///< A length that is too small by one.
    minds_neighbours,   ///< The cells are larger by one if there are other examples.
    /// Cells of the same length but the opposite sign, if there are other examples.
    turns_beside_neighbours,
    norms_mind_neighbours,
    certifies_other_alone,  ///< The length is too small by one if the example is alone.
    adds_more,              ///< Adds a cell to the sum for each pair of neighbours.
    far_from_rows,          ///< Certified cells of the example, but not of its gradient.
  };

  explicit ExactEcho(std::size_t groups, Fault fault = Fault::none)
      : groups_(groups), fault_(fault), rows_(2 * groups) {}
  std::size_t parameter_count() const override { return 2 * groups_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    rows_.gradient_rows(batch, rows);
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    return rows_.evaluate(batch);
  }

  std::size_t groups() const override { return groups_; }
  std::size_t microbatch_rows() const override { return 8; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Rows>(); }

  void backward(const privgrad::Batch& batch, Pass& pass,
                std::span<double> squared_norms) const override {
    auto& rows = static_cast<Rows&>(pass).gradients;
    rows.resize(batch.rows() * 2 * groups_);
    gradient_rows(batch, rows);
    for (std::size_t i = 0; i < squared_norms.size(); ++i) {
      const double a = rows[2 * i], b = rows[2 * i + 1];
      squared_norms[i] = a * a + b * b;
      if (fault_ == Fault::norms_mind_neighbours && batch.rows() > 1)
        squared_norms[i] *= 1.0 + 0x1p-52;
    }
  }

  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<privgrad::SquaredLength> lengths) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.cells.assign(rows.gradients.size(), 0);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::uint64_t square = 0;
      for (std::size_t j = i * 2 * groups_; j < (i + 1) * 2 * groups_; ++j) {
        const double scale = scales[j / 2];
        if (scale == 0.0) continue;
        rows.cells[j] = static_cast<std::int64_t>(scale * static_cast<double>(rows.gradients[j]) *
                                                  (1.0 - 0x1p-40));
        if (fault_ == Fault::longest)
          rows.cells[j] = j % (2 * groups_) == 0 ? static_cast<std::int64_t>(most_cells) : 0;
        if (fault_ == Fault::too_long) rows.cells[j] += static_cast<std::int64_t>(most_cells);
        if (fault_ == Fault::minds_neighbours && lengths.size() > 1)
          rows.cells[j] -= rows.cells[j] > 0 ? 1 : -1;
        if (fault_ == Fault::far_from_rows ||
            (fault_ == Fault::turns_beside_neighbours && lengths.size() > 1))
          rows.cells[j] = -rows.cells[j];
        square += static_cast<std::uint64_t>(rows.cells[j] * rows.cells[j]);
        if (fault_ == Fault::certifies_less) rows.cells[j] *= 2;
      }
      const bool one_off = fault_ == Fault::certifies_one_off ||
                           (fault_ == Fault::certifies_other_alone && lengths.size() == 1);
      if (one_off && square > 0) --square;
      if (fault_ != Fault::forgets_lengths) lengths[i] = {0, square};
    }
  }

  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    const auto& cells = static_cast<Rows&>(pass).cells;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (taken[i / (2 * groups_)] == 0) continue;
      sum[i % (2 * groups_)] += cells[i];
      const std::size_t row = i / (2 * groups_);
      if (fault_ == Fault::adds_more && row > 0 && taken[row - 1] != 0) ++sum[i % (2 * groups_)];
    }
  }

 private:
  struct Rows final : Pass {
    std::vector<float> gradients;
    std::vector<std::int64_t> cells;
  };
  std::size_t groups_;
  Fault fault_;
  EchoProgram rows_;
};
