// Noising matrices N with few bands: how much error they leave, and the best of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace matrix_noise {

/// What the noise of a run does: all of it public.
struct Workload {
  std::uint64_t steps = 0;
  /// Of the optimizer: an iterate is the sum over earlier releases r_u of 1 - momentum^(t-u+1)
  /// times its weight. 0: plain sums.
  double momentum = 0.0;
  std::vector<double> weights;  ///< Of each release in the iterates, as its learning rate.
  std::vector<double> noise;    ///< Standard deviation of each step's own noise, > 0.
  /// Of an example: this many steps, this far apart, from the first step on.
  std::uint64_t participations = 1, spacing = 1;
};

/// The error and the cost of N_{t,t-j} = a_j noise_{t-j}, a_0 = 1, for a workload.
class Errors {
 public:
  /// \param bands  of N, > 0.
  Errors(const Workload& workload, std::size_t bands);

  /// log(||A N||_F^2 sens^2): for one guarantee, the log of the mean squared error of the iterates
  /// times the number of steps. sens^2 = sum_r (y_r / noise_r)^2, (a * y)_t = [t is one of the
  /// participations], is right where C >= 0, as for all a that `minimised()` tries.
  /// \param a  [bands]
  /// \param gradient  out, with respect to a_1 ...: [bands - 1].
  double operator()(std::span<const double> a, std::span<double> gradient);

  std::size_t bands() const { return bands_; }

 private:
  double squared_sensitivity(std::span<const double> a, std::span<double> gradient);

  const Workload& workload_;
  std::size_t bands_;
  std::vector<double> products_;        // ||A N||_F^2 = sum_ij a_i a_j products_ij: [bands x bands]
  std::vector<double> moved_, pulled_;  // y, and its adjoint: [steps]
};

/// The first coefficients of (1 - z)^gamma (1 - momentum z)^gamma: for gamma = 1/2 that of BISR
/// (Kalinin, McKenna, Upadhyay and Lampert 2025).
std::vector<double> power_of_inverse(double gamma, double momentum, std::size_t bands);

/// The a with -1 <= a_j <= 0 for j > 0 that leaves the least error: the best of the local minima that
/// are found from the best power of the inverse, and from those of half the bands and of two.
std::vector<double> minimised(const Workload& workload, std::size_t bands);

}  // namespace matrix_noise
