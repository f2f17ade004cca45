// Programs that compute whole numbers, each of which breaks one promise of ExactClipping.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "exact_linear.hpp"
#include "fault.hpp"
#include "right_model.hpp"

using namespace privgrad;

namespace exact_programs {

class Base : public ExactRows {
 public:
  using ExactRows::ExactRows;
  std::size_t biases() const { return outputs_; }
  mutable std::uint64_t calls_ = 0, passes_ = 0;
};
using Cell = Base::Cell;

/// Row i of a pass, in a call for its squared norm.
struct Norm {
  const Base& self;
  const Base::Rows& rows;
  std::size_t i;

  std::size_t count() const { return rows.gradients.size() / self.size(); }
  std::span<const float> row(std::size_t k) const { return self.row(rows, k); }
  double right() const { return Base::square(row(i)); }
  double count_call() const { return static_cast<double>(++self.calls_); }
};
/// A cell of row i, added if the row is taken.
struct Adding {
  const Base& self;
  const Base::Rows& rows;
  std::int64_t cell;
  bool is_taken;
  std::size_t i;

  /// The fault affects one example in a hundred, in every batch that contains it.
  bool is_of_rare_row() const {
    return std::bit_cast<std::uint32_t>(self.row(rows, i).front()) % 100 == 0;
  }

  std::int64_t right() const { return is_taken ? cell : 0; }
};

using Length = std::uint64_t;

struct Row {
  Told told;
  double (*norm)(const Norm&) = nullptr;
  double (*cell)(const Cell&) = nullptr;
  /// Changes the reported squared length.
  Length (*told_length)(Length length, Length most) = nullptr;
  std::int64_t (*adds)(const Adding&) = nullptr;
};

double longer_by(const Cell& cell, double more) {
  const double right = cell.right();
  return right == 0.0 ? 0.0 : right + std::copysign(more, right);
}
double scaled_by_1000(const Cell& cell) {
  return std::isfinite(cell.x) ? 1000.0 * static_cast<double>(cell.x) : 0.0;
}
double largest_norm(const Norm& at) {
  double largest = 0.0;
  for (std::size_t k = 0; k < at.count(); ++k) largest = std::max(largest, Base::square(at.row(k)));
  return largest;
}
double norm_in_float(const Norm& at) {
  float sum = 0.0f;
  for (const float x : at.row(at.i)) sum += x * x;
  return static_cast<double>(sum);
}

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Norms, which the clipping receives.
    {.told = {"norm_a_tenth", "fused norms that are too small: examples are not clipped"},
     .norm = [](const Norm& at) { return 0.01 * at.right(); }},
    {.told = {"norm_a_hundredth_less", "fused norms that are biased downwards"},
     .norm = [](const Norm& at) { return 0.98 * at.right(); }},
    {.told = {"norm_twice", "fused norms that are too large"},
     .norm = [](const Norm& at) { return 4.0 * at.right(); }},
    {.told = {"norm_zero", "norms of 0: nobody is clipped"},
     .norm = [](const Norm&) { return 0.0; }},
    {.told = {"norm_not_squared", "the norm where its square is meant"},
     .norm = [](const Norm& at) { return std::sqrt(at.right()); }},
    {.told = {"norm_without_biases", "the biases are left out of the norm"},
     .norm =
         [](const Norm& at) {
           return Base::square(at.row(at.i).first(at.self.size() - at.self.biases()));
         }},
    {.told = {"norm_of_the_first_weight", "the norm of one coordinate"},
     .norm = [](const Norm& at) { return Base::square(at.row(at.i).first(1)); }},
    {.told = {"norm_of_another_row", "the norms of the examples are exchanged"},
     .norm = [](const Norm& at) { return Base::square(at.row((at.i + 1) % at.count())); }},
    {.told = {"norm_of_the_largest", "one norm for all of a pass"}, .norm = largest_norm},
    {.told = {"norm_in_single_precision", "a sum of squares in float, which overflows early"},
     .norm = norm_in_float},
    {.told = {"norm_finite_always", "a gradient that is not finite has a finite norm"},
     .norm = [](const Norm& at) { return std::isfinite(at.right()) ? at.right() : 1.0; }},
    {.told = {"norm_nan", "no norm at all: everybody is left out"},
     .norm = [](const Norm&) { return std::nan(""); }},
    {.told = {"norm_counts_calls", "norms that change from call to call"},
     .norm = [](const Norm& at) { return at.right() * (1.0 + 1e-9 * at.count_call()); }},
    {.told = {"norm_by_place", "other roundings at other places"},
     .norm = [](const Norm& at) { return at.right() * (at.i % 4 == 3 ? 1.0 + 1e-12 : 1.0); }},
    // Cells, which are summed.
    {.told = {"cells_twice", "cells of twice the gradient"},
     .cell = [](const Cell& cell) { return 2.0 * cell.right(); }},
    {.told = {"cells_a_hundredth_more", "cells a hundredth too long"},
     .cell = [](const Cell& cell) { return 1.01 * cell.right(); }},
    {.told = {"cells_rounded_away", "cells rounded away from zero"},
     .cell = [](const Cell& cell) { return longer_by(cell, 1.5); }},
    {.told = {"cells_ignore_scales", "the clipping's factors are not applied"},
     .cell = scaled_by_1000},
    {.told = {"cells_ignore_a_scale_of_0", "what was to be left out is in"},
     .cell = [](const Cell& cell) { return cell.scale == 0.0 ? 3.0 : cell.right(); }},
    {.told = {"cells_coarse", "cells of a sixteenth of the bound"},
     .cell =
         [](const Cell&
                cell) { return cell.most / 16.0 * std::trunc(cell.right() / (cell.most / 16.0)); }},
    {.told = {"cells_negative", "the other sign"},
     .cell = [](const Cell& cell) { return -cell.right(); }},
    {.told = {"cells_by_place", "every fourth example's cells differ by one"},
     .cell = [](const Cell& cell) { return cell.right() * (cell.i % 4 == 3 ? 0.99 : 1.0); }},
    {.told = {"cells_one_coordinate_long", "one coordinate beyond the bound"},
     .cell =
         [](const Cell& cell) {
           return cell.j == 0 && cell.scale != 0.0 ? 2.0 * cell.most : cell.right();
         }},
    {.told = {"cells_constant", "the same cells for everybody"},
     .cell = [](const Cell& cell) { return cell.scale == 0.0 ? 0.0 : 100.0; }},
    // Lengths, which are certified.
    {.told = {"length_half", "tells half of the squared length"},
     .told_length = [](Length length, Length) { return length / 2; }},
    {.told = {"length_zero", "tells that everything is short"},
     .told_length = [](Length, Length) { return Length{0}; }},
    {.told = {"length_at_most_the_bound", "tells what it should be, not what it is"},
     .cell = [](const Cell& cell) { return longer_by(cell, 3.0); },
     .told_length = [](Length length, Length most) { return std::min(length, most * most); }},
    {.told = {"length_saturates", "squares in 32 bits"},
     .told_length = [](Length length, Length) { return length & 0xffffffff; }},
    {.told = {"length_one_less", "a squared length that is one too small"},
     .told_length = [](Length length, Length) { return length > 0 ? length - 1 : 0; }},
    // Sums.
    {.told = {"adds_what_was_left_out", "adds examples that the core took out"},
     .adds = [](const Adding& adding) { return adding.cell; }},
    {.told = {"adds_twice", "adds everything twice: certified once"},
     .adds = [](const Adding& adding) { return 2 * adding.right(); }},
    {.told = {"adds_one_more", "adds cells that nobody certified"},
     .adds = [](const Adding& adding) { return adding.right() + 1; }},
    {.told = {"adds_a_term_of_zero", "a term that changes nothing", Let::harmless,
              "the sum is the same whole numbers"},
     .adds = [](const Adding& adding) { return adding.right() + 0 * adding.cell; }},
    {.told = {"adds_the_first_only", "adds the first example of each pass"},
     .adds = [](const Adding& adding) { return (adding.i == 0 ? 1 : 0) * adding.right(); }},
    {.told = {"adds_nothing", "adds nothing: noise alone"},
     .adds = [](const Adding& adding) { return 0 * adding.cell; }},
    {.told = {"adds_half", "adds half of the cells"},
     .adds = [](const Adding& adding) { return adding.right() / 2; }},
    {.told = {"adds_more_every_call", "adds more from call to call"},
     .adds =
         [](const Adding& adding) {
           return adding.right() + (++adding.self.calls_ > 500 ? 1 : 0);
         }},
    {.told = {"adds_in_32_bits", "sums that wrap at 32 bits"},
     .adds =
         [](const Adding& adding) {
           return std::int64_t{static_cast<std::int32_t>(4096 * adding.right())} / 4096;
         }},
});

Length at_most_the_bound(Length length, Length most) { return std::min(length, most * most); }

/// Faults that only show with many examples, many passes or the full bound.
const std::array kRareTable = std::to_array<Row>({
    {.told = {"right_too", "nothing: the control"}},
    {.told = {"twice_in_one_pass_of_101", "right for a hundred passes, then twice the cells"},
     .adds =
         [](const Adding& adding) {
           return (adding.self.passes_ % 101 == 100 ? 2 : 1) * adding.right();
         }},
    {.told = {"thrice_one_example_in_a_hundred",
              "three times the cells of one example in a hundred, after its length was certified"},
     .adds =
         [](const Adding& adding) { return (adding.is_of_rare_row() ? 3 : 1) * adding.right(); }},
    {.told = {"a_hundredth_more_told_short",
              "cells a hundredth too long, and the bound told in place of their length"},
     .cell = [](const Cell& cell) { return 1.01 * cell.right(); },
     .told_length = at_most_the_bound},
    {.told = {"rounded_to_nearest_told_short",
              "cells rounded to nearest, and the bound told where they are longer"},
     .cell = [](const Cell& cell) { return longer_by(cell, 0.5); },
     .told_length = at_most_the_bound},
    {.told = {"rounded_away_told_short",
              "cells rounded away from zero, and the bound told where they are longer"},
     .cell = [](const Cell& cell) { return longer_by(cell, 1.0); },
     .told_length = at_most_the_bound},
});

template <const auto& Table, std::size_t I>
class FaultyProgram final : public Base {
 public:
  using Base::Base;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    ++passes_;
    Base::backward(batch, pass, squared_norms);
  }
  double squared_norm(const Rows& rows, std::size_t i) const override {
    return Table[I].norm != nullptr ? Table[I].norm({*this, rows, i}) : Base::squared_norm(rows, i);
  }
  double scaled(const Cell& cell) const override {
    return Table[I].cell != nullptr ? Table[I].cell(cell) : Base::scaled(cell);
  }
  Length told(Length length, Length most) const override {
    return Table[I].told_length != nullptr ? Table[I].told_length(length, most) : length;
  }
  std::int64_t share(const Rows& rows, std::int64_t cell, bool is_taken,
                     std::size_t i) const override {
    return Table[I].adds != nullptr ? Table[I].adds({*this, rows, cell, is_taken, i})
                                    : Base::share(rows, cell, is_taken, i);
  }
};

template <std::size_t I>
using Faulty = OneLayerBackend<FaultyProgram<kTable, I>>;
template <std::size_t I>
using RarelyFaulty = OneLayerBackend<FaultyProgram<kRareTable, I>>;

}  // namespace exact_programs

std::vector<Fault> exact_program_faults() {
  using namespace exact_programs;
  const auto place = [](const Row& row) {
    return std::vector<std::string>{std::string("backend=") + row.told.id};
  };
  std::vector<Fault> faults = faults_of<Backend, Faulty>(kTable, "exact_program", place);
  for (Fault& fault : faults_of<Backend, RarelyFaulty>(kRareTable, "exact_program", place)) {
    if (fault.id != "exact_program/right_too") faults.push_back(std::move(fault));
  }
  return faults;
}
