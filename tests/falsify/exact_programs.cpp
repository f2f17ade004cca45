// Programs that make whole numbers, and one promise of ExactClipping broken in each.
#include <cmath>
#include <cstdint>
#include <thread>

#include "fault.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"

using namespace privgrad;

namespace exact_programs {

class Base : public LinearProgram, public ExactClipping, public ReproducibleRows {
 public:
  using LinearProgram::LinearProgram;
  struct Rows final : Pass {
    std::vector<float> gradients;
    std::vector<std::int64_t> cells;
  };
  std::size_t size() const { return parameters_.size(); }
  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 16; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Rows>(); }
  std::span<const float> row(const Rows& rows, std::size_t i) const {
    return std::span(rows.gradients).subspan(i * size(), size());
  }
  std::size_t biases() const { return outputs_; }
  static double square(std::span<const float> row) {
    double squares = 0.0;
    for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
    return squares;
  }
  mutable std::uint64_t calls_ = 0;
  mutable double largest_ = 0.0;
};

struct Row {
  Told told;
  /// The squared norm of row i of the pass.
  double (*norm)(const Base&, const Base::Rows&, std::size_t i) = nullptr;
  /// The cell of coordinate j of row i, before it is rounded.
  double (*cell)(const Base&, double scale, float x, std::size_t i, std::size_t j,
                 double most) = nullptr;
  /// What is told of a squared length.
  std::uint64_t (*told_length)(const Base&, std::uint64_t length, std::uint64_t most) = nullptr;
  /// What row i adds of its cells.
  std::int64_t (*adds)(const Base&, std::int64_t cell, std::uint8_t taken, std::size_t i) = nullptr;
};

#define NORM [](const Base& self, const Base::Rows& rows, std::size_t i) -> double
#define CELL                                                                                     \
  []([[maybe_unused]] const Base& self, [[maybe_unused]] double scale, [[maybe_unused]] float x, \
     [[maybe_unused]] std::size_t i, [[maybe_unused]] std::size_t j,                             \
     [[maybe_unused]] double most) -> double
#define TOLD                                                                   \
  []([[maybe_unused]] const Base& self, [[maybe_unused]] std::uint64_t length, \
     [[maybe_unused]] std::uint64_t most) -> std::uint64_t
#define ADDS                                                                                    \
  []([[maybe_unused]] const Base& self, std::int64_t cell, [[maybe_unused]] std::uint8_t taken, \
     [[maybe_unused]] std::size_t i) -> std::int64_t

double right_cell(double scale, float x) {
  return scale == 0.0 ? 0.0 : scale * static_cast<double>(x);
}
std::int64_t right_add(std::int64_t cell, std::uint8_t taken) { return taken != 0 ? cell : 0; }

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Norms: what the clipping sees.
    {.told = {"norm_a_tenth", "fused norms that are too small: examples are not clipped"},
     .norm = NORM { return 0.01 * self.square(self.row(rows, i));
}  // namespace exact_programs
}
, {.told = {"norm_a_hundredth_less", "fused norms that are biased downwards"},
   .norm = NORM{return 0.98 * self.square(self.row(rows, i));
}
}
, {.told = {"norm_twice", "fused norms that are too large"},
   .norm = NORM{return 4.0 * self.square(self.row(rows, i));
}
}
, {.told = {"norm_zero", "norms of 0: nobody is clipped"},
   .norm = NORM{return 0.0 * static_cast<double>(i + rows.cells.size() + self.size());
}
}
, {.told = {"norm_not_squared", "the norm where its square is meant"},
   .norm = NORM{return std::sqrt(self.square(self.row(rows, i)));
}
}
, {.told = {"norm_without_biases", "the biases are left out of the norm"},
   .norm = NORM{return self.square(self.row(rows, i).first(self.size() - self.biases()));
}
}
, {.told = {"norm_of_the_first_weight", "the norm of one coordinate"},
   .norm = NORM{return self.square(self.row(rows, i).first(1));
}
}
, {.told = {"norm_of_another_row", "the norms of the examples are exchanged"},
   .norm = NORM{const std::size_t count = rows.gradients.size() / self.size();
return self.square(self.row(rows, (i + 1) % count));
}
}
, {.told = {"norm_of_the_largest", "one norm for all of a pass"}, .norm = NORM{double largest = 0.0;
for (std::size_t k = 0; k * self.size() < rows.gradients.size(); ++k)
  largest = std::max(largest, self.square(self.row(rows, k)));
return largest + 0.0 * static_cast<double>(i);
}
}
, {.told = {"norm_in_single_precision", "a sum of squares in float, which overflows early"},
   .norm = NORM{float sum = 0.0f;
for (const float x : self.row(rows, i)) sum += x * x;
return static_cast<double>(sum);
}
}
, {.told = {"norm_finite_always", "a gradient that is not finite has a finite norm"},
   .norm = NORM{const double square = self.square(self.row(rows, i));
return std::isfinite(square) ? square : 1.0;
}
}
, {.told = {"norm_nan", "no norm at all: everybody is left out"},
   .norm = NORM{return std::nan("") * static_cast<double>(i + rows.cells.size() + self.size());
}
}
, {.told = {"norm_counts_calls", "norms that change from call to call"},
   .norm = NORM{return self.square(self.row(rows, i)) *
                       (1.0 + 1e-9 * static_cast<double>(++self.calls_));
}
}
, {.told = {"norm_by_place", "other roundings at other places"},
   .norm = NORM{return self.square(self.row(rows, i)) * (i % 4 == 3 ? 1.0 + 1e-12 : 1.0);
}
}
,
    // Cells: what is summed.
    {.told = {"cells_twice", "cells of twice the gradient"},
     .cell = CELL{return 2.0 * right_cell(scale, x);
}
}
, {.told = {"cells_a_hundredth_more", "cells a hundredth too long"},
   .cell = CELL{return 1.01 * right_cell(scale, x);
}
}
, {.told = {"cells_rounded_away", "cells rounded away from zero"},
   .cell = CELL{const double cell = right_cell(scale, x);
return cell == 0.0 ? 0.0 : cell + std::copysign(1.5, cell);
}
}
, {.told = {"cells_ignore_scales", "the clipping's factors are not applied"},
   .cell = CELL{return std::isfinite(x) ? 1000.0 * static_cast<double>(x) : 0.0;
}
}
, {.told = {"cells_ignore_a_scale_of_0", "what was to be left out is in"},
   .cell = CELL{return scale == 0.0 ? 3.0 : right_cell(scale, x);
}
}
, {.told = {"cells_coarse", "cells of a sixteenth of the bound"},
   .cell = CELL{return most / 16.0 * std::trunc(right_cell(scale, x) / (most / 16.0));
}
}
, {.told = {"cells_negative", "the other sign"}, .cell = CELL{return -right_cell(scale, x);
}
}
, {.told = {"cells_by_place", "every fourth example's cells differ by one"},
   .cell = CELL{return right_cell(scale, x) * (i % 4 == 3 ? 0.99 : 1.0);
}
}
, {.told = {"cells_one_coordinate_long", "one coordinate beyond the bound"},
   .cell = CELL{return j == 0 && scale != 0.0 ? 2.0 * most : right_cell(scale, x);
}
}
, {.told = {"cells_constant", "the same cells for everybody"},
   .cell = CELL{return scale == 0.0 ? 0.0 : 100.0;
}
}
,
    // Lengths: what is certified.
    {.told = {"length_half", "tells half of the squared length"},
     .told_length = TOLD{return length / 2;
}
}
, {.told = {"length_zero", "tells that everything is short"}, .told_length = TOLD{return 0;
}
}
, {.told = {"length_at_most_the_bound", "tells what it should be, not what it is"},
   .cell = CELL{const double cell = right_cell(scale, x);
return cell == 0.0 ? 0.0 : cell + std::copysign(3.0, cell);
}
, .told_length = TOLD { return std::min(length, most * most); }
}
, {.told = {"length_saturates", "squares in 32 bits"},
   .told_length = TOLD{return length & 0xffffffff;
}
}
, {.told = {"length_one_less", "a squared length that is one too small"},
   .told_length = TOLD{return length > 0 ? length - 1 : 0;
}
}
,
    // Sums.
    {.told = {"adds_what_was_left_out", "adds examples that the core took out"},
     .adds = ADDS{return cell;
}
}
, {.told = {"adds_twice", "adds everything twice: certified once"},
   .adds = ADDS{return 2 * right_add(cell, taken);
}
}
, {.told = {"adds_one_more", "adds cells that nobody certified"},
   .adds = ADDS{return right_add(cell, taken) + 1;
}
}
, {.told = {"adds_the_first_only", "adds the first example of each pass"},
   .adds = ADDS{return i == 0 ? right_add(cell, taken) : 0;
}
}
, {.told = {"adds_nothing", "adds nothing: noise alone"}, .adds = ADDS{return 0 * cell;
}
}
, {.told = {"adds_half", "adds half of the cells"}, .adds = ADDS{return right_add(cell, taken) / 2;
}
}
, {.told = {"adds_more_every_call", "adds more from call to call"},
   .adds =
       ADDS{return right_add(cell, taken) + static_cast<std::int64_t>(++self.calls_ > 500 ? 1 : 0);
}
}
, {.told = {"adds_in_32_bits", "sums that wrap at 32 bits"},
   .adds = ADDS{return static_cast<std::int32_t>(4096 * right_add(cell, taken)) / 4096;
}
}
,
});

template <std::size_t I>
class FaultyProgram final : public Base {
 public:
  using Base::Base;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.gradients.assign(batch.rows() * size(), 0.0f);
    gradient_rows(batch, rows.gradients);
    for (std::size_t i = 0; i < batch.rows(); ++i)
      squared_norms[i] =
          kTable[I].norm != nullptr ? kTable[I].norm(*this, rows, i) : square(row(rows, i));
  }
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override {
    auto& rows = static_cast<Rows&>(pass);
    rows.cells.assign(rows.gradients.size(), 0);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::uint64_t length = 0;
      for (std::size_t j = 0; j < size(); ++j) {
        const float x = row(rows, i)[j];
        const double wanted =
            kTable[I].cell != nullptr
                ? kTable[I].cell(*this, scales[i], x, i, j, static_cast<double>(most_cells))
                : right_cell(scales[i], x);
        const auto cell = static_cast<std::int64_t>(wanted * (1.0 - 0x1p-30));
        rows.cells[i * size() + j] = cell;
        length += static_cast<std::uint64_t>(cell) * static_cast<std::uint64_t>(cell);
      }
      lengths[i] = {0, kTable[I].told_length != nullptr
                           ? kTable[I].told_length(*this, length, most_cells)
                           : length};
    }
  }
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    const auto& cells = static_cast<Rows&>(pass).cells;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const std::size_t i = k / size();
      const std::int64_t added = kTable[I].adds != nullptr
                                     ? kTable[I].adds(*this, cells[k], taken[i], i)
                                     : right_add(cells[k], taken[i]);
      std::int64_t& to = sum[k % size()];
      to = static_cast<std::int64_t>(static_cast<std::uint64_t>(to) +
                                     static_cast<std::uint64_t>(added));
    }
  }
};

template <std::size_t I>
class Faulty final : public Backend {
 public:
  explicit Faulty(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor&) override {
    if (network.layers.size() != 1 || !std::holds_alternative<Dense>(network.layers[0]))
      throw ConfigError("only one dense layer");
    return std::make_unique<FaultyProgram<I>>(network);
  }
};

}  // namespace exact_programs

std::vector<Fault> exact_program_faults() {
  using namespace exact_programs;
  return faults_of<Backend, Faulty>(kTable, "exact_program", [](const Row& row) {
    return std::vector<std::string>{std::string("backend=") + row.told.id};
  });
}

#undef NORM
#undef CELL
#undef TOLD
#undef ADDS
