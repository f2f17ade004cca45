// For schedules and optimizers that adapt to the rounds of a federated run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "privgrad/export.hpp"

namespace privgrad {

/// The public and released values on which an adaptive number of local iterations may depend. The
/// estimates are means over the last round's clients, with public weights; w and v stand for two
/// models. An estimate is missing if the last round could not compute it.
struct FederatedProgress {
  std::uint64_t round = 0;          ///< 0-based number of the next round.
  std::uint64_t rounds_left = 0;    ///< Including the next round, > 0.
  std::uint64_t steps_left = 0;     ///< Local steps that the pacing budget can still pay for, > 0.
  std::uint64_t last = 0;           ///< Local steps of the last round; 0 before the first round.
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
/// steps of each round during the run.
///
/// Privacy: receives only public and released values, so its choice is post-processing. The charge
/// to the clients does not depend on the choice: they are charged for the largest possible number
/// of steps and the largest possible number of estimates, in any order. Threads: calls on one
/// instance never overlap.
class PRIVGRAD_API AdaptiveLocalIterations {
 public:
  virtual ~AdaptiveLocalIterations();

  /// Called before the other functions. Called again if estimates turn out to leave fewer steps, or
  /// if no estimates can be made; then the last call counts.
  /// \param rounds  communication rounds, > 0.
  /// \param steps  the local steps that the pacing budget can pay for, > 0: the smallest or the
  ///   largest number among the clients (federated.paced_by).
  /// \returns whether the schedule will use estimates; if not, the clients make no estimates and
  ///   pay for none.
  virtual bool start_rounds(std::uint64_t rounds, std::uint64_t steps) = 0;

  /// \returns the local steps of the next round, > 0. Steps that the budget cannot pay for are not
  ///   made, whatever the return value.
  virtual std::uint64_t next(const FederatedProgress& progress) = 0;
};

}  // namespace privgrad
