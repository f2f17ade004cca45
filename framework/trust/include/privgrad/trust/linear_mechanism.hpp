#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace privgrad::core {

/// A public matrix C whose product with the steps' bounded sums is released with independent
/// Gaussian noise of one standard deviation on every row: y_r = sum_t C_rt x_t + sigma zeta_r.
/// Trees and matrix mechanisms are of this kind; what they publish in the end is computed from y.
class LinearMechanism {
 public:
  struct Entry {
    std::uint64_t row;
    double value;
  };

  /// Binary-tree aggregation (Dwork et al. 2010, Chan et al. 2011): one row of ones for each
  /// complete aligned block of 2^b steps inside [0, completed_to). Blocks that reach beyond are
  /// never finished and so never released.
  /// \param completed_to  >= steps: further steps without data, which complete more blocks (tree
  ///   completion).
  static LinearMechanism tree(std::uint64_t steps, std::uint64_t completed_to);
  static LinearMechanism tree(std::uint64_t steps) { return tree(steps, steps); }

  /// The lower-triangular Toeplitz matrix with this first column.
  static LinearMechanism toeplitz(std::span<const double> first_column);

  /// One after the other, with noise of their own: a tree with restarts.
  static LinearMechanism in_sequence(const std::vector<LinearMechanism>& parts);

  std::uint64_t steps() const { return columns_.size(); }
  std::uint64_t rows() const { return rows_; }
  /// The rows that the data of one step enter.
  /// \param step  below steps().
  std::span<const Entry> column(std::uint64_t step) const { return columns_.at(step); }

 private:
  std::vector<std::vector<Entry>> columns_;
  std::uint64_t rows_ = 0;
};

/// The largest |C dx|^2 when one unit takes part in exactly these steps with a contribution of norm
/// at most 1 in each: sum over rows of (sum over its steps of |C_rt|)^2.
///
/// Proof: the row's change is a sum of vectors of norm |C_rt| at most. Where C has no negative
/// entry the bound is met, by equal contributions. With noise sigma the whole release is one
/// Gaussian mechanism of noise multiplier sigma over the root of this, also if x depends on earlier
/// releases (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1), which is zCDP with
/// rho = this / (2 sigma^2). `replace_one` moves every contribution by up to 2: four times as much.
///
/// \param participations  distinct steps.
/// \returns a value with a relative error of at most 2^-51.
double squared_sensitivity(const LinearMechanism& mechanism,
                           std::span<const std::uint64_t> participations);

/// The largest of squared_sensitivity() over all sets of at most `max_participations` steps with at
/// least `min_separation` other steps between any two of them. By trying all sets: exact, and for
/// small cases only.
/// \throws ConfigError if there are more than 10^5 of them.
double worst_squared_sensitivity(const LinearMechanism& mechanism, std::uint64_t max_participations,
                                 std::uint64_t min_separation);

}  // namespace privgrad::core
