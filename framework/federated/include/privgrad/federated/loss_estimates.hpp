// A server's estimates of constants of the clients' losses, which adaptive local iterations follow.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Exact values of one client's private examples, for research without privacy.
struct ExactLosses {
  double before = 0.0, after = 0.0;  ///< Mean loss at the model received, and at the one sent.
  double gradient_change = 0.0;      ///< ||grad F(after) - grad F(before)||
  double along = 0.0;                ///< <grad F(after) - grad F(before), after - before>
  std::vector<float> gradient;       ///< grad F(before)
};

/// A server's knowledge of one client after a round.
struct ClientRound {
  double weight = 0.0;          ///< Public; those of a round add up to 1.
  std::vector<float> model;     ///< With fed_avg released, as all that follows but `exact`.
  double rates = 0.0;           ///< Sum of the learning rates of its steps.
  double noise_variance = 0.0;  ///< The noise's in each coordinate of the model; see below.
  /// Noised means over the client's examples of l(w') - l(w) and l(w') - 2 l((w + w')/2) + l(w), w
  /// being the model that it received and w' the one that it sent.
  std::optional<std::array<double, 2>> loss_changes;
  std::optional<ExactLosses> exact;

  /// The part that a client sends.
  static auto state(auto& self) {
    return std::tie(self.model, self.rates, self.noise_variance, self.loss_changes);
  }
};

/// The constants of the losses that an adaptive number of local iterations asks for; see
/// FederatedProgress for the names.
struct LossEstimates {
  std::optional<double> lipschitz, smoothness, divergence, convexity, heterogeneity;

  static auto state(auto& self) {
    return std::tie(self.lipschitz, self.smoothness, self.divergence, self.convexity,
                    self.heterogeneity);
  }
};

/// Estimates constants of the clients' losses from their messages, round by round.
///
/// `from_models`. A client that made its steps by plain gradient descent shows the mean of the
/// gradients that it released, g_i = (w - w'_i) / rates_i, with noise of a variance that is public,
/// n_i = noise_variance_i / rates_i^2 in each of d coordinates. The squared length of such a vector
/// is too large by d n_i on average, which is taken off. With weights p_i and the mean g,
///
///     lipschitz      sum_i p_i (|g_i|^2 - d n_i) / |g_i|             the slope along the way made
///     divergence^2   sum_i p_i |g_i - g|^2 - d sum_i (p_i - p_i^2) n_i
///     heterogeneity  sum_i p_i rates_i (|g_i|^2 - d n_i)              the fall of the losses, to
///                                                                     first order
///
/// and with the mean gradient and the model of the round before, D being the change of the model,
///
///     convexity h    (<g - g', D> - m) / |D|^2,    m = d sum_i p_i^2 rates_i n'_i
///     smoothness^2   (|g - g'|^2 - d sum_i p_i^2 (n_i + n'_i) - 2 h m) / |D|^2
///
/// The noise of g' is in D, too, and its move of the model changes the gradient by h times as much,
/// along itself: hence m. Negative squares count as 0. With other optimizers the model shows other
/// means than those of gradients, and the numbers mean less; they cost nothing either way.
///
/// `private`. From the noised changes of the losses, a_i and b_i, with D_i = w'_i - w:
///
///     lipschitz      |sum_i p_i a_i / |D_i||
///     convexity      sum_i p_i 4 b_i / |D_i|^2                       second difference of the loss
///     smoothness     its absolute value                              along the way made
///     heterogeneity  -sum_i p_i a_i, at least 0
///     divergence     as from_models
///
/// `unaccounted`. As Ling et al. print them, on a batch of private examples, exactly.
///
/// Privacy: a function of its arguments.
class LossEstimator {
 public:
  LossEstimator(EstimateMode mode, std::size_t parameters) : mode_(mode), size_(parameters) {}

  /// \param before  the model that the clients received, [parameters].
  /// \param clients  those whose models arrived, in a fixed order.
  /// \returns nothing for a constant that cannot be known yet; no constant at all for a round in
  ///   which a client's learning rates were 0, so that its model shows no gradient.
  LossEstimates after_round(std::span<const float> before, const std::vector<ClientRound>& clients);

  /// Saves the values kept from the last round.
  void save(StateWriter& out) const;
  /// \throws IoError
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
  // From the last round.
  std::vector<float> model_, gradient_;
  double noise_ = 0.0, noise_in_step_ = 0.0;
};

}  // namespace privgrad::core
