#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"
#include "strategy.hpp"

namespace {

using namespace privgrad;

using matrix_noise::Workload;

/// Releases each step's gradient with the noise of a matrix mechanism whose inverse is banded: step
/// t adds sigma_t zeta_t, its own noise, and a_j sigma_{t-j} zeta_{t-j} for j = 1, ..., bands - 1.
/// With a_j < 0 this subtracts part of the noise of the preceding steps, so that sums over steps,
/// which training computes, have less noise (Kalinin, McKenna, Upadhyay and Lampert 2025). For any
/// coefficients, the cost follows from the recipes and the order of the examples.
///
/// With `form: banded`, the optimisation chooses the coefficients c of a matrix C with few bands,
/// and a contains the first coefficients of 1 / c: the noising matrix N is nearly the inverse of C,
/// and the charge covers the difference (strategy()). All terms of step t are then scaled by
/// sigma_t, as a_j sigma_t zeta_{t-j}, so C N is the same at each step even if the noise changes.
class Matrix final : public Aggregator {
 public:
  explicit Matrix(const Params& params)
      : is_banded_(params.text("form") == "banded"),
        strategy_(params.text("strategy")),
        bands_(static_cast<std::size_t>(params.integer("bands"))),
        momentum_(params.real("momentum")),
        weighs_(params.text("workload") == "learning_rate") {
    if (params.has("coefficients")) own_ = params.reals("coefficients");
    if (params.has("participations"))
      participations_ = static_cast<std::uint64_t>(params.integer("participations"));
    if ((strategy_ == "coefficients") != !own_.empty()) {
      throw ConfigError(
          "matrix: coefficients and strategy: coefficients belong together; give both or neither");
    }
    if (!own_.empty()) {
      if (own_.front() != 1.0) {
        throw ConfigError("matrix: coefficients begin with " + format_number(own_.front()) +
                          ", expected 1: the noise multiplier scales them");
      }
      bands_ = own_.size();
    }
    if (bands_ > kMostNoiseWindow + 1) {
      throw ConfigError("matrix: has " + std::to_string(bands_) +
                        " coefficients, allowed are at most 16");
    }
    if (is_banded_ && (strategy_ == "bisr" || strategy_ == "cgd")) {
      throw ConfigError("matrix: strategy " + strategy_ +
                        " is for form inverse; use learned, bsr or coefficients");
    }
    if (!is_banded_ && strategy_ == "bsr")
      throw ConfigError("matrix: strategy bsr is for form banded; use bisr");
    if (strategy_ == "cgd") bands_ = 2;
    terms_ = is_banded_ ? std::min<std::size_t>(2 * bands_, kMostNoiseWindow + 1) : bands_;
  }

  /// \returns the coefficients a; with `form: banded`, the coefficients c followed by a.
  std::vector<double> optimized(const AggregationPlan& plan) const override {
    std::vector<double> numbers = strategy_for(plan);
    if (!is_banded_) return numbers;
    const std::vector<double> a = matrix_noise::inverse(numbers, terms_);
    numbers.insert(numbers.end(), a.begin(), a.end());
    return numbers;
  }

  void use(std::span<const double> numbers) override {
    const std::size_t of_strategy = is_banded_ ? bands_ : 0;
    const bool fits = numbers.size() == of_strategy + terms_ && numbers.front() == 1.0 &&
                      numbers[of_strategy] == 1.0 &&
                      (own_.empty() || std::equal(own_.begin(), own_.end(), numbers.begin()));
    if (!fits) {
      throw ConfigError("matrix: was given " + std::to_string(numbers.size()) +
                        " coefficient(s) that are not those of its " + std::to_string(bands_) +
                        " bands");
    }
    banded_.assign(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(of_strategy));
    coefficients_.assign(numbers.begin() + static_cast<std::ptrdiff_t>(of_strategy), numbers.end());
  }

  std::vector<double> strategy() const override { return banded_; }

  void start(const AggregationPlan& plan) override {
    if (plan.noise_multipliers.size() != plan.steps) {
      throw ConfigError("matrix: got " + std::to_string(plan.noise_multipliers.size()) +
                        " noise multiplier(s) for " + std::to_string(plan.steps) +
                        " step(s), expected one per step");
    }
    if (coefficients_.empty()) throw ConfigError("matrix: was started without coefficients");
    noise_multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }

  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe;
    for (std::size_t j = 0; j < coefficients_.size() && j <= step; ++j) {
      if (coefficients_[j] == 0.0) continue;
      const std::uint64_t sigma_of = is_banded_ ? step : step - j;
      recipe.noise.push_back(
          {.node = step - j, .multiplier = coefficients_[j] * noise_multipliers_.at(sigma_of)});
    }
    return recipe;
  }

  std::uint64_t window() const override { return terms_ - 1; }

 private:
  std::vector<double> strategy_for(const AggregationPlan& plan) const {
    if (!own_.empty()) return own_;
    if (strategy_ == "bisr") return matrix_noise::power_of_inverse(0.5, momentum_, bands_);
    if (strategy_ == "bsr") {
      return matrix_noise::inverse(matrix_noise::power_of_inverse(0.5, momentum_, bands_), bands_);
    }
    const Workload workload = workload_of(plan);
    return is_banded_ ? matrix_noise::minimised_banded(workload, bands_, terms_)
                      : matrix_noise::minimised_inverse(workload, bands_);
  }

  Workload workload_of(const AggregationPlan& plan) const {
    Workload workload{.steps = plan.steps,
                      .momentum = momentum_,
                      .weights = std::vector<double>(plan.steps, 1.0),
                      .noise = {plan.noise_multipliers.begin(), plan.noise_multipliers.end()},
                      .participations = participations_of(plan)};
    workload.spacing = std::max<std::uint64_t>(1, plan.steps / workload.participations);
    // Scales the noise to a largest value of 1, so that only its proportions affect the result.
    const double largest = *std::ranges::max_element(workload.noise);
    for (double& value : workload.noise) value /= largest;
    if (!weighs_) return workload;
    for (std::uint64_t step = 0; step < plan.steps; ++step)
      workload.weights[step] = plan.learning_rates[step] * plan.clip_norms[step];
    const double most = *std::ranges::max_element(workload.weights);
    if (!(most > 0.0)) throw ConfigError("matrix: the learning rates of its workload are all 0");
    for (double& value : workload.weights) value /= most;
    return workload;
  }

  std::uint64_t participations_of(const AggregationPlan& plan) const {
    if (participations_ != 0) return std::min(participations_, plan.steps);
    if (plan.facts.batch_size == 0.0) {
      throw ConfigError(
          "matrix: the strategy is optimised for as many steps as an example takes part in, which "
          "a schedule of batch sizes leaves open; give participations");
    }
    const double steps = static_cast<double>(plan.steps) * plan.facts.batch_size /
                         static_cast<double>(plan.facts.dataset_size);
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::ceil(steps)), 1, plan.steps);
  }

  bool is_banded_;
  std::string strategy_;
  std::size_t bands_;      // the number of bands of N, or of C
  std::size_t terms_ = 0;  // the number of noise terms in one release
  double momentum_;
  bool weighs_;
  std::vector<double> own_;
  std::uint64_t participations_ = 0;
  std::vector<double> banded_;             // c_0 = 1, ...; empty for `form: inverse`
  std::vector<double> coefficients_;       // a_0 = 1, ...
  std::vector<double> noise_multipliers_;  // one per step
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Aggregator, Matrix>({
      .name = "matrix",
      .summary = "Gradients with noise that is correlated between steps: each step subtracts a "
                 "part of the last steps' noise, which is redrawn and takes no memory.",
      .reference =
          "Kalinin, McKenna, Upadhyay and Lampert 2025 (BISR); Kalinin, McKenna, Pagh and "
          "Lampert 2026 (lambda-CGD); Kalinin and Lampert 2024 (BSR); Choquette-Choo et al. "
          "2023; Denisov, McMahan, Rush, Smith and Thakurta 2022",
      .params =
          {text("strategy",
                "learned: the coefficients that leave the iterates the least error for the planned "
                "steps and participations. cgd: the same with 2 bands. bisr, bsr: a closed form, "
                "the inverse square root of the workload, or the square root. coefficients: those "
                "that are given.")
               .one_of({"learned", "cgd", "bisr", "bsr", "coefficients"})
               .defaults_to("learned"),
           text("form",
                "inverse: the bands belong to the matrix that the noise is multiplied by, for "
                "examples in a public order. banded: they belong to the strategy C, which the "
                "noise nearly inverts; with sampler cyclic_poisson the draw of each step amplifies "
                "privacy. A release then has the noise of twice as many steps, at most 16.")
               .one_of({"inverse", "banded"})
               .defaults_to("inverse"),
           integer("bands",
                   "Number of steps whose noise a release has, including its own; of form banded, "
                   "the bands of the strategy.")
               .at_least(2)
               .at_most(16)
               .defaults_to(4),
           list("coefficients",
                "What the noise of this step, of the last one, and so on is multiplied by; of form "
                "banded, the strategy's.",
                real("coefficient", "").at_least(-1e6).at_most(1e6))
               .at_least_items(2)
               .optional(),
           text("workload",
                "What an iterate adds up: prefix: all gradients alike; learning_rate: times the "
                "learning rate and the clip norm of their steps.")
               .one_of({"prefix", "learning_rate"})
               .defaults_to("prefix"),
           real("momentum",
                "The momentum of the optimizer, which the strategy is made for. It changes no "
                "release.")
               .at_least(0)
               .below(1)
               .defaults_to(0),
           integer("participations",
                   "Steps that an example takes part in, for which the strategy is optimised; by "
                   "default steps times batch size over the number of examples.")
               .at_least(1)
               .optional()},
      .traits = {std::string(trait::correlated)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.matrix", "0.1.0", "aggregator/matrix", register_components)
