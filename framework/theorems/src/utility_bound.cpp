#include "privgrad/theorems/utility_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "privgrad/influence.hpp"

namespace privgrad::core {
namespace {

/// Returns gamma^exponent for gamma in [0, 1).
double power(double gamma, double exponent) {
  return exponent == 0.0 ? 1.0 : std::pow(gamma, exponent);
}

double square(double x) { return x * x; }

/// Returns the minimum in [low, high] of a function that decreases and then increases.
BestSteps least(const std::function<double(std::uint64_t)>& bound, std::uint64_t low,
                std::uint64_t high) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    // If the bounds are equal as doubles, the minimum is to the left, because only the bounds of
    // large T stop changing.
    if (bound(middle) <= bound(middle + 1)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {low, bound(low)};
}

/// Returns the sum of the w_i of momentum_influence(), without computing each w_i:
///     sum_t gamma^(T-t) ((1-beta)/(1-beta^t))^2 (1-beta^(2t))/(1-beta^2).
double sum_of_momentum_influence(std::uint64_t steps, double gamma, double beta) {
  double total = 0.0;
  double faded = 1.0;
  for (std::uint64_t t = 1; t <= steps; ++t) {
    faded *= beta;
    total = gamma * total +
            square((1.0 - beta) / (1.0 - faded)) * (1.0 - faded * faded) / (1.0 - beta * beta);
  }
  return total;
}

}  // namespace

double alpha_of(const AlphaFacts& facts) {
  return facts.parameters * square(facts.clip_norm) /
         (2.0 * facts.budget * facts.smoothness * square(facts.examples) * facts.initial_gap);
}

double rho_for(double epsilon, double delta) {
  const double log = std::log(1.0 / delta);
  // Equals (sqrt(log + epsilon) - sqrt(log))^2, without its cancellation.
  return square(epsilon / (std::sqrt(log + epsilon) + std::sqrt(log)));
}

double Descent::bound(std::span<const double> noise_multiplier) const {
  return bounds(noise_multiplier).back();
}

std::vector<double> Descent::bounds(std::span<const double> noise_multiplier) const {
  const double budget = budget_of_noise(noise_multiplier);
  std::vector<double> all{1.0};
  double noise = 0.0;
  for (const double sigma : noise_multiplier) {
    noise = gamma() * noise + sigma * sigma;
    all.push_back(power(gamma(), static_cast<double>(all.size())) + alpha * budget * noise);
  }
  return all;
}

double Descent::bound(std::uint64_t steps, BudgetSplit split) const {
  const auto count = static_cast<double>(steps);
  const double left = power(gamma(), count);
  if (split == BudgetSplit::uniform) return left + alpha * kappa * (1.0 - left) * count;
  return left + alpha * square((1.0 - std::sqrt(left)) / (1.0 - std::sqrt(gamma())));
}

double MomentumDescent::zeta() const {
  const double lag = beta * (gamma() - beta * beta) / square((gamma() - beta) * (1.0 - beta));
  return 1.0 - eta0 / 2.0 - eta0 * eta0 * lag / 2.0;
}

double MomentumDescent::most_eta0(double kappa, double beta) {
  // zeta decreases from 1 to -infinity as eta0 grows from 0 to 2 kappa (1 - beta), where gamma
  // equals beta.
  double low = 0.0;
  double high = 2.0 * kappa * (1.0 - beta);
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2.0;
    const MomentumDescent candidate{.kappa = kappa, .alpha = 0.0, .beta = beta, .eta0 = middle};
    (candidate.gamma() > beta && candidate.zeta() >= 0.0 ? low : high) = middle;
  }
  return low;
}

double MomentumDescent::bound(std::span<const double> noise_multiplier) const {
  const std::uint64_t steps = noise_multiplier.size();
  return power(gamma(), static_cast<double>(steps)) +
         eta0 * alpha * budget_of_noise(noise_multiplier) *
             weighted_noise(momentum_influence(steps, gamma(), beta), noise_multiplier) +
         eta0 * sampling * sum_of_momentum_influence(steps, gamma(), beta);
}

double MomentumDescent::bound(std::uint64_t steps, BudgetSplit split) const {
  const double left = power(gamma(), static_cast<double>(steps));
  const double sum = sum_of_momentum_influence(steps, gamma(), beta);
  const double weight = split == BudgetSplit::uniform
                            ? static_cast<double>(steps) * sum
                            : least_weighted_noise(momentum_influence(steps, gamma(), beta), 1.0);
  return left + eta0 * (alpha * weight + sampling * sum);
}

double sampling_term(double parameters, double gradient_noise, double pl_constant,
                     double batch_size, double initial_gap) {
  return parameters * square(gradient_noise) /
         (2.0 * pl_constant * square(batch_size) * initial_gap);
}

BestSteps best_steps(const Descent& descent, BudgetSplit split, std::uint64_t most) {
  // Both splits have a single minimum. For uniform noise, the derivative by T has the sign of
  // alpha kappa (gamma^-T - 1) + ln(gamma) (1 - alpha kappa T), which increases with T. For dynamic
  // noise, the bound is a parabola in gamma^(T/2).
  return least([&](std::uint64_t steps) { return descent.bound(steps, split); }, 1, most);
}

BestSteps best_steps(const MomentumDescent& descent, BudgetSplit split, std::uint64_t most) {
  const auto bound = [&](std::uint64_t steps) { return descent.bound(steps, split); };
  // Tries values of T that grow by a quarter until gamma^T vanishes, then searches between the
  // neighbours of the best value.
  const double enough = std::min(40.0 / -std::log(descent.gamma()), static_cast<double>(most));
  std::vector<std::uint64_t> looks{1};
  while (static_cast<double>(looks.back()) < enough) {
    looks.push_back(looks.back() + std::max<std::uint64_t>(1, looks.back() / 4));
  }
  std::vector<double> found(looks.size());
  std::ranges::transform(looks, found.begin(), bound);
  const auto best = static_cast<std::size_t>(std::ranges::min_element(found) - found.begin());
  return least(bound, looks[best > 0 ? best - 1 : 0], looks[std::min(best + 1, looks.size() - 1)]);
}

std::uint64_t printed_steps(const Descent& descent, BudgetSplit split) {
  double steps = 0.0;
  if (split == BudgetSplit::uniform) {
    const double rate = -std::log(descent.gamma());
    steps = std::log1p(rate / descent.alpha) / rate;
  } else {
    steps = 2.0 * descent.kappa * std::log1p(1.0 / (descent.kappa * descent.alpha));
  }
  if (!std::isfinite(steps)) return 1;
  return static_cast<std::uint64_t>(std::max(1.0, std::round(steps)));
}

bool is_possible(const RiskFacts& facts) {
  return 2.0 * facts.pl_constant * facts.initial_gap <= square(facts.clip_norm);
}

double true_risk_by_stability(const RiskFacts& facts, double bound, std::uint64_t steps) {
  return bound * facts.initial_gap + 2.0 * square(facts.clip_norm) * static_cast<double>(steps) /
                                         (facts.smoothness * facts.examples);
}

std::uint64_t repetitions_for(double p) {
  return static_cast<std::uint64_t>(std::max(1.0, std::ceil(std::log2(1.0 / p))));
}

double true_risk_in_probability(const RiskFacts& facts, double bound_of_one, double p) {
  const double scale = square(facts.clip_norm) / facts.pl_constant;
  const double risk = 2.0 * bound_of_one * facts.initial_gap;
  return std::sqrt(2.0 * scale * risk) + 4.0 * scale / (p * facts.examples);
}

std::vector<TableRow> table_rows(double examples, double parameters, double budget, double epsilon,
                                 double delta, double pl_constant, double clip_norm, double p) {
  const double n = examples;
  const double d = parameters;
  const double r = budget;
  const double log_n = std::log(n);
  const double r_dp = epsilon * epsilon / std::log(1.0 / delta);
  const double ideal = d / (n * n * r);
  const double scale = clip_norm * clip_norm / (pl_constant * n);
  const double log_p = std::log(1.0 / p);
  const auto probable = [&](double factor) {
    return scale * (std::sqrt(d * log_p * factor / (n * r)) + 4.0 / p);
  };
  constexpr const char* kStatic = "D ln N / (N^2 R)";
  constexpr const char* kIdeal = "D / (N^2 R)";
  constexpr const char* kMomentum = "D / (N^2 R) (1 + D / (N^2 R))";
  std::vector<TableRow> rows{
      {"1", "GD+Adv", "D ln^3 N / (N R_dp)", d * std::pow(log_n, 3.0) / (n * r_dp)},
      {"1", "GD+MA", "D ln^2 N / (N^2 R_dp)", d * log_n * log_n / (n * n * r_dp)},
      {"1", "GD+MA (adjusted utility)", "min(sqrt(D) / (N R_dp), D ln N / (N^2 R_dp^2))",
       std::min(std::sqrt(d) / (n * r_dp), d * log_n / (n * n * r_dp * r_dp))},
      {"1", "GD+Adv+BBImp", "D^2 ln^2(1/p) / (R_dp N)", d * d * log_p * log_p / (r_dp * n)},
      {"1", "Adam+MA", "sqrt(D) ln(N D epsilon / (1-p)) / (N R_dp)",
       std::sqrt(d) * std::log(n * d * epsilon / (1.0 - p)) / (n * r_dp)},
      {"1", "GD, Non-Private", kIdeal, ideal},
      {"1", "GD+zCDP, Static Schedule", kStatic, ideal * log_n},
      {"1", "GD+zCDP, Dynamic Schedule", kIdeal, ideal},
      {"1", "Momentum+zCDP, Static Schedule", "D / (N^2 R) (1 + ln N)", ideal * (1.0 + log_n)},
      {"1", "Momentum+zCDP, Dynamic Schedule", kMomentum, ideal * (1.0 + ideal)},
      {"2", "GD+Adv", "sqrt(D) ln^2 N ln(1/p) / (p mu N R_dp)",
       std::sqrt(d) * log_n * log_n * log_p / (p * pl_constant * n * r_dp)},
      {"2", "SVRG+MA", "D ln N / (mu N^2 R_dp)", d * log_n / (pl_constant * n * n * r_dp)},
      {"2", "SSGD+zCDP", "(1/sqrt(N) + 2 sqrt(D) / (sqrt(R) N)) ln N",
       (1.0 / std::sqrt(n) + 2.0 * std::sqrt(d) / (std::sqrt(r) * n)) * log_n},
      {"2", "SGD+MA", "max(sqrt(D) / (N sqrt(R_dp)), 1/sqrt(N))",
       std::max(std::sqrt(d) / (n * std::sqrt(r_dp)), 1.0 / std::sqrt(n))},
      {"2", "GD+zCDP, Static Schedule, in probability",
       "G^2/(mu N) (sqrt(D ln N ln(1/p) / (N R)) + 4/p)", probable(log_n)},
      {"2", "GD+zCDP, Dynamic Schedule, in probability",
       "G^2/(mu N) (sqrt(D ln(1/p) / (N R)) + 4/p)", probable(1.0)},
      {"2", "Momentum+zCDP, Static Schedule, in probability",
       "G^2/(mu N) (sqrt(D ln(1/p) / (N R) (1 + ln N)) + 4/p)", probable(1.0 + log_n)},
      {"2", "Momentum+zCDP, Dynamic Schedule, in probability",
       "G^2/(mu N) (sqrt(D ln(1/p) / (N R) (1 + D/(N^2 R))) + 4/p)", probable(1.0 + ideal)},
      {"2", "GD, Non-Private, by stability", kIdeal, ideal},
      {"2", "GD+zCDP, Static Schedule, by stability", kStatic, ideal * log_n},
      {"2", "GD+zCDP, Dynamic Schedule, by stability", kIdeal, ideal},
      {"2", "Momentum+zCDP, Static Schedule, by stability", "D / (N^2 R) (1 + ln N)",
       ideal * (1.0 + log_n)},
      {"2", "Momentum+zCDP, Dynamic Schedule, by stability", kMomentum, ideal * (1.0 + ideal)},
  };
  for (TableRow& row : rows) {
    row.steps_formula = "ln(N^2 R / D)";
    row.steps = -std::log(ideal);
  }
  const auto set_steps = [&](const char* algorithm, const char* formula, double steps) {
    for (TableRow& row : rows) {
      if (row.table != "2" || row.algorithm != algorithm) continue;
      row.steps_formula = formula;
      row.steps = steps;
    }
  };
  set_steps("GD+Adv", "N^2", n * n);
  set_steps("SVRG+MA", "ln(N^2 R_dp / D)", std::log(n * n * r_dp / d));
  set_steps("SSGD+zCDP", "N^2 / (16 D / R^2 + 4 N)", n * n / (16.0 * d / (r * r) + 4.0 * n));
  set_steps("SGD+MA", "min(N/8, N^2 R_dp / (32 D))", std::min(n / 8.0, n * n * r_dp / (32.0 * d)));
  return rows;
}

}  // namespace privgrad::core
