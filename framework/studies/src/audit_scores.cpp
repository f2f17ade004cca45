#include "audit_scores.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/plan/components.hpp"
#include "privgrad/trust/sampling_watch.hpp"

namespace privgrad::core {
namespace {

/// The noise that is assumed for runs without noise, so that scores stay finite.
constexpr double kAlmostNoNoise = 1.0 / 30.0;

/// log(1 - q + q e^x)
double log_mixture(double q, double x) {
  if (q >= 1.0) return x;
  if (x > 0.0) return x + std::log(q + (1.0 - q) * std::exp(-x));
  return std::log1p(q * std::expm1(x));
}

}  // namespace

PublicParts::PublicParts(const Plan& plan, std::span<const std::uint32_t> rows,
                         const RandomSource& random)
    : plan_(plan), canaries_(rows.size()), rows_(rows.begin(), rows.end()) {
  const Components made = start_components(plan);
  is_known_ = made.order != nullptr;
  if (!is_known_) return;
  // If rows may be missing, every batch contains all present rows (full_batch); other orders are
  // refused, because a missing row would shift the others.
  const std::uint64_t size = plan.dataset_size;
  std::vector<std::uint32_t> batch;
  parts_.resize(plan.steps() * canaries_);
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    made.sampler->sample(step, size, random, batch);
    std::vector<bool> is_in(size);
    for (const std::uint32_t row : batch) is_in.at(row) = true;
    for (std::size_t canary = 0; canary < canaries_; ++canary)
      parts_[step * canaries_ + canary] =
          rows[canary] >= size || is_in[rows[canary]] ? std::uint8_t{1} : std::uint8_t{0};
  }
}

double PublicParts::share(std::uint64_t step, std::size_t canary) const {
  if (is_known_) return takes_part(step, canary) ? 1.0 : 0.0;
  if (!plan_.charges.empty()) {
    const SamplingLaw law = sampling_law(plan_.charges, step);
    if (law.kind == SamplingLaw::Kind::poisson && law.steps > 1)
      return rows_[canary] % law.steps == step - law.first ? law.rate : 0.0;
  }
  return std::min(1.0, plan_.batch_size[step] / static_cast<double>(plan_.dataset_size));
}

AuditScores::AuditScores(const Plan& plan, const SpareLayout& layout, const PublicParts& parts,
                         bool exchanged, bool keeps_steps)
    : plan_(plan),
      layout_(layout),
      parts_(parts),
      exchanged_(exchanged),
      scores_(layout.spares(), 0.0),
      moved_(keeps_steps ? layout.spares() : 0) {}

/// The change of a release caused by a contribution of one clip norm.
double AuditScores::unit_of(std::uint64_t step, const Released& gradient,
                            double noise_multiplier) const {
  const double mean = plan_.clip_norm[step] / plan_.batch_size[step];
  if (plan_.correlated && plan_.correlated->parts.front().recipes.window() > 0) {
    double squares = 0.0;
    for (const NoiseTerm& term : plan_.correlated->parts.front().recipes.noise(step))
      squares += term.multiplier * term.multiplier;
    return noise_multiplier == 0.0 ? mean : gradient.noise_stddev() / std::sqrt(squares);
  }
  if (plan_.correlated) return mean * plan_.correlated->parts.front().recipes.scale(step);
  // The step's clip norm may depend on releases, so it is derived from the noise.
  return noise_multiplier == 0.0 ? mean : gradient.noise_stddev() / noise_multiplier;
}

void AuditScores::add(std::uint64_t step, const Released& gradient, double noise_multiplier) {
  // Under every rule that clips groups alike, a canary's contribution has the same length in each
  // group. The sum over the groups has `groups` times one group's contribution, and sqrt(groups)
  // times its noise.
  const auto groups = static_cast<double>(layout_.inner().size());
  const double scale = unit_of(step, gradient, noise_multiplier) * std::sqrt(groups);
  std::vector<double> moved(scores_.size(), 0.0);
  for (std::size_t group = 0; group < layout_.inner().size(); ++group) {
    for (std::size_t i = 0; i < moved.size(); ++i)
      moved[i] += static_cast<double>(gradient.values()[layout_.spare(group, i)]);
  }
  for (double& value : moved) value /= scale;
  for (std::size_t i = 0; i < moved_.size(); ++i) moved_[i].push_back(static_cast<float>(moved[i]));
  if (plan_.correlated) {
    add_correlated(step, moved);
  } else {
    add_independent(step, moved, noise_multiplier == 0.0 ? kAlmostNoNoise : noise_multiplier);
  }
}

void AuditScores::add_independent(std::uint64_t step, std::span<const double> moved,
                                  double noise_multiplier) {
  const double a = 1.0 / noise_multiplier;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const double q = parts_.share(step, i);
    if (q == 0.0) continue;
    const double y = moved[i] / noise_multiplier;
    scores_[i] += log_mixture(q, a * y - 0.5 * a * a);
    if (exchanged_) scores_[i] -= log_mixture(q, -a * y - 0.5 * a * a);
  }
}

void AuditScores::add_correlated(std::uint64_t step, std::span<const double> moved) {
  const CorrelatedRecipes& recipes = plan_.correlated->parts.front().recipes;
  if (recipes.window() > 0) return add_windowed(step, moved);
  std::vector<double> sum(scores_.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = (step == 0 ? 0.0 : recipes.keep(step) * sums_[step - 1][i]) +
             (parts_.takes_part(step, i) ? 1.0 : 0.0);
  }
  std::vector<double> fresh(moved.begin(), moved.end());  // the new part of the release
  // what each canary adds to `fresh` if it is present
  std::vector<double> added = sum;
  for (const EarlierNoise& earlier : recipes.earlier(step)) {
    double factor = earlier.share;
    for (std::uint64_t t = earlier.step + 1; t <= step; ++t) factor *= recipes.keep(t);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      fresh[i] -= factor * released_[earlier.step][i];
      added[i] -= factor * sums_[earlier.step][i];
    }
  }
  const bool is_noised = plan_.noise_multiplier[step] != 0.0;
  const double sigma = is_noised ? recipes.own_multiplier(step) : kAlmostNoNoise;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const double towards = fresh[i] * added[i], middle = 0.5 * added[i] * added[i];
    scores_[i] += (exchanged_ ? 2.0 * towards : towards - middle) / (sigma * sigma);
  }
  released_.emplace_back(moved.begin(), moved.end());
  sums_.push_back(std::move(sum));
}

/// With N the noising matrix, C its inverse, X the steps' sums and zeta independent noise, the
/// releases are N (C X + zeta). After multiplication by C, the value of a step is noise
/// with standard deviation 1, shifted by C times the canary's contributions.
void AuditScores::add_windowed(std::uint64_t step, std::span<const double> moved) {
  const CorrelatedRecipes& recipes = plan_.correlated->parts.front().recipes;
  const bool is_noised = plan_.noise_multiplier[step] != 0.0;
  std::vector<double> fresh(moved.begin(), moved.end()), added(scores_.size());
  for (std::size_t i = 0; i < added.size(); ++i) added[i] = parts_.share(step, i);
  for (const NoiseTerm& term : recipes.noise(step).subspan(1)) {
    if (!is_noised) break;
    const std::uint64_t from = step - recipes.age(step, term);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      fresh[i] -= term.multiplier * released_[from][i];
      added[i] -= term.multiplier * sums_[from][i];
    }
  }
  const double own = is_noised ? recipes.own_multiplier(step) : kAlmostNoNoise;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    fresh[i] /= own;
    added[i] /= own;
    const double towards = fresh[i] * added[i];
    scores_[i] += exchanged_ ? 2.0 * towards : towards - 0.5 * added[i] * added[i];
  }
  released_.push_back(std::move(fresh));
  sums_.push_back(std::move(added));
}

}  // namespace privgrad::core
