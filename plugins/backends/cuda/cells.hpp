// Kernels that compute norms, round contributions to integers ("cells"), and add them up.
#pragma once

#include "layers.hpp"
#include "rounding.hpp"

// Rounding is the same as in the backend `cpu` (plugins/backends/cpu/layers/dense.cpp has the
// reasons): the same forward pass gives the same cells. The reported length is computed in integers
// from the cells that are added up, and there is no atomic addition of floats.
namespace privgrad::cuda {

/// The data kept about an example in a group between two calls.
struct Share {
  double squared_norm;
  double scale;        // from make_cells(); 0 if there is nothing to add
  double step;         // the step of a convolution's integers
  float input, error;  // for a dense layer or a convolution: the largest absolute values
};

/// The share by which a product is shrunk before its factors are rounded to nearest.
constexpr double kMargin = 0x1p-11;
/// The share by which truncated numbers are shrunk.
constexpr double kRoundingMargin = 0x1p-20;

/// Returns the same NaN for all gradients that are not finite.
PRIVGRAD_HD double norm_or_nan(double squared) {
  return is_finite(squared) ? squared : double_of(kDoubleNan);
}

/// Returns the factor that turns the integers of a convolution's kept gradient into cells.
PRIVGRAD_HD float place_factor(const Share& share) {
  return static_cast<float>(share.scale * (1.0 - kRoundingMargin) * share.step);
}

// --- Statistics of rows.

/// Returns the sum of the lanes' squares, in the order of the backend `cpu`.
PRIVGRAD_HD double sum_of_statistics(const double (&lane)[kRowLanes]) {
  double all[4];
  for (uint32_t l = 0; l < 4; ++l) {
    all[l] = (lane[l] + lane[4 + l]) + (lane[8 + l] + lane[12 + l]);
  }
  return (all[0] + all[1]) + (all[2] + all[3]);
}

/// Computes, for each row of values [rows, length], the largest absolute value (NaN if a value is
/// NaN), and the sum of squares in double.
struct RowStatistics {
  struct Shared {
    Lanes<double> squares;
    Lanes<uint32_t> largest;
  };

  uint64_t rows, length;
  const float* values;
  float* largest;
  double* squares;

  uint64_t blocks() const { return blocks_of_rows(rows); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t whole = length / kRowLanes * kRowLanes;
    each_thread([&](uint32_t thread) {
      const uint64_t row = row_of_thread(block, thread);
      const float* own = values + row * length;
      double sum = 0.0;
      uint32_t most = 0;
      for (uint64_t i = thread % kRowLanes; row < rows && i < length; i += kRowLanes) {
        most = larger(most, bits_of(own[i]) & 0x7fffffffu);
        if (i < whole) sum += static_cast<double>(own[i]) * static_cast<double>(own[i]);
      }
      shared.squares.of(thread) = sum;
      shared.largest.of(thread) = most;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t row = row_of_thread(block, thread);
      if (thread % kRowLanes != 0 || row >= rows) return;
      const float* own = values + row * length;
      double sum = 0.0;
      for (uint64_t i = whole; i < length; ++i) {
        sum += static_cast<double>(own[i]) * static_cast<double>(own[i]);
      }
      squares[row] = sum + sum_of_statistics(shared.squares.values[thread / kRowLanes]);
      largest[row] = float_of(shared.largest.largest(thread));
    });
  }
};

/// For kernels with one block per row: the parts of a result, one from each thread of the block.
struct SumOfBlock {
  uint64_t parts[kThreads];
};

/// shared.parts[0] = the sum of the parts that the threads have written.
PRIVGRAD_HD void add_parts(SumOfBlock& shared) {
  for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
    each_thread([&](uint32_t thread) {
      if (thread < half) shared.parts[thread] += shared.parts[thread + half];
    });
  }
}

/// shared.parts[0] = the maximum of the parts that the threads have written.
PRIVGRAD_HD void largest_part(SumOfBlock& shared) {
  for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
    each_thread([&](uint32_t thread) {
      if (thread < half) {
        shared.parts[thread] = larger(shared.parts[thread], shared.parts[thread + half]);
      }
    });
  }
}

// --- Norms. The statistics of the group's inputs and errors are computed first.

/// || delta a^T ||^2 + || delta ||^2: the squared norms of the gradients of weights and biases.
struct DenseNorm {
  uint64_t count, groups, group;
  bool has_biases;
  const float *largest_input, *largest_error;
  const double *input_squares, *error_squares;
  Share* shares;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    Share& share = shares[i * groups + group];
    share.input = largest_input[i];
    share.error = largest_error[i];
    share.squared_norm =
        norm_or_nan((input_squares[i] + (has_biases ? 1.0 : 0.0)) * error_squares[i]);
  }
};

/// Computes the norms of gradients that are kept as rows.
struct RowNorm {
  uint64_t count, groups, group;
  const double* squares;
  Share* shares;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    shares[i * groups + group].squared_norm = norm_or_nan(squares[i]);
  }
};

/// Computes the squared norms of the rows of a table's gradient: at the first place of each token,
/// the squared norm of that token's row, added up as in RowStatistics.
struct TokenRowSquares {
  using Shared = Lanes<double>;

  uint64_t count;  // [rows, length]
  Table table;
  const float *in, *delta;
  double* squares;  // [rows, length]

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      double sum = 0.0;
      for (uint64_t k = thread % kRowLanes; is_first(i) && k < whole(); k += kRowLanes)
        sum += square(i, k);
      shared.of(thread) = sum;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (thread % kRowLanes != 0 || !is_first(i)) return;
      double sum = 0.0;
      for (uint64_t k = whole(); k < table.width; ++k) sum += square(i, k);
      squares[i] = sum + sum_of_statistics(shared.values[thread / kRowLanes]);
    });
  }

 private:
  PRIVGRAD_HD uint64_t whole() const { return table.width / kRowLanes * kRowLanes; }
  PRIVGRAD_HD const float* example(uint64_t i) const {
    return in + i / table.length * table.length;
  }
  PRIVGRAD_HD bool is_first(uint64_t i) const {
    return i < count && table.is_first(example(i), i % table.length);
  }
  PRIVGRAD_HD double square(uint64_t i, uint64_t k) const {
    const float* errors = delta + i / table.length * table.length * table.width;
    const auto x = static_cast<double>(table.gradient(example(i), errors, i % table.length, k));
    return x * x;
  }
};

/// Computes the norms of a table's gradients, adding the squares of the occurring tokens in order.
struct TokenNorm {
  uint64_t count, groups, group;
  Table table;
  const float* in;
  const double* row_squares;  // from TokenRowSquares
  Share* shares;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float* own = in + i * table.length;
    double squares = double_of(kDoubleNan);
    if (table.are_tokens(own)) {
      squares = 0.0;
      float last = -1.0f;
      for (uint64_t t = next(own, last); t < table.length; t = next(own, last)) {
        squares += row_squares[i * table.length + t];
        last = own[t];
      }
    }
    shares[i * groups + group].squared_norm = norm_or_nan(squares);
  }

 private:
  /// Returns the first place of the smallest token above `last`; `length` if there is no such
  /// token.
  PRIVGRAD_HD uint64_t next(const float* own, float last) const {
    uint64_t found = table.length;
    for (uint64_t t = 0; t < table.length; ++t) {
      if (own[t] > last && (found == table.length || own[t] < own[found])) found = t;
    }
    return found;
  }
};

// --- Convolutions: integer sums over places, kept as int16.

/// Chooses how delta and the image are rounded: to integers so small that the sum over the places
/// fits in int32, or to 0 if the numbers are not finite, or all 0.
struct ChoosePlaceRoundings {
  uint64_t count, groups, group;
  // the largest integer up to 2^14 whose square, times the number of places, fits in int32
  double largest_factor;
  const float *largest_input, *largest_error;
  Share* shares;
  PlaceRoundings* roundings;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float input = largest_input[i];
    const float error = largest_error[i];
    Share& share = shares[i * groups + group];
    share.input = input;
    share.error = error;
    roundings[i] = {};
    if (!is_finite(input) || !is_finite(error) || input == 0.0f || error == 0.0f) return;
    roundings[i].of_image =
        make_rounding(largest_factor / static_cast<double>(input), input, false);
    roundings[i].of_delta =
        make_rounding(largest_factor / static_cast<double>(error), error, false);
  }
};

/// Rounds one example's sums to int16, relative to their largest absolute value, and computes the
/// norm of its group.
struct ShrinkPlaceSums {
  using Shared = SumOfBlock;

  uint64_t rows, length;  // length: the number of weights
  uint64_t groups, group;
  const PlaceRoundings* roundings;
  const int32_t* sums;
  const double* bias_squares;
  int16_t* whole;
  Share* shares;

  uint64_t blocks() const { return rows; }

  PRIVGRAD_HD void run(uint64_t row, Shared& shared) const {
    const int32_t* own = sums + row * length;
    each_thread([&](uint32_t thread) {
      uint64_t most = 0;
      for (uint64_t i = thread; i < length; i += kThreads) {
        most = larger<uint64_t>(most, static_cast<uint64_t>(own[i] < 0 ? -own[i] : own[i]));
      }
      shared.parts[thread] = most;
    });
    largest_part(shared);
    PerThread<float> shrink;
    each_thread([&](uint32_t thread) {
      const auto top = static_cast<float>(static_cast<int32_t>(shared.parts[0]));
      shrink[thread] = top > 0.0f ? smaller(1.0f, 32766.0f / top) : 0.0f;
    });
    each_thread([&](uint32_t thread) {
      uint64_t squares = 0;
      for (uint64_t i = thread; i < length; i += kThreads) {
        const float product = shrink[thread] * static_cast<float>(own[i]);
        const auto small = static_cast<int32_t>((product + kToNearest) - kToNearest);
        whole[row * length + i] = static_cast<int16_t>(small);
        squares += static_cast<uint32_t>(small * small);
      }
      shared.parts[thread] = squares;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) finish(row, shrink[thread], shared.parts[0]);
    });
  }

 private:
  PRIVGRAD_HD void finish(uint64_t row, float shrink, uint64_t squares) const {
    Share& share = shares[row * groups + group];
    const bool finite = is_finite(share.input) && is_finite(share.error);
    share.step = finite ? 0.0 : double_of(kDoubleNan);
    if (shrink > 0.0f) {
      share.step = 1.0 / (factor_of(roundings[row].of_image) * factor_of(roundings[row].of_delta) *
                          static_cast<double>(shrink));
    }
    share.squared_norm =
        norm_or_nan(static_cast<double>(squares) * (share.step * share.step) + bias_squares[row]);
  }
};

// --- Cells.

/// Chooses how a dense layer's operands are rounded: towards zero for examples marked in
/// `truncates`.
struct ChooseDenseRoundings {
  uint64_t count, groups, group;
  bool has_biases;
  const Share* shares;
  const uint8_t* truncates;
  DenseRoundings* roundings;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const Share& share = shares[i * groups + group];
    DenseRoundings& own = roundings[i];
    own = {};
    if (share.scale == 0.0) return;
    const bool truncate = truncates[i] != 0;
    const auto input = static_cast<double>(share.input);
    const auto error = static_cast<double>(share.error);
    const double scale = share.scale * (1.0 - (truncate ? kRoundingMargin : kMargin));
    const double root = square_root(scale * (input * error));
    if (input > 0.0) own.of_inputs = make_rounding(root / input, share.input, truncate);
    if (error > 0.0) own.of_units = make_rounding(root / error, share.error, truncate);
    if (!has_biases) return;
    own.of_biases = make_rounding(share.scale * (1.0 - kRoundingMargin), share.error, true);
  }
};

/// The parts of an example's squared length in one group, which is inputs * units + others.
struct SquareParts {
  uint64_t inputs, units, others;
};

/// Makes one example's operands of a dense layer, and their squares: two vectors of integers whose
/// product gives the cells of the weights. Every integer is within int16.
struct RoundOperands {
  using Shared = SumOfBlock;

  uint64_t rows, inputs, units;
  const float *in, *delta;
  const DenseRoundings* roundings;
  int16_t *whole_inputs, *whole_units;
  SquareParts* squares;

  uint64_t blocks() const { return rows; }

  PRIVGRAD_HD void run(uint64_t row, Shared& shared) const {
    const DenseRoundings& own = roundings[row];
    each_thread([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint64_t i = thread; i < inputs; i += kThreads) {
        const int32_t x = rounded(in[row * inputs + i], own.of_inputs);
        whole_inputs[row * inputs + i] = static_cast<int16_t>(x);
        sum += static_cast<uint64_t>(int64_t{x} * x);
      }
      shared.parts[thread] = sum;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) squares[row].inputs = shared.parts[0];
    });
    each_thread([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint64_t u = thread; u < units; u += kThreads) {
        const int32_t x = rounded(delta[row * units + u], own.of_units);
        whole_units[row * units + u] = static_cast<int16_t>(x);
        sum += static_cast<uint64_t>(int64_t{x} * x);
      }
      shared.parts[thread] = sum;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) squares[row].units = shared.parts[0];
    });
    each_thread([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint64_t u = thread; u < units; u += kThreads) {
        const int32_t x = rounded(delta[row * units + u], own.of_biases);
        sum += static_cast<uint64_t>(int64_t{x} * x);
      }
      shared.parts[thread] = sum;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) squares[row].others = shared.parts[0];
    });
  }
};

/// Computes the squares of an example's cells for truncated rows: floats, or a convolution's int16
/// numbers and its biases.
struct RowSquares {
  using Shared = SumOfBlock;

  uint64_t rows, length;  // rows, and floats in a row
  uint64_t whole_length;  // int16 numbers in a row; 0 for none
  uint64_t groups, group;
  const Share* shares;
  const float* kept;
  const int16_t* whole;
  SquareParts* squares;

  uint64_t blocks() const { return rows; }

  PRIVGRAD_HD void run(uint64_t row, Shared& shared) const {
    const Share& share = shares[row * groups + group];
    each_thread([&](uint32_t thread) {
      uint64_t sum = 0;
      if (share.scale != 0.0) {
        const double scale = share.scale * (1.0 - kRoundingMargin);
        for (uint64_t i = thread; i < length; i += kThreads) {
          const int64_t cell = truncated(scale, kept[row * length + i]);
          sum += static_cast<uint64_t>(cell * cell);
        }
        const float factor = whole_length == 0 ? 0.0f : place_factor(share);
        for (uint64_t i = thread; i < whole_length; i += kThreads) {
          const int64_t cell = truncated(factor, whole[row * whole_length + i]);
          sum += static_cast<uint64_t>(cell * cell);
        }
      }
      shared.parts[thread] = sum;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) squares[row] = {0, 0, shared.parts[0]};
    });
  }
};

/// Computes the squares of an example's cells for the rows of a table.
struct TokenSquares {
  using Shared = SumOfBlock;

  uint64_t rows, groups, group;
  Table table;
  const Share* shares;
  const float *in, *delta;
  SquareParts* squares;

  uint64_t blocks() const { return rows; }

  PRIVGRAD_HD void run(uint64_t row, Shared& shared) const {
    const double scale = shares[row * groups + group].scale * (1.0 - kRoundingMargin);
    const float* own = in + row * table.length;
    const float* errors = delta + row * table.length * table.width;
    each_thread([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint64_t t = 0; t < table.length && scale != 0.0; ++t) {
        if (!table.is_first(own, t)) continue;
        for (uint64_t k = thread; k < table.width; k += kThreads) {
          const int64_t cell = truncated(scale, table.gradient(own, errors, t, k));
          sum += static_cast<uint64_t>(cell * cell);
        }
      }
      shared.parts[thread] = sum;
    });
    add_parts(shared);
    each_thread([&](uint32_t thread) {
      if (thread == 0) squares[row] = {0, 0, shared.parts[0]};
    });
  }
};

/// Computes each example's squared length over all groups, and whether the example is too long and
/// must be rounded again.
struct SumSquares {
  uint64_t count, groups, most_rows;
  Wide most;
  const SquareParts* squares;  // [groups, most_rows]
  Wide* lengths;
  uint8_t* truncates;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    Wide length = {0, 0};
    for (uint64_t group = 0; group < groups; ++group) {
      const SquareParts& own = squares[group * most_rows + i];
      length = sum_of(length, product_of(own.inputs, own.units));
      length = sum_of(length, {0, own.others});
    }
    lengths[i] = length;
    if (is_larger(length, most)) truncates[i] = 1;
  }
};

// --- Sums, modulo 2^64, over the taken examples.

/// Adds up the cells of kParameters parameters, one parameter per thread, over kExamples examples
/// in each block. `Cells` provides the number of parameters (count), the number of rows, the rows
/// that are taken, the cell at(row, i), and the sum.
template <class Cells>
struct SumOfCells {
  static constexpr uint32_t kParameters = 32, kLanes = kThreads / kParameters, kExamples = 256;
  struct Shared {
    int64_t parts[kLanes][kParameters];
  };

  Cells cells;

  uint64_t blocks() const { return across() * ((cells.rows + kExamples - 1) / kExamples); }
  PRIVGRAD_HD uint64_t across() const { return (cells.count + kParameters - 1) / kParameters; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t first = block / across() * kExamples;
    const uint64_t end = smaller(cells.rows, first + kExamples);
    const uint64_t left = block % across() * kParameters;
    each_thread([&](uint32_t thread) {
      const uint64_t i = left + thread % kParameters;
      int64_t sum = 0;
      for (uint64_t row = first + thread / kParameters; row < end && i < cells.count;
           row += kLanes) {
        if (cells.taken[row] != 0) sum += cells.at(row, i);
      }
      shared.parts[thread / kParameters][thread % kParameters] = sum;
    });
    each_thread([&](uint32_t thread) {
      if (thread >= kParameters || left + thread >= cells.count) return;
      int64_t sum = 0;
      for (uint32_t lane = 0; lane < kLanes; ++lane) sum += shared.parts[lane][thread];
      add_to(cells.sum + left + thread, static_cast<uint64_t>(sum));
    });
  }
};

struct BiasCells {
  uint64_t count;  // units
  uint64_t rows;
  const float* delta;
  const DenseRoundings* roundings;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD int32_t at(uint64_t row, uint64_t u) const {
    return rounded(delta[row * count + u], roundings[row].of_biases);
  }
};

struct RowCells {
  uint64_t count;  // parameters
  uint64_t rows, groups, group;
  const Share* shares;
  const float* kept;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD int32_t at(uint64_t row, uint64_t i) const {
    const double scale = shares[row * groups + group].scale * (1.0 - kRoundingMargin);
    return scale == 0.0 ? 0 : truncated(scale, kept[row * count + i]);
  }
};

struct WholeCells {
  uint64_t count;  // weights of a convolution
  uint64_t rows, groups, group;
  const Share* shares;
  const int16_t* whole;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD int32_t at(uint64_t row, uint64_t i) const {
    const Share& share = shares[row * groups + group];
    return share.scale == 0.0 ? 0 : truncated(place_factor(share), whole[row * count + i]);
  }
};

struct TokenSums {
  uint64_t count;  // [rows, length, width]
  uint64_t groups, group;
  Table table;
  const Share* shares;
  const float *in, *delta;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t row = i / table.width / table.length;
    const uint64_t t = i / table.width % table.length, k = i % table.width;
    const double scale = shares[row * groups + group].scale * (1.0 - kRoundingMargin);
    const float* own = in + row * table.length;
    if (taken[row] == 0 || scale == 0.0 || !table.is_first(own, t)) return;
    const float gradient = table.gradient(own, delta + row * table.length * table.width, t, k);
    add_to(sum + static_cast<uint64_t>(own[t]) * table.width + k,
           static_cast<uint64_t>(int64_t{truncated(scale, gradient)}));
  }
};

}  // namespace privgrad::cuda
