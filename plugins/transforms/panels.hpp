// Products of examples with a matrix, for transforms that project or mix features.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "privgrad/wide_registers.hpp"

// Each plugin that includes this is compiled with -ffp-contract=off.

/// The rows of a matrix, laid out so that a loop over the features makes several components at
/// once: of each component it is the sum over the features in their order, each product and each
/// sum with a rounding of its own. So its bits do not depend on the number of lanes, on the
/// example's place, or on which others there are. (dgemm adds up otherwise for rows at the edge of
/// a block.)
class Panels {
 public:
  Panels() = default;

  /// \param directions  [count, features].
  Panels(const std::vector<double>& directions, std::size_t features)
      : features_(features),
        count_(directions.size() / features),
        values_((count_ + kWidth - 1) / kWidth * kWidth * features) {
    for (std::size_t i = 0; i < count_; ++i) {
      double* column = values_.data() + i / kWidth * kWidth * features + i % kWidth;
      for (std::size_t j = 0; j < features; ++j) column[j * kWidth] = directions[i * features + j];
    }
  }

  std::size_t features() const { return features_; }
  std::size_t count() const { return count_; }

  /// \returns what they were made of.
  std::vector<double> directions() const {
    std::vector<double> result(count_ * features_);
    for (std::size_t i = 0; i < count_; ++i) {
      const double* column = values_.data() + i / kWidth * kWidth * features_ + i % kWidth;
      for (std::size_t j = 0; j < features_; ++j) result[i * features_ + j] = column[j * kWidth];
    }
    return result;
  }

  /// out[r, i] = sum over j of vectors[r, j] * directions[i, j], in double.
  /// \param vectors  [n, features], of any n: the matrix is read once for all of them.
  /// \param out  [n, count].
  void project(std::span<const double> vectors, std::span<float> out) const {
    if (privgrad::instruction_set() >= privgrad::InstructionSet::avx2) {
      privgrad::in_wide_registers([&] { project_by<kWidth, 4>(vectors, out); });
    } else {
      project_by<kWidth / 2, 2>(vectors, out);  // as many as its registers hold
    }
  }

 private:
  static constexpr std::size_t kWidth = 16;  // a panel of 2000 features fits into a core's second cache

  /// kAtOnce components of a vector, or half as many of two, fill the registers; kLanes of them are
  /// in one.
  template <std::size_t kAtOnce, std::size_t kLanes>
  [[gnu::always_inline]] inline void project_by(std::span<const double> vectors,
                                                std::span<float> out) const {
    const std::size_t n = vectors.size() / features_;
    for (std::size_t panel = 0; panel < count_; panel += kWidth) {
      std::size_t r = 0;
      for (; r + 2 <= n; r += 2) put<kAtOnce / 2, kLanes, 2>(vectors, r, panel, out);
      if (r < n) put<kAtOnce, kLanes, 1>(vectors, r, panel, out);
    }
  }

  /// The components of a panel of kVectors vectors from r on.
  template <std::size_t kAtOnce, std::size_t kLanes, std::size_t kVectors>
  [[gnu::always_inline]] inline void put(std::span<const double> vectors, std::size_t r,
                                         std::size_t panel, std::span<float> out) const {
    for (std::size_t first = panel; first < std::min(panel + kWidth, count_); first += kAtOnce) {
      double sums[kVectors][kAtOnce];
      add_up<kAtOnce, kLanes, kVectors>(vectors.data() + r * features_,
                                        values_.data() + panel * features_ + (first - panel), sums);
      const std::size_t width = std::min(kAtOnce, count_ - first);
      for (std::size_t v = 0; v < kVectors; ++v) {
        float* to = out.data() + (r + v) * count_ + first;
        for (std::size_t i = 0; i < width; ++i) to[i] = static_cast<float>(sums[v][i]);
      }
    }
  }

  template <std::size_t kAtOnce, std::size_t kLanes, std::size_t kVectors>
  [[gnu::always_inline]] inline void add_up(const double* vectors, const double* panel,
                                            double (&out)[kVectors][kAtOnce]) const {
    typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
    Lanes sums[kVectors][kAtOnce / kLanes] = {};
    for (std::size_t j = 0; j < features_; ++j, panel += kWidth) {
      for (std::size_t k = 0; k < kAtOnce / kLanes; ++k) {
        Lanes weights;
        std::memcpy(&weights, panel + k * kLanes, sizeof(Lanes));
        for (std::size_t v = 0; v < kVectors; ++v)
          sums[v][k] += vectors[v * features_ + j] * weights;
      }
    }
    std::memcpy(out, sums, sizeof(sums));
  }

  std::size_t features_ = 0, count_ = 0;
  std::vector<double> values_;  ///< [panels, features, kWidth], zero beyond the last direction.
};
