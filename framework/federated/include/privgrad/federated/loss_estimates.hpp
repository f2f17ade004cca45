// Estimates constants of the clients' losses at the server, for adaptive local iterations.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/record/run_lines.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Exact values of one client's private examples, for research without privacy. F is their mean
/// loss, w the received model, and w' the sent model.
struct ExactLosses {
  double before = 0.0, after = 0.0;  ///< F(w) and F(w').
  double gradient_change = 0.0;      ///< ||grad F(w') - grad F(w)||
  double along = 0.0;                ///< <grad F(w') - grad F(w), w' - w>
  std::vector<float> gradient;       ///< grad F(w)
};

/// A server's knowledge about one client after a round.
struct ClientRound {
  double weight = 0.0;  ///< Public; the weights of a round add up to 1.
  /// With fed_avg, this and all following members except `exact` are released.
  std::vector<float> model;
  double rates = 0.0;  ///< Sum of the learning rates of the client's steps.
  /// The variance of the noise in each coordinate of the model; see LossEstimator.
  double noise_variance = 0.0;
  /// Noisy means over the client's examples of l(w') - l(w) and l(w') - 2 l((w + w')/2) + l(w),
  /// where l is an example's loss, w the received model and w' the sent model.
  std::optional<std::array<double, 2>> loss_changes;
  std::optional<ExactLosses> exact;

  /// The members that a client sends.
  static auto state(auto& self) {
    return std::tie(self.model, self.rates, self.noise_variance, self.loss_changes);
  }
};

/// Estimates constants of the clients' losses from their messages, round by round.
///
/// `from_models`. Client i receives the model w, sends the model w'_i, and has the weight p_i. If
/// it made its steps by plain gradient descent, its model reveals the mean of its released
/// gradients, g_i = (w - w'_i) / rates_i, with noise of public variance
/// n_i = noise_variance_i / rates_i^2 in each of d coordinates. On average, |g_i|^2 is too large by
/// d n_i, which is subtracted. With the weighted mean g of all g_i,
///
///     lipschitz      sum_i p_i (|g_i|^2 - d n_i) / |g_i|   slope of the loss on the client's path
///     divergence^2   sum_i p_i |g_i - g|^2 - d sum_i (p_i - p_i^2) n_i
///     heterogeneity  sum_i p_i rates_i (|g_i|^2 - d n_i)        fall of the losses, to first order
///
/// and, with the previous round's mean gradient g' and noise n'_i, and the change D of the model
/// since that round,
///
///     convexity h    (<g - g', D> - m) / |D|^2,    m = d sum_i p_i^2 rates_i n'_i
///     smoothness^2   (|g - g'|^2 - d sum_i p_i^2 (n_i + n'_i) - 2 h m) / |D|^2
///
/// The noise of g' is also part of D. This noise moves the model in its own direction, which
/// changes the gradient by h times the move; m corrects for this. Negative squares count as 0. With
/// other optimizers the model does not reveal the mean of the gradients, and these estimates are
/// less meaningful. The estimates cost nothing with any optimizer.
///
/// `private`. From the noisy loss_changes a_i and b_i, with D_i = w'_i - w:
///
///     lipschitz      |sum_i p_i a_i / |D_i||
///     convexity      sum_i p_i 4 b_i / |D_i|^2   second difference of the loss on that path
///     smoothness     |convexity|
///     heterogeneity  -sum_i p_i a_i, at least 0
///     divergence     as from_models
///
/// `unaccounted`. The exact formulas of Ling et al., on a batch of private examples.
///
/// Privacy: depends only on the arguments of its functions.
class LossEstimator {
 public:
  LossEstimator(EstimateMode mode, std::size_t parameters) : mode_(mode), size_(parameters) {}

  /// \param before  the model that the clients received, [parameters].
  /// \param clients  the clients whose models arrived, in a fixed order.
  /// \returns the constants, except constants that cannot be estimated yet. If a client's learning
  ///   rates were 0 in the round, all are missing, because that client's model reveals no gradient.
  LossEstimates after_round(std::span<const float> before, const std::vector<ClientRound>& clients);

  /// Saves the values of the last round, on which the next estimates depend.
  void save(StateWriter& out) const;
  /// \throws IoError for an invalid state.
  void restore(StateReader& in);

 private:
  static auto state(auto& self) {
    return std::tie(self.model_, self.gradient_, self.noise_, self.noise_in_step_);
  }

  struct Models;
  Models look_at(std::span<const float> before, const std::vector<ClientRound>& clients) const;
  void from_models(const Models& models, const std::vector<ClientRound>& clients,
                   LossEstimates& estimates) const;
  void from_rounds(const Models& models, std::span<const float> before,
                   LossEstimates& estimates) const;

  EstimateMode mode_;
  std::size_t size_;
  // The numbers of the last round.
  std::vector<float> model_, gradient_;
  double noise_ = 0.0, noise_in_step_ = 0.0;
};

}  // namespace privgrad::core
