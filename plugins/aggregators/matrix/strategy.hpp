// Noise matrices N with few bands: the error that remains, and the search for the best matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace matrix_noise {

/// The public facts about a run's use of its noise.
struct Workload {
  std::uint64_t steps = 0;
  /// The optimizer's momentum: iterate t is the sum of the earlier releases r_u, each times its
  /// weight times (1 - momentum^(t-u+1)), a factor that is 1 without momentum.
  double momentum = 0.0;
  std::vector<double> weights;  ///< The weight of each release in the iterates.
  std::vector<double> noise;    ///< Relative standard deviation of each step's own noise, > 0.
  /// An example takes part `participations` times, `spacing` steps apart, beginning with the first
  /// step.
  std::uint64_t participations = 1, spacing = 1;
};

/// The objective for coefficients x_0 = 1, x_1, ...: log(||A N||_F^2 sens^2), where A maps releases
/// to iterates. For a given guarantee it is the log of the iterates' total squared error.
class Objective {
 public:
  virtual ~Objective() = default;
  /// \param x  [bands]
  /// \param gradient  out, with respect to x_1 ...: [bands - 1].
  /// \returns infinity if nothing is proved.
  virtual double operator()(std::span<const double> x, std::span<double> gradient) = 0;
  /// The ends of the range in which x_1, ... are searched.
  virtual double least() const = 0;
  virtual double most() const = 0;
};

/// Returns the products, [bands, bands], with ||A N||_F^2 = sum_ij a_i a_j products_ij.
/// \param older_noise  whether N_{t,t-j} is a_j noise_{t-j}; otherwise it is a_j noise_t.
std::vector<double> squared_errors(const Workload& workload, std::size_t bands, bool older_noise);

/// The objective for N_{t,t-j} = a_j noise_{t-j}, a_0 = 1, as a function of the coefficients a.
class InverseErrors final : public Objective {
 public:
  /// \param bands  the bands of N, > 0.
  InverseErrors(const Workload& workload, std::size_t bands);

  /// sens^2 = sum_t (y_t / noise_t)^2, where the convolution (a * y)_t is 1 in the steps of the
  /// participations and 0 in others. This is correct if C >= 0, as for coefficients between least()
  /// and most().
  double operator()(std::span<const double> a, std::span<double> gradient) override;
  double least() const override { return -1.0; }
  double most() const override { return 0.0; }

 private:
  double squared_sensitivity(std::span<const double> a, std::span<double> gradient);

  const Workload& workload_;
  std::size_t bands_;
  std::vector<double> products_;
  std::vector<double> moved_, pulled_;  // y, and its adjoint: [steps]
};

/// The objective for N_{t,t-j} = a_j noise_t, where a contains the first `terms` coefficients of
/// 1 / c, as a function of the coefficients c of a banded C. An example's steps are as far apart
/// as C has bands, so sens is ||c|| / (1 - rho), where rho bounds the distance of C N from the
/// identity: it is the sum of the absolute coefficients of the product c a, except the leading 1.
class BandedErrors final : public Objective {
 public:
  BandedErrors(const Workload& workload, std::size_t bands, std::size_t terms);

  double operator()(std::span<const double> c, std::span<double> gradient) override;
  double least() const override { return 0.0; }
  double most() const override { return 1.0; }

 private:
  std::size_t bands_, terms_;
  std::vector<double> products_;
};

/// Returns the first coefficients of 1 / c.
std::vector<double> inverse(std::span<const double> c, std::size_t terms);

/// Returns the first coefficients of (1 - z)^gamma (1 - momentum z)^gamma; gamma = 1/2 gives BISR
/// (Kalinin, McKenna, Upadhyay and Lampert 2025).
std::vector<double> power_of_inverse(double gamma, double momentum, std::size_t bands);

/// Returns the best a found with -1 <= a_j <= 0 for j > 0: the best local minimum from up to three
/// starts, which are the best power of the inverse and the results for half as many bands and for
/// two bands.
std::vector<double> minimised_inverse(const Workload& workload, std::size_t bands);

/// Returns the best c found with 0 <= c_j <= 1, by BandedErrors, searched as in
/// minimised_inverse().
std::vector<double> minimised_banded(const Workload& workload, std::size_t bands,
                                     std::size_t terms);

}  // namespace matrix_noise
