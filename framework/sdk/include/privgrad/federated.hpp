// For schedules and optimizers that adapt to the rounds of a federated run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// The public and released values that an adaptive number of local iterations may follow. Estimates
/// are those of the last round, weighted means over its clients with public weights; an estimate is
/// missing if that round could not make it.
struct FederatedProgress {
  std::uint64_t round = 0;          ///< 0-based, of the round to come.
  std::uint64_t rounds_left = 0;    ///< Including the one to come, > 0.
  std::uint64_t steps_left = 0;     ///< Local steps that are left of the budget that paces, > 0.
  std::uint64_t last = 0;           ///< Local steps of the last round; 0 before the first.
  std::size_t parameters = 0;       ///< Number of the model's parameters.
  double learning_rate = 0.0;       ///< For the next local step.
  double clip_norm = 0.0;           ///< For the next local step.
  double gradient_noise = 0.0;      ///< Standard deviation in each coordinate of a step's gradient.
  std::optional<double> lipschitz;  ///< "rho": |F(w) - F(v)| / ||w - v|| of the loss F; >= 0.
  std::optional<double> smoothness;     ///< "beta": the same ratio for the loss's gradients; >= 0.
  std::optional<double> divergence;     ///< "xi": of clients' gradients from their mean; >= 0.
  std::optional<double> convexity;      ///< "mu": <grad F(w) - grad F(v), w - v> / ||w - v||^2.
  std::optional<double> heterogeneity;  ///< "Gamma": heterogeneity of the clients' losses; >= 0.
};

/// Optional ability of a schedule in the slot `local_iterations`: it chooses the number of local
/// steps of each round as the run goes.
///
/// Privacy: sees public and released values only, so its choice is post-processing. What the
/// clients are charged does not depend on it: they are accounted for the most steps, and the most
/// estimates, that they can come to make, in whatever order. Threads: calls on one instance never
/// overlap.
class PRIVGRAD_API AdaptiveLocalIterations {
 public:
  virtual ~AdaptiveLocalIterations();

  /// Called before the others, and again when estimates turn out to leave fewer steps, or are left
  /// out; the last call counts.
  /// \param rounds  communication rounds, > 0.
  /// \param steps  local steps that the budget that paces pays for, > 0: the clients' smallest, or
  ///   largest (federated.paced_by).
  /// \returns whether the rounds to come will be chosen by estimates; if not, none are made or
  ///   paid.
  virtual bool start_rounds(std::uint64_t rounds, std::uint64_t steps) = 0;

  /// \returns the local steps of the round to come, > 0. What the budget does not pay for is not
  ///   made, whatever this says.
  virtual std::uint64_t next(const FederatedProgress& progress) = 0;
};

}  // namespace privgrad
