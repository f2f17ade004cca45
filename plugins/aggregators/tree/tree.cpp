#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "../auto_momentum.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// Prefix sums, or exponentially weighted momentum, with the noise of a binary tree over the steps.
///
/// Count a tree's steps k from 1, and let 2^b be the largest power of two that divides k. The
/// release of step k continues the release of step k - 2^b, and adds a node over the 2^b steps
/// between them: the greedy cover of [1, k] by aligned blocks (COMPOSE(1, k) of Tran and Cutkosky)
/// consists of the cover of [1, k - 2^b] and this block. So each step draws one node, numbered by
/// the step itself, and reads one earlier release; nodes that no cover uses do not exist, and cost
/// nothing. The number of steps is arbitrary.
///
/// Momentum: s_t = momentum s_{t-1} + x_t, released as (1 - momentum) s_t, and the noise of a block
/// fades at the same rate as its data.
///
/// Restarts: a new tree begins after every `restart_every` steps and continues the last release of
/// the old one. Completion: the last release of a tree gets the noise of a single node over the
/// whole tree instead of one node per block of the cover, as if steps without data had completed
/// the tree.
///
/// Variance reduction: the estimator "from below" of Honaker (2015). It uses all nodes of a
/// complete tree, also nodes that no cover uses. A block is estimated by its own node and by the
/// sum of its halves' estimates, weighted by their precision. With weight w_l for the node of level
/// l, and K = momentum^s for a release s steps earlier, the prefix that ends in a block of level b
/// is estimated by
///
///     Z(l) = w_l (K Z_{k - 2^l} + node_l) + (1 - w_l) Z(l-1),    Z(0) = K Z_{k-1} + node_0,
///
/// because Z_{k - 2^(l-1)} - K Z_{k - 2^l} is the left half's estimate. Unrolled, step k continues
/// the releases of the steps k - 2^l with shares w_l prod_{j>l} (1 - w_j), which add up to 1, and
/// its nodes add noise with the same weights. The nodes are not released individually, so one
/// vector with their common variance suffices, and only the release itself is accounted, which
/// costs less than releasing every node. Variances: v_0 = 1, c_l = v_{l-1} (1 + momentum^(2^l)),
/// v_l = w_l = c_l / (1 + c_l), in units of a node's variance.
///
/// `momentum: auto` and `steps: auto` are alpha and T of Tran and Cutkosky's Theorem 6.
class Tree final : public Aggregator {
 public:
  explicit Tree(const Params& params)
      : is_momentum_(params.has("momentum")),
        is_auto_(params.is_auto("momentum")),
        completion_(params.boolean("completion")),
        reduced_(params.boolean("variance_reduction")) {
    if (params.has("restart_every"))
      tree_steps_ = static_cast<std::uint64_t>(params.integer("restart_every"));
    if (completion_ && tree_steps_ == 0) {
      throw ConfigError(
          "tree: completion needs trees that are followed by others; give restart_every");
    }
    if (!is_auto_) set_keep(is_momentum_ ? params.real("momentum") : 1.0);
  }

  void start(const AggregationPlan& plan) override {
    if (plan.noise_multipliers.size() != plan.steps) {
      throw ConfigError("tree: got " + std::to_string(plan.noise_multipliers.size()) +
                        " noise multiplier(s) for " + std::to_string(plan.steps) +
                        " step(s), expected one per step");
    }
    for (const double sigma : plan.noise_multipliers) {
      if (!std::isfinite(sigma) || sigma <= 0.0) {
        throw ConfigError("tree: noise multiplier " + format_number(sigma) +
                          " is not a finite number above 0");
      }
    }
    if (is_auto_) set_keep(auto_momentum::momentum_of(alpha_of(plan.facts), "tree", kTheorem));
    noise_multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }

  std::vector<AutoValue> auto_values() const override {
    if (!is_auto_) return {};
    return {{"momentum", keep_,
             std::string("1 - alpha, alpha = epsilon N / (T log2(T) sqrt(d ln(1/delta))): ") +
                 kTheorem}};
  }

  /// Solves T log2(T) = epsilon N n / sqrt(d ln(1/delta)) for T, with N examples, n steps in an
  /// epoch and d parameters. At this T, alpha is 1/n.
  std::optional<AutoValue> auto_steps(const RunFacts& run) const override {
    if (!is_momentum_) {
      throw ConfigError(
          "is auto, but no theorem says how many steps prefix sums are best used for; give a "
          "number, or aggregator.momentum");
    }
    const auto facts = auto_momentum::facts_of("steps", run);
    const double product = facts.epsilon * facts.examples * facts.epoch_steps /
                           std::sqrt(facts.parameters * facts.log_inverse_delta);
    if (product < 2.0) {
      throw ConfigError(std::string("is auto, but ") + kTheorem +
                        " asks for less than 2 steps; give a number");
    }
    double low = 2.0, high = 2.0 + product;
    for (int i = 0; i < 200; ++i) {
      const double middle = 0.5 * (low + high);
      (middle * std::log2(middle) <= product ? low : high) = middle;
    }
    return AutoValue{
        "steps", std::floor(low),
        std::string("T log2(T) = epsilon N n / sqrt(d ln(1/delta)), n = N/B: ") + kTheorem};
  }

  ReleaseRecipe recipe(std::uint64_t step) const override {
    const double node = noise_multipliers_.at(step);
    const std::uint64_t done = tree_steps_ == 0 ? 0 : step / tree_steps_ * tree_steps_;
    const std::uint64_t k = step - done + 1;
    const bool completes = completion_ && k == tree_steps_ && !std::has_single_bit(k);

    // Computes the shares of the blocks that end at this step, the smallest first.
    std::vector<Block> blocks = ending_blocks(k);
    if (completes) add_root(k, blocks);

    ReleaseRecipe recipe{.keep = keep_, .earlier = {}, .noise = {}, .scale = scale_};
    double squares = 0.0;
    for (const Block& block : blocks) {
      squares += block.share * block.share;
      // The first blocks of the first tree continue no release.
      if (block.length <= step) {
        recipe.earlier.push_back({.step = step - block.length, .share = block.share});
      }
    }
    recipe.noise = {{.node = step, .multiplier = node * std::sqrt(squares)}};
    return recipe;
  }

 private:
  static constexpr const char* kTheorem = "Tran and Cutkosky 2022, Theorem 6";

  static double alpha_of(const RunFacts& run) {
    const auto facts = auto_momentum::facts_of("tree: momentum", run);
    const double steps = static_cast<double>(std::max<std::uint64_t>(2, run.steps));
    return facts.epsilon * facts.examples /
           (steps * std::log2(steps) * std::sqrt(facts.parameters * facts.log_inverse_delta));
  }

  void set_keep(double keep) {
    keep_ = keep;
    scale_ = is_momentum_ ? 1.0 - keep : 1.0;
    variances_.assign(1, 1.0);
    while (variances_.size() < 64) {
      const double halves =
          variances_.back() * (1.0 + std::pow(keep_, std::ldexp(1.0, int(variances_.size()))));
      variances_.push_back(halves / (1.0 + halves));
    }
  }

  /// One estimate of the prefix: the release of the step before the block, plus the block's node.
  struct Block {
    std::uint64_t length;
    double share;
  };

  std::vector<Block> ending_blocks(std::uint64_t k) const {
    const int level = std::countr_zero(k);
    if (!reduced_) return {{std::uint64_t{1} << level, 1.0}};
    std::vector<Block> blocks;
    double left = 1.0;  // subtracting shares in this order leaves exactly 0
    for (int l = 0; l < level; ++l) {
      double share = l == 0 ? 1.0 : weight(l);
      for (int above = l + 1; above <= level; ++above) share *= 1.0 - weight(above);
      blocks.push_back({std::uint64_t{1} << l, share});
      left -= share;
    }
    blocks.push_back({std::uint64_t{1} << level, left});
    return blocks;
  }

  /// Adds the node over all k steps of the tree, either by itself or weighted against the estimate
  /// that does not use the node.
  void add_root(std::uint64_t k, std::vector<Block>& blocks) const {
    if (!reduced_) {
      blocks = {{k, 1.0}};
      return;
    }
    // the variance of the estimate without the node has one term for each block of the cover
    double variance = 0.0;
    for (std::uint64_t end = k; end != 0; end &= end - 1) {
      const double faded = std::pow(keep_, static_cast<double>(k - end));
      variance += variances_[static_cast<std::size_t>(std::countr_zero(end))] * faded * faded;
    }
    const double root = variance / (1.0 + variance);
    double left = 1.0;
    for (Block& block : blocks) left -= block.share *= 1.0 - root;
    blocks.push_back({k, left});
  }

  double weight(int level) const { return variances_[static_cast<std::size_t>(level)]; }

  bool is_momentum_, is_auto_;
  bool completion_, reduced_;
  double keep_ = 1.0, scale_ = 1.0;
  std::uint64_t tree_steps_ = 0;  // 0 for a single tree
  // Variances of blocks' estimates, and weights of their nodes, by level.
  std::vector<double> variances_;
  std::vector<double> noise_multipliers_;  // one per step
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Aggregator, Tree>({
      .name = "tree",
      .summary = "Prefix sums or momentum of all steps so far, with the noise of a binary tree; "
                 "noise_multiplier is that of a node.",
      .reference = "Tran and Cutkosky 2022, Algorithm 1; Kairouz et al. 2021; Dwork et al. 2010; "
                   "Chan et al. 2011; Honaker 2015",
      .params =
          {real("momentum",
                "Share of the momentum that is kept from step to step: the release is the sum of "
                "(1-momentum) momentum^(t-u) x_u over the steps u up to t. auto: 1 - alpha of "
                "Theorem 6. Without it: the sum of all x_u.")
               .at_least(0)
               .below(1)
               .or_auto()
               .optional(),
           integer("restart_every",
                   "Steps after which a new tree begins; by default never. Sums continue.")
               .in_unit("steps")
               .at_least(1)
               .optional(),
           boolean("completion",
                   "Whether the last release of each tree gets the noise of one node instead of "
                   "one per block; costs one release more.")
               .defaults_to(false),
           boolean("variance_reduction",
                   "Whether each block is estimated from all nodes below it too (Honaker).")
               .defaults_to(false)},
      .traits = {std::string(trait::correlated)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.tree", "0.1.0", "aggregator/tree", register_components)
