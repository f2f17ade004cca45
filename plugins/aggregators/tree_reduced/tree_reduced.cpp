#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../auto_momentum.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// Momentum whose noise does not grow with the number of epochs. Only the first epoch needs whole
/// gradients; later epochs add the changes of the gradients, which are shorter and thus need less
/// noise.
///
/// Steps are counted from 0, an epoch has n of them, w(q) is the iterate at the beginning of epoch
/// q, and every epoch has the same batches. Three trees release one momentum each, as `tree` does:
///
/// - G is the momentum of each step's clipped gradients at w(q);
/// - R is the momentum of the differences of the gradients at the step's own iterate and at w(q);
/// - D, from the second epoch on, is the momentum of the differences of the gradients at w(q) and
///   at w(q - 1).
///
/// With beta = momentum, the result is M_t + R_t, where
///
///     M_t = G_t                                                                      (t < n)
///     M_t = gamma G_t + (1 - gamma) (D_t + beta^(t-n+1) G_{n-1} + M_{t-n})           (t >= n)
///
/// because G_t = sum of beta^(t-u) g_u with g_u = g_{u-n} + d_u from step n on, so that
/// G_t = D_t + beta^(t-n+1) G_{n-1} + G_{t-n} without noise. Tran and Cutkosky's Lemma 17
/// unrolls this to a sum over all epochs (docs/algorithms/momentum-aggregation.md). Every step
/// reads one vector of the previous epoch; n vectors are kept.
///
/// The difference of the gradients at two iterates is clipped to smoothness * x, where x is the sum
/// of the learning rates of the steps between the iterates. If the optimizer's steps are as long as
/// the learning rate (normalized_sgd) and losses have that smoothness, this bound changes nothing.
/// Otherwise it clips, and the charge is the same.
///
/// Noise. The four kinds of nodes (G in the first epoch and later, D, R) have noise in the
/// proportions that minimise the mean variance of the result, for a given sum of squared
/// sensitivities over squared noise, under the approximation that all trees are alike: if noise m_k
/// in the kind k contributes a_k m_k^2 to the error and c_k / m_k^2 to the cost, m_k^2 is
/// proportional to sqrt(c_k / a_k). The actual cost is accounted exactly for any proportions.
class TreeReduced final : public Aggregator, public UsesGradientDifferences {
 public:
  explicit TreeReduced(const Params& params)
      : smoothness_(params.real("smoothness")),
        auto_momentum_(params.is_auto("momentum")),
        auto_gamma_(params.is_auto("gamma")) {
    if (!auto_momentum_) keep_ = params.real("momentum");
    if (!auto_gamma_) gamma_ = params.real("gamma");
  }

  void start(const AggregationPlan& plan) override {
    check(plan);
    steps_ = plan.steps;
    const double epoch = static_cast<double>(plan.facts.dataset_size) / plan.facts.batch_size;
    epoch_ = static_cast<std::uint64_t>(std::ceil(epoch));
    if (auto_momentum_) {
      const auto facts = auto_momentum::facts_of("tree_reduced: momentum", plan.facts);
      const double alpha = facts.epsilon * facts.batch / std::sqrt(facts.parameters) *
                           std::pow(facts.epoch_steps / static_cast<double>(plan.steps), 0.75);
      keep_ = auto_momentum::momentum_of(alpha, "tree_reduced", kTheorem);
    }
    if (auto_gamma_) {
      gamma_ = plan.learning_rates.front() * epoch;
      if (!(gamma_ > 0.0 && gamma_ <= 0.5)) {
        throw ConfigError(
            "tree_reduced: gamma is auto, the learning rate times the steps of an epoch, but that "
            "is " +
            format_number(gamma_) +
            ", and Lemma 7 asks for (0, 0.5]; take a smaller learning rate, or give a number");
      }
    }
    noise_multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
    set_bounds(plan);
    set_weights();
    history_.clear();
    end_of_first_.clear();
    next_step_ = 0;
  }

  ReleaseRecipe recipe(std::uint64_t step) const override {
    return tree(step, node_of_gradients(step));
  }

  std::uint64_t epoch_steps() const override { return epoch_; }

  double difference_bound(GradientDifference difference, std::uint64_t step) const override {
    return difference == GradientDifference::since_anchor ? since_.at(step) : between_.at(step);
  }

  ReleaseRecipe difference_recipe(GradientDifference difference,
                                  std::uint64_t step) const override {
    if (difference == GradientDifference::since_anchor)
      return tree(step, since_weight_ * noise_multipliers_.at(step));
    return tree(step, between_weight_ * noise_multipliers_.at(step + epoch_));
  }

  void combine(std::uint64_t step, std::span<const float> at_anchor,
               std::span<const float> since_anchor, std::span<const float> between_anchors,
               std::span<float> out) override {
    if (step != next_step_) {
      throw PluginError("tree_reduced: got step " + std::to_string(step) + ", the next one is " +
                        std::to_string(next_step_));
    }
    ++next_step_;
    if (step < epoch_) {
      history_.insert(history_.end(), at_anchor.begin(), at_anchor.end());
      if (step + 1 == epoch_) end_of_first_.assign(at_anchor.begin(), at_anchor.end());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = at_anchor[i] + since_anchor[i];
      return;
    }
    const std::span<float> m = std::span(history_).subspan(step % epoch_ * out.size(), out.size());
    const double left = 1.0 - gamma_;
    const double faded = fade(step + 1 - epoch_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double before = static_cast<double>(between_anchors[i]) +
                            faded * static_cast<double>(end_of_first_[i]) +
                            static_cast<double>(m[i]);
      m[i] = static_cast<float>(gamma_ * static_cast<double>(at_anchor[i]) + left * before);
      out[i] = m[i] + since_anchor[i];
    }
  }

  /// Returns the state: the next step, the vectors M of the last n steps, one after the other, and
  /// G_{n-1} once it exists.
  std::vector<StateMember> state() override {
    return {{"next_step", &next_step_}, {"epoch", &history_}, {"end_of_first", &end_of_first_}};
  }

  void restored() override {
    const std::uint64_t vectors = std::min(next_step_, epoch_);
    const bool are_whole = vectors == 0 ? history_.empty() : history_.size() % vectors == 0;
    const std::size_t size = vectors == 0 ? 0 : history_.size() / vectors;
    if (next_step_ <= steps_ && are_whole &&
        end_of_first_.size() == (next_step_ >= epoch_ ? size : 0))
      return;
    throw ConfigError("tree_reduced: the state does not belong to this run");
  }

  std::vector<double> combined_noise() const override;

  std::vector<AutoValue> auto_values() const override {
    std::vector<AutoValue> values;
    if (auto_momentum_) {
      values.push_back(
          {"momentum", keep_,
           std::string("1 - alpha, alpha = epsilon B (n/T)^(3/4) / sqrt(d), n = N/B: ") +
               kTheorem});
    }
    if (auto_gamma_) {
      values.push_back(
          {"gamma", gamma_, std::string("learning rate times n, n = N/B: ") + kTheorem});
    }
    return values;
  }

  std::optional<AutoValue> auto_steps(const RunFacts& run) const override {
    const auto facts = auto_momentum::facts_of("steps", run);
    const double steps = std::pow(facts.epsilon * facts.batch, 4.0 / 3.0) *
                         std::pow(facts.epoch_steps, 7.0 / 3.0) /
                         std::pow(facts.parameters, 2.0 / 3.0);
    if (steps < 1.0) {
      throw ConfigError("is auto, which is less than one step (T = " + format_number(steps) +
                        "): " + kTheorem + "; give a number");
    }
    return AutoValue{"steps", std::floor(steps),
                     std::string("T = (epsilon B)^(4/3) n^(7/3) / d^(2/3), n = N/B: ") + kTheorem};
  }

 private:
  static constexpr const char* kTheorem = "Tran and Cutkosky 2022, Theorem 9";

  static void check(const AggregationPlan& plan) {
    if (plan.noise_multipliers.size() != plan.steps || plan.clip_norms.size() != plan.steps ||
        plan.learning_rates.size() != plan.steps) {
      throw ConfigError("tree_reduced: got " + std::to_string(plan.noise_multipliers.size()) +
                        " noise multiplier(s), " + std::to_string(plan.clip_norms.size()) +
                        " clip norm(s) and " + std::to_string(plan.learning_rates.size()) +
                        " learning rate(s) for " + std::to_string(plan.steps) +
                        " step(s), expected one of each per step");
    }
    for (const double sigma : plan.noise_multipliers) {
      if (!std::isfinite(sigma) || sigma <= 0.0) {
        throw ConfigError("tree_reduced: noise multiplier " + format_number(sigma) +
                          " is not a finite number above 0");
      }
    }
    if (!(plan.facts.batch_size > 0.0)) {
      throw ConfigError(
          "tree_reduced: epochs follow from the batch size; give the sampler's batch_size instead "
          "of schedules.batch_size");
    }
  }

  /// Returns the bound, in clip norms, on the difference of the gradients at two iterates.
  /// \param learning_rates  the sum of the learning rates of the steps between the iterates.
  double allowed(double learning_rates, double clip_norm) const {
    return std::min(2.0, smoothness_ * learning_rates / clip_norm);
  }

  void set_bounds(const AggregationPlan& plan) {
    since_.assign(steps_, 0.0);
    between_.assign(steps_, 0.0);
    double epoch_before = 0.0;  // the sum of the learning rates of the previous epoch
    double so_far = 0.0;        // the sum in this epoch, before this step
    for (std::uint64_t step = 0; step < steps_; ++step) {
      if (step % epoch_ == 0) epoch_before = std::exchange(so_far, 0.0);
      since_[step] = allowed(so_far, plan.clip_norms[step]);
      between_[step] = allowed(epoch_before, plan.clip_norms[step]);
      so_far += plan.learning_rates[step];
    }
  }

  void set_weights() {
    const auto n = static_cast<double>(epoch_);
    const double left = 1.0 - gamma_;
    // The mean squared weights of G's nodes in M_t, without the factor gamma^2.
    double first = 0.0, later = 0.0;
    double since_cost = 0.0, between_cost = 0.0;
    double faded = 1.0, grown = 0.0;  // in epoch q: left^(2q), and the sum of left^(2j), j < q
    for (std::uint64_t step = 0; step < steps_; ++step) {
      if (step > 0 && step % epoch_ == 0) {
        faded *= left * left;
        grown = grown * left * left + 1.0;
      }
      first += faded / static_cast<double>(steps_);
      later += grown / static_cast<double>(steps_);
      since_cost += since_[step] * since_[step] / n;
      if (step >= epoch_) between_cost += between_[step] * between_[step] / n;
    }
    const auto weight = [](double cost, double error) {
      constexpr double kLeast = 1e-12;  // for nodes without cost or effect
      return std::pow(std::max(cost, kLeast) / std::max(error, kLeast), 0.25);
    };
    const double unit = weight(1.0, first);
    const double later_epochs = static_cast<double>(steps_) / n - 1.0;
    later_weight_ = weight(later_epochs, gamma_ * gamma_ * later) / unit;
    between_weight_ = weight(between_cost, left * left * later) / unit;
    since_weight_ = weight(since_cost, 1.0) / unit;
  }

  double node_of_gradients(std::uint64_t step) const {
    return (step < epoch_ ? 1.0 : later_weight_) * noise_multipliers_.at(step);
  }

  /// Returns the recipe of a tree whose steps are counted from 0, as in `tree`.
  ReleaseRecipe tree(std::uint64_t step, double node) const {
    const std::uint64_t length = std::uint64_t{1} << std::countr_zero(step + 1);
    ReleaseRecipe recipe{
        .keep = keep_, .earlier = {}, .noise = {{step, node}}, .scale = 1.0 - keep_};
    if (length <= step) recipe.earlier = {{.step = step - length, .share = 1.0}};
    return recipe;
  }

  double fade(std::uint64_t steps) const { return std::pow(keep_, static_cast<double>(steps)); }

  /// A node of a tree over the steps of the run: its last step, and its length, which is also the
  /// number of following steps whose covers contain it.
  struct Node {
    std::uint64_t end, length;
    bool is_held_at(std::uint64_t step) const { return step >= end && step < end + length; }
  };

  /// Returns the nodes in the release of a step.
  /// \param first_step  the tree's first step.
  static std::vector<Node> cover(std::uint64_t step, std::uint64_t first_step) {
    std::vector<Node> nodes;
    for (std::uint64_t k = step - first_step + 1; k != 0; k &= k - 1) {
      nodes.push_back({first_step + k - 1, std::uint64_t{1} << std::countr_zero(k)});
    }
    return nodes;
  }

  template <class Weight>
  std::vector<double> variances(std::uint64_t first_step, const std::vector<Node>& always,
                                const std::vector<double>& squared_noise,
                                const Weight& weight) const;

  double smoothness_;
  bool auto_momentum_, auto_gamma_;
  double keep_ = 0.0, gamma_ = 1.0;
  std::uint64_t steps_ = 0, epoch_ = 1;
  std::vector<double> noise_multipliers_;  // one per step
  std::vector<double> since_, between_;    // the bounds, one per step
  // The noise of G's later nodes, of D's nodes and of R's nodes, relative to the noise of G's nodes
  // in the first epoch.
  double later_weight_ = 1.0, between_weight_ = 1.0, since_weight_ = 1.0;
  std::vector<float> history_;       // M of the last n steps, one after the other
  std::vector<float> end_of_first_;  // G_{n-1}
  std::uint64_t next_step_ = 0;
};

/// Computes the variance of one tree's noise in M_t, step by step: M_t = Q_t + (1 - gamma) M_{t-n}
/// with Q_t = sum over nodes of beta^(t - end) weight(node, t) node, so
///
///     Var M_t = Var Q_t + (1-gamma)^2 Var M_{t-n} + 2 (1-gamma) Cov(Q_t, M_{t-n}),
///
/// and in Cov each node of Q_t is paired with itself in the Q of all earlier epochs.
/// \param always  nodes that may have a weight even when no cover contains them.
template <class Weight>
std::vector<double> TreeReduced::variances(std::uint64_t first_step,
                                           const std::vector<Node>& always,
                                           const std::vector<double>& squared_noise,
                                           const Weight& weight) const {
  const double left = 1.0 - gamma_;
  const double faded_epoch = fade(epoch_);
  std::vector<double> result(steps_, 0.0);
  for (std::uint64_t t = first_step; t < steps_; ++t) {
    std::vector<Node> nodes = cover(t, first_step);
    for (const Node& node : always) {
      if (node.end <= t && !node.is_held_at(t)) nodes.push_back(node);
    }
    for (const Node& node : nodes) {
      const double now = fade(t - node.end) * weight(node, t);
      if (now == 0.0) continue;
      // The node's weight in M_{t-n}, beginning in the epoch in which the node ends.
      double before = 0.0;
      const std::uint64_t epochs = (t - node.end) / epoch_;
      if (epochs > 0 && left > 0.0) {
        double term =
            fade(t - node.end - epochs * epoch_) * std::pow(left, static_cast<double>(epochs - 1));
        const double ratio = faded_epoch / left;
        for (std::uint64_t i = epochs; i > 0; --i) {
          before += term * weight(node, t - i * epoch_);
          term *= ratio;
          if (ratio < 1.0 && term < 1e-18 * (1.0 - ratio)) break;
        }
      }
      result[t] += squared_noise[node.end] * now * (now + 2.0 * left * before);
    }
    if (t >= first_step + epoch_) result[t] += left * left * result[t - epoch_];
  }
  return result;
}

std::vector<double> TreeReduced::combined_noise() const {
  const auto squares = [&](const auto& multiplier) {
    std::vector<double> values;
    for (std::uint64_t step = 0; step < steps_; ++step) {
      const double value = multiplier(step);
      values.push_back(value * value);
    }
    return values;
  };
  const double left = 1.0 - gamma_;
  const bool has_second = epoch_ < steps_;
  // G_{n-1} is part of every later step.
  const std::vector<Node> first = has_second ? cover(epoch_ - 1, 0) : std::vector<Node>{};
  const auto of_gradients = [&](const Node& node, std::uint64_t step) {
    const double held = node.is_held_at(step) ? 1.0 : 0.0;
    if (step < epoch_) return held;
    return gamma_ * held + (node.is_held_at(epoch_ - 1) ? left : 0.0);
  };
  std::vector<double> total = variances(
      0, first, squares([&](std::uint64_t t) { return node_of_gradients(t); }), of_gradients);
  if (has_second) {
    const auto of_differences = [&](const Node& node, std::uint64_t step) {
      return node.is_held_at(step) ? left : 0.0;
    };
    const std::vector<double> between =
        variances(epoch_, {},
                  squares([&](std::uint64_t t) { return between_weight_ * noise_multipliers_[t]; }),
                  of_differences);
    for (std::uint64_t t = 0; t < steps_; ++t) total[t] += between[t];
  }
  for (std::uint64_t t = 0; t < steps_; ++t) {
    for (const Node& node : cover(t, 0)) {
      const double noise = since_weight_ * noise_multipliers_[node.end] * fade(t - node.end);
      total[t] += noise * noise;
    }
  }
  for (double& value : total) value = (1.0 - keep_) * std::sqrt(value);
  return total;
}

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Aggregator, TreeReduced>({
      .name = "tree_reduced",
      .summary = "Momentum with the noise of three trees: of gradients at each epoch's first "
                 "iterate, and of the small differences to it and between epochs; "
                 "noise_multiplier is that of a node in the first epoch.",
      .reference = "Tran and Cutkosky 2022, Algorithm 2",
      .params =
          {real("momentum",
                "Share of the momentum that is kept from step to step; auto: 1 - alpha of Theorem "
                "9.")
               .at_least(0)
               .below(1)
               .or_auto()
               .example(0.99),
           real("smoothness",
                "L: how much longer, at most, a difference of an example's gradients may be than "
                "the distance of the iterates, taken as the sum of the learning rates between "
                "them. Longer ones are clipped.")
               .above(0)
               .example(1),
           real("gamma",
                "Share of whole gradients in what is carried from epoch to epoch; auto: the "
                "learning rate times the steps of an epoch, as in Theorem 9.")
               .above(0)
               .at_most(1)
               .or_auto()
               .defaults_to("auto")},
      .traits = {std::string(trait::correlated)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.tree_reduced", "0.1.0", "aggregator/tree_reduced", register_components)
