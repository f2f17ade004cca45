#include "privgrad/federated/loss_estimates.hpp"

#include <algorithm>
#include <cmath>

namespace privgrad::core {
namespace {

double root(double square) { return std::sqrt(std::max(0.0, square)); }

}  // namespace

void LossEstimator::save(StateWriter& out) const {
  out.begin("loss estimates");
  out.put(state(*this));
}

void LossEstimator::restore(StateReader& in) {
  in.begin("loss estimates");
  in.get(state(*this));
  if (gradient_.size() != model_.size() || (!model_.empty() && model_.size() != size_))
    in.fail("its model has another number of parameters than the plan");
}

/// The quantities that follow from the models of a round.
struct LossEstimator::Models {
  std::vector<double> squared_gradients;  // |g_i|^2
  std::vector<double> noise;              // d n_i
  std::vector<float> mean;                // g
  double squared_mean = 0.0;
  double noise_of_mean = 0.0;  // d sum p_i^2 n_i
  double noise_in_step = 0.0;  // d sum p_i^2 rates_i n_i
};

LossEstimator::Models LossEstimator::look_at(std::span<const float> before,
                                             const std::vector<ClientRound>& clients) const {
  Models models;
  const auto d = static_cast<double>(size_);
  std::vector<double> mean(size_, 0.0);
  for (const ClientRound& client : clients) {
    double square = 0.0;
    const double inverse = 1.0 / client.rates;
    for (std::size_t j = 0; j < size_; ++j) {
      const double g =
          (static_cast<double>(before[j]) - static_cast<double>(client.model[j])) * inverse;
      square += g * g;
      mean[j] += client.weight * g;
    }
    const double noise = d * client.noise_variance * inverse * inverse;
    models.squared_gradients.push_back(square);
    models.noise.push_back(noise);
    models.noise_of_mean += client.weight * client.weight * noise;
    models.noise_in_step += client.weight * client.weight * client.rates * noise;
  }
  models.mean.resize(size_);
  for (std::size_t j = 0; j < size_; ++j) {
    models.squared_mean += mean[j] * mean[j];
    models.mean[j] = static_cast<float>(mean[j]);
  }
  return models;
}

void LossEstimator::from_models(const Models& models, const std::vector<ClientRound>& clients,
                                LossEstimates& estimates) const {
  double slope = 0.0, fall = 0.0, spread = -models.squared_mean;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const double square = models.squared_gradients[i];
    const double clean = square - models.noise[i];
    const double weight = clients[i].weight;
    if (square > 0.0) slope += weight * std::max(0.0, clean) / std::sqrt(square);
    fall += weight * clients[i].rates * clean;
    spread += weight * clean;
  }
  estimates.divergence = root(spread + models.noise_of_mean);
  if (mode_ != EstimateMode::from_models) return;
  estimates.lipschitz = slope;
  estimates.heterogeneity = std::max(0.0, fall);
}

void LossEstimator::from_rounds(const Models& models, std::span<const float> before,
                                LossEstimates& estimates) const {
  double distance = 0.0, change = 0.0, along = 0.0;
  for (std::size_t j = 0; j < size_; ++j) {
    const double step = static_cast<double>(before[j]) - static_cast<double>(model_[j]);
    const double turn = static_cast<double>(models.mean[j]) - static_cast<double>(gradient_[j]);
    distance += step * step;
    change += turn * turn;
    along += turn * step;
  }
  if (distance == 0.0) return;
  const double bend = (along - noise_in_step_) / distance;
  estimates.convexity = bend;
  // The noise of the last gradient also moved the model, and this move changed the next gradient.
  const double noise = models.noise_of_mean + noise_ + 2.0 * bend * noise_in_step_;
  estimates.smoothness = root((change - noise) / distance);
}

LossEstimates LossEstimator::after_round(std::span<const float> before,
                                         const std::vector<ClientRound>& clients) {
  LossEstimates estimates;
  const auto stood_still = [](const ClientRound& client) { return !(client.rates > 0.0); };
  if (clients.empty() || std::ranges::any_of(clients, stood_still)) return estimates;
  const Models models = look_at(before, clients);
  from_models(models, clients, estimates);
  if (mode_ == EstimateMode::from_models) {
    if (!model_.empty()) from_rounds(models, before, estimates);
    model_.assign(before.begin(), before.end());
    gradient_ = models.mean;
    noise_ = models.noise_of_mean;
    noise_in_step_ = models.noise_in_step;
    return estimates;
  }
  double slope = 0.0, bend = 0.0, fall = 0.0, smooth = 0.0;
  bool any = false;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const ClientRound& client = clients[i];
    const double distance = client.rates * std::sqrt(models.squared_gradients[i]);
    if (distance == 0.0) continue;
    if (mode_ == EstimateMode::private_sums && client.loss_changes) {
      const auto [change, second] = *client.loss_changes;
      slope += client.weight * change / distance;
      bend += client.weight * 4.0 * second / (distance * distance);
      fall -= client.weight * change;
      any = true;
    }
    if (mode_ == EstimateMode::unaccounted && client.exact) {
      const ExactLosses& exact = *client.exact;
      slope += client.weight * std::abs(exact.after - exact.before) / distance;
      smooth += client.weight * exact.gradient_change / distance;
      bend += client.weight * exact.along / (distance * distance);
      fall -= client.weight * (exact.after - exact.before);
      any = true;
    }
  }
  if (!any) return estimates;
  estimates.lipschitz = std::abs(slope);
  estimates.smoothness = mode_ == EstimateMode::unaccounted ? smooth : std::abs(bend);
  estimates.convexity = bend;
  estimates.heterogeneity = std::max(0.0, fall);
  if (mode_ != EstimateMode::unaccounted) return estimates;
  std::vector<double> mean(size_, 0.0);
  for (const ClientRound& client : clients) {
    if (!client.exact) continue;
    for (std::size_t j = 0; j < size_; ++j)
      mean[j] += client.weight * static_cast<double>(client.exact->gradient[j]);
  }
  double divergence = 0.0;
  for (const ClientRound& client : clients) {
    if (!client.exact) continue;
    double square = 0.0;
    for (std::size_t j = 0; j < size_; ++j) {
      const double away = static_cast<double>(client.exact->gradient[j]) - mean[j];
      square += away * away;
    }
    divergence += client.weight * std::sqrt(square);
  }
  estimates.divergence = divergence;
  return estimates;
}

}  // namespace privgrad::core
