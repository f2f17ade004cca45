// Flips coins of a given probability, one for each row.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "privgrad/random.hpp"

/// Calls chosen(row) for every row that wins its own Bernoulli(q) draw, in increasing order.
///
/// Exact for every double q, also near 0 and 1: a row wins if its infinite binary fraction
/// U = 0.u1 u2 ... is below q. 63 rows at a time are compared with q, one binary digit after the
/// other, until every row has differed from q in a digit. This takes about 8 draws for 63 rows,
/// whatever q is. All digits after q's last digit are 0, so no row can win there.
template <class Chosen>
void bernoulli_rows(double q, std::size_t rows, privgrad::RandomStream& stream,
                    const Chosen& chosen) {
  constexpr std::size_t kLanes = 63;
  constexpr std::uint64_t kAll = (std::uint64_t{1} << kLanes) - 1;
  for (std::size_t first = 0; first < rows; first += kLanes) {
    const std::size_t left = rows - first;
    std::uint64_t undecided = left >= kLanes ? kAll : (std::uint64_t{1} << left) - 1;
    std::uint64_t winners = 0;
    double rest = q;  // doubling and subtracting 1 are exact
    if (rest >= 1.0) {
      winners = undecided;
      rest = 0.0;
    }
    while (undecided != 0 && rest > 0.0) {
      rest *= 2.0;
      const std::uint64_t draw = stream.uniform_below(kAll + 1);
      if (rest >= 1.0) {
        rest -= 1.0;
        winners |= undecided & ~draw;  // the row's digit is 0, and q's is 1: the row wins
        undecided &= draw;
      } else {
        undecided &= ~draw;  // the row's digit is 1, and q's is 0: the row loses
      }
    }
    for (; winners != 0; winners &= winners - 1) {
      chosen(first + static_cast<std::size_t>(std::countr_zero(winners)));
    }
  }
}
