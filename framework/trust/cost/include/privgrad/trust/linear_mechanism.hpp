// Matrix mechanisms and trees as public matrices, and their worst-case sensitivity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace privgrad::core {

/// A public matrix C whose product with the steps' bounded sums is released with independent
/// Gaussian noise of one standard deviation on every row: y_r = sum_t C_rt x_t + sigma zeta_r.
/// Trees and matrix mechanisms are of this kind; the values that they publish are computed from y.
class LinearMechanism {
 public:
  struct Entry {
    std::uint64_t row;
    double value;
  };

  /// Binary-tree aggregation (Dwork et al. 2010, Chan et al. 2011): one row of ones for each
  /// complete aligned block of 2^b steps inside [0, completed_to). Blocks that extend beyond this
  /// range are never completed and so never released.
  /// \param completed_to  >= steps: further steps without data, which complete more blocks (tree
  ///   completion).
  static LinearMechanism tree(std::uint64_t steps, std::uint64_t completed_to);
  static LinearMechanism tree(std::uint64_t steps) { return tree(steps, steps); }

  /// The lower-triangular Toeplitz matrix with this first column.
  static LinearMechanism toeplitz(std::span<const double> first_column);

  /// Mechanisms in sequence, each with noise of its own: a tree with restarts.
  static LinearMechanism in_sequence(const std::vector<LinearMechanism>& parts);

  std::uint64_t steps() const { return columns_.size(); }
  std::uint64_t rows() const { return rows_; }
  /// The rows that one step's data enters.
  /// \param step  below steps().
  std::span<const Entry> column(std::uint64_t step) const { return columns_.at(step); }
  /// The first column, if toeplitz() made the matrix; empty for any other.
  std::span<const double> toeplitz_column() const { return toeplitz_; }

 private:
  std::vector<std::vector<Entry>> columns_;
  std::uint64_t rows_ = 0;
  std::vector<double> toeplitz_;
};

/// The largest |C dx|^2 when one unit takes part in exactly these steps with a contribution of norm
/// at most 1 in each: sum over rows of (sum over its steps of |C_rt|)^2.
///
/// Proof: the row's change is a sum of vectors of norm at most |C_rt|. If C has no negative entry,
/// equal contributions attain the bound. With noise sigma the whole release is one Gaussian
/// mechanism of noise multiplier sigma divided by the root of this value, even if x depends on
/// earlier releases (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1), which is zCDP
/// with rho = (this value) / (2 sigma^2). `replace_one` moves every contribution by up to 2: four
/// times as much.
///
/// \param participations  distinct steps.
/// \returns a value with a relative error of at most 2^-51.
double squared_sensitivity(const LinearMechanism& mechanism,
                           std::span<const std::uint64_t> participations);

/// The largest of squared_sensitivity() over a family of sets of steps, or a bound on it.
struct WorstSensitivity {
  double squared = 0.0;  ///< Relative rounding error below 2^-52 + 2^-60 times the number of steps.
  bool is_exact = true;  ///< Whether `squared` is the maximum; otherwise it is an upper bound.
};

/// The worst case over all sets of at most `max_participations` steps with at least
/// `min_separation` other steps between any two of them, computed by the first of these methods
/// that applies:
/// - a Toeplitz matrix without negative entries whose first column is non-increasing: exact, by
///   worst_squared_sensitivities_of_decreasing();
/// - no two columns that may be taken together share a row (a matrix of at most min_separation + 1
///   bands, or a single participation): exact, by a dynamic programme over the columns' norms;
/// - at most 10^5 such sets: exact, by trying them all;
/// - anything else: an upper bound, by dynamic programmes. With G = |C|^T |C| the largest sum of
///   G_st over s, t in S is at most the largest sum over s in S of w_s, w_s the largest sum of G_st
///   over t in any allowed set with s in it. (Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Guha
///   Thakurta and Xu 2023, Section 4.) The time is proportional to the squared number of entries of
///   the rows, and to steps^2 times participations.
/// \throws ConfigError if that would take more than about a minute.
WorstSensitivity worst_squared_sensitivity(const LinearMechanism& mechanism,
                                           std::uint64_t max_participations,
                                           std::uint64_t min_separation);

/// The same for the lower-triangular Toeplitz matrix with this first column, c_0 >= c_1 >= ... >=
/// 0, without constructing the matrix. The worst participations are the steps 0, b, 2b, ..., with b
/// = min_separation + 1.
/// \returns for each row the squared sensitivity of all rows up to it, which is that of a shorter
///   run; the last element is for the whole matrix.
///
/// Proof that no participations are worse (Kalinin and Lampert 2024, Theorem 2). For s <= t the
/// product of columns s and t is the sum over j < n - t of c_j c_(j + t - s). Its terms are not
/// negative; a smaller t does not decrease their number, and a smaller t - s does not decrease
/// their size. Let p_1 < ... < p_m be allowed steps and q_i = (i - 1) b. Then p_j >= q_j and p_j -
/// p_i >= q_j - q_i for all i <= j, so each product of two columns is largest at q, and so is their
/// sum. More participations only add to it.
/// \throws ConfigError if the column is not non-increasing and non-negative.
std::vector<double> worst_squared_sensitivities_of_decreasing(std::span<const double> first_column,
                                                              std::uint64_t max_participations,
                                                              std::uint64_t min_separation);

}  // namespace privgrad::core
