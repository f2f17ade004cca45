// Matrix mechanisms and trees as public matrices, and the sensitivity of their releases: by
// definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/participation.hpp"

/// A public matrix C whose product with the steps' bounded sums is released with independent
/// Gaussian noise of one standard deviation on every row: y_r = sum_t C_rt x_t + sigma zeta_r.
/// Trees and matrix mechanisms are of this kind; what they publish in the end is computed from y.
class LinearMechanism {
 public:
  struct Entry {
    std::uint64_t row;
    double value;
  };

  /// Returns binary-tree aggregation (Dwork et al. 2010, Chan et al. 2011): one row of ones for
  /// each complete aligned block of 2^b steps inside [0, completed_to). Blocks that reach beyond
  /// completed_to are never finished, and so never released.
  /// \param completed_to  >= steps: further steps without data, which complete more blocks (tree
  ///   completion).
  static LinearMechanism tree(std::uint64_t steps, std::uint64_t completed_to);
  static LinearMechanism tree(std::uint64_t steps) { return tree(steps, steps); }

  /// Returns the lower-triangular Toeplitz matrix with this first column.
  static LinearMechanism toeplitz(std::span<const double> first_column);

  /// The given mechanisms one after the other, each with its own noise: a tree with restarts.
  static LinearMechanism in_sequence(const std::vector<LinearMechanism>& parts);

  std::uint64_t steps() const { return columns_.size(); }
  std::uint64_t rows() const { return rows_; }
  /// Returns the rows that the data of one step enter.
  /// \param step  below steps().
  std::span<const Entry> column(std::uint64_t step) const { return columns_.at(step); }

 private:
  std::vector<std::vector<Entry>> columns_;
  std::uint64_t rows_ = 0;
};

inline LinearMechanism LinearMechanism::tree(std::uint64_t steps, std::uint64_t completed_to) {
  if (completed_to < steps) {
    throw privgrad::ConfigError("a tree over " + std::to_string(steps) +
                                " steps cannot end at step " + std::to_string(completed_to));
  }
  LinearMechanism result;
  result.columns_.resize(steps);
  for (std::uint64_t size = 1; size != 0 && size <= completed_to; size *= 2) {
    const std::uint64_t blocks = completed_to / size;
    for (std::uint64_t step = 0; step < std::min(steps, blocks * size); ++step) {
      result.columns_[step].push_back({result.rows_ + step / size, 1.0});
    }
    result.rows_ += blocks;
  }
  return result;
}

inline LinearMechanism LinearMechanism::toeplitz(std::span<const double> first_column) {
  LinearMechanism result;
  result.rows_ = first_column.size();
  result.columns_.resize(first_column.size());
  for (std::uint64_t step = 0; step < first_column.size(); ++step) {
    for (std::uint64_t row = step; row < first_column.size(); ++row) {
      result.columns_[step].push_back({row, first_column[row - step]});
    }
  }
  return result;
}

inline LinearMechanism LinearMechanism::in_sequence(const std::vector<LinearMechanism>& parts) {
  LinearMechanism result;
  for (const LinearMechanism& part : parts) {
    for (const std::vector<Entry>& column : part.columns_) {
      std::vector<Entry>& moved = result.columns_.emplace_back(column);
      for (Entry& entry : moved) entry.row += result.rows_;
    }
    result.rows_ += part.rows_;
  }
  return result;
}

/// Returns the largest |C dx|^2 when one unit takes part in exactly these steps with a contribution
/// of norm at most 1 in each: sum over rows of (sum over its steps of |C_rt|)^2.
///
/// Proof: the row's change is a sum of vectors of norm |C_rt| at most. If C has no negative entry,
/// equal contributions attain the bound. With noise sigma the whole release is one Gaussian
/// mechanism, with noise multiplier sigma over the root of this sum, even if x depends on earlier
/// releases (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1), which is zCDP with rho
/// = this / (2 sigma^2). `replace_one` moves every contribution by up to 2: four times as much.
///
/// \param participations  distinct steps.
/// \returns a value with a relative error of at most 2^-51.
inline double squared_sensitivity(const LinearMechanism& mechanism,
                                  std::span<const std::uint64_t> participations) {
  std::unordered_map<std::uint64_t, long double> change_of_row;
  for (const std::uint64_t step : participations) {
    for (const auto& entry : mechanism.column(step)) {
      change_of_row[entry.row] += std::fabs(static_cast<long double>(entry.value));
    }
  }
  long double sum = 0.0L;
  for (const auto& [row, change] : change_of_row) sum += change * change;
  return static_cast<double>(sum);
}

/// Returns the squared sensitivity to each group, for noise 1 on every row of the matrix.
inline std::vector<double> squared_sensitivities(
    const LinearMechanism& mechanism, const privgrad::core::Participation& participation) {
  struct Place {
    std::uint64_t step;
    double value;
  };
  std::vector<std::vector<Place>> rows(mechanism.rows());
  for (std::uint64_t step = 0; step < mechanism.steps(); ++step) {
    for (const auto& entry : mechanism.column(step)) rows[entry.row].push_back({step, entry.value});
  }
  privgrad::core::SquaredSensitivity result(participation);
  for (const std::vector<Place>& row : rows) {
    for (const Place& place : row) result.add_entry(place.step, place.value);
    result.end_release(1.0);
  }
  return {result.of_groups().begin(), result.of_groups().end()};
}
