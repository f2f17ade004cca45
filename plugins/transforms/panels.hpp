// Products of examples with a matrix, for transforms that project or mix features.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "privgrad/wide_registers.hpp"

// Each plugin that includes this is compiled with -ffp-contract=off.

/// The rows of a matrix, laid out so that a loop over the features computes several components at
/// once. Each component is the sum over the features in their order, with each product and each sum
/// rounded separately. So its bits do not depend on the number of lanes, on the example's place, or
/// on the other examples. (dgemm adds in a different order for rows at the edge of a block.)
class Panels {
 public:
  Panels() = default;

  /// \param directions  [count, features].
  Panels(const std::vector<double>& directions, std::size_t features)
      : features_(features),
        count_(directions.size() / features),
        values_((count_ + kWidth - 1) / kWidth * features) {
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < features; ++j)
        values_[i / kWidth * features + j].of[i % kWidth] = directions[i * features + j];
    }
  }

  std::size_t features() const { return features_; }
  std::size_t count() const { return count_; }

  /// \returns the matrix from which the panels were made.
  std::vector<double> directions() const {
    std::vector<double> result(count_ * features_);
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < features_; ++j)
        result[i * features_ + j] = values_[i / kWidth * features_ + j].of[i % kWidth];
    }
    return result;
  }

  /// out[r, i] = sum over j of vectors[r, j] * directions[i, j], in double.
  /// \param vectors  [n, features], for any n: the matrix is read once for all of them.
  /// \param out  [n, count].
  void project(std::span<const double> vectors, std::span<float> out) const {
    if (privgrad::instruction_set() >= privgrad::InstructionSet::avx2) {
      privgrad::in_wide_registers([&] { project_by<kWidth, 4>(vectors, out); });
    } else {
      project_by<kWidth / 2, 2>(vectors, out);
    }
  }

 private:
  static constexpr std::size_t kWidth = 8;
  static constexpr std::size_t kTogether = 4;  // vectors that are processed together
  static constexpr std::size_t kBlock = 512;   // features; a panel of them takes 32 KiB

  /// The weights of one feature for a panel's components: one cache line.
  struct alignas(kWidth * sizeof(double)) Weights {
    double of[kWidth] = {};
  };

  /// Loads each block of a panel once for all vectors, and stores the vectors' partial sums between
  /// blocks. kAtOnce components of kTogether vectors are summed at a time, in eight registers of
  /// kLanes.
  template <std::size_t kAtOnce, std::size_t kLanes>
  [[gnu::always_inline]] inline void project_by(std::span<const double> vectors,
                                                std::span<float> out) const {
    const std::size_t n = vectors.size() / features_;
    std::vector<double> sums(n * kWidth);
    for (std::size_t first = 0; first < count_; first += kWidth) {
      std::ranges::fill(sums, 0.0);
      for (std::size_t begin = 0; begin < features_; begin += kBlock) {
        const std::size_t size = std::min(kBlock, features_ - begin);
        const Weights* panel = values_.data() + first / kWidth * features_ + begin;
        std::size_t r = 0;
        for (; r + kTogether <= n; r += kTogether) {
          add_up<kAtOnce, kLanes, kTogether>(vectors.data() + r * features_ + begin, panel, size,
                                             sums.data() + r * kWidth);
        }
        for (; r < n; ++r) {
          add_up<kWidth, kLanes, 1>(vectors.data() + r * features_ + begin, panel, size,
                                    sums.data() + r * kWidth);
        }
      }
      const std::size_t width = std::min(kWidth, count_ - first);
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < width; ++i)
          out[r * count_ + first + i] = static_cast<float>(sums[r * kWidth + i]);
      }
    }
  }

  /// Adds the products of `size` features to the sums of a panel's components, [kVectors, kWidth].
  template <std::size_t kAtOnce, std::size_t kLanes, std::size_t kVectors>
  [[gnu::always_inline]] inline void add_up(const double* vectors, const Weights* panel,
                                            std::size_t size, double* sums_so_far) const {
    typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
    constexpr std::size_t kRegisters = kAtOnce / kLanes;
    for (std::size_t first = 0; first < kWidth; first += kAtOnce) {
      Lanes sums[kVectors][kRegisters];
      for (std::size_t v = 0; v < kVectors; ++v)
        std::memcpy(sums[v], sums_so_far + v * kWidth + first, sizeof(sums[v]));
      for (std::size_t j = 0; j < size; ++j) {
        for (std::size_t k = 0; k < kRegisters; ++k) {
          Lanes weights;
          std::memcpy(&weights, panel[j].of + first + k * kLanes, sizeof(Lanes));
          for (std::size_t v = 0; v < kVectors; ++v)
            sums[v][k] += vectors[v * features_ + j] * weights;
        }
      }
      for (std::size_t v = 0; v < kVectors; ++v)
        std::memcpy(sums_so_far + v * kWidth + first, sums[v], sizeof(sums[v]));
    }
  }

  std::size_t features_ = 0, count_ = 0;
  std::vector<Weights> values_;  ///< [panels, features], zero beyond the last direction.
};
