// Fast loops over long arrays, such as sums of squares and windows, the same on all processors.
#pragma once

#include <cstddef>
#include <cstring>

// The loops are compiled for several instruction sets, one of which is chosen at run time. They use
// no fused multiply-add, so elementwise results are the same on every processor; so are sums,
// because they always use sixteen lanes.
namespace privgrad::cpu {

/// Sum of squares in double. Relative error at most (count / 16 + 20) 2^-53.
double sum_of_squares(const float* values, std::size_t count);

/// Returns the largest absolute value; NaN if any value is NaN, 0 if there are no values.
float largest_size(const float* values, std::size_t count);

/// Copies arrays that are often so short that calling memcpy costs more than the copy.
template <class Number>
void copy_short(const Number* from, std::size_t count, Number* to) {
  static_assert(sizeof(Number) == 4);
  if (count > 64) {
    std::memcpy(to, from, count * sizeof(Number));
    return;
  }
  // A copy of a compile-time size compiles to one or two moves.
  for (; count >= 8; count -= 8, from += 8, to += 8) std::memcpy(to, from, 8 * sizeof(Number));
  for (; count >= 4; count -= 4, from += 4, to += 4) std::memcpy(to, from, 4 * sizeof(Number));
  for (; count >= 1; --count, ++from, ++to) std::memcpy(to, from, sizeof(Number));
}

/// Copies an array, unless source and destination are the same.
inline void copy(const float* from, std::size_t count, float* to) {
  if (from != to) std::memcpy(to, from, count * sizeof(float));
}

/// sum += values.
void add(const float* values, std::size_t count, float* sum);

/// sum += factor * values, each product and each sum rounded to float32.
void add_scaled(float factor, const float* values, std::size_t count, float* sum);

/// One row of the windows that a pool moves over an image: `columns` windows, `step` floats apart,
/// each with the pixels of `depth` channels at `places` offsets from its corner.
struct Windows {
  const std::size_t* offsets = nullptr;
  std::size_t places = 0, columns = 0, step = 0, depth = 0;
};

/// out[column] = the largest value of each channel over the window's places; a NaN counts as the
/// largest.
/// \param corner  the corner of the first window.
/// \param out  [columns, depth].
void largest_in_windows(const Windows& windows, const float* corner, float* out);

/// For each window and channel, adds delta to the first place that has the window's largest value.
/// \param out, delta  [columns, depth].
/// \param below  has the layout of `corner`.
/// \param taken  memory for `depth` ints.
void hand_down_windows(const Windows& windows, const float* corner, const float* out,
                       const float* delta, float* below, int* taken);

}  // namespace privgrad::cpu
