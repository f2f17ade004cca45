#include "crafted_neighbours.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "audit_bounds.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/scratch_folder.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/train/trainer.hpp"

namespace privgrad::core {
namespace {

/// The residual of crafted rows; refusal() refuses clip norms above it.
constexpr float kFar = -1e4f;
/// Pairs of runs from which the adversary learns the releases of the two data sets. Their midpoint
/// is then known within an eighth of the noise, which reduces the power by a hundredth.
constexpr std::uint64_t kRehearsals = 64;
/// The score of a release that only one of the two data sets can have made.
constexpr double kCertain = 1e6;
/// The binary digits of a float32 after the first one.
constexpr int kFloatDigits = 23;
/// The steps of floating-point noise in one standard deviation (NormalStream).
constexpr double kNoiseSteps = 0x1p24;
/// Below this number of standard deviations, float32 numbers are closer together than the noise's
/// steps, so pure noise differs from a multiple of a step by at most a quarter of a step.
constexpr double kNearZero = 0x1p-2;

std::string refusal(const Plan& plan) {
  const Network& network = plan.setting->network;
  const auto* dense = std::get_if<Dense>(&network.nodes.front().layer);
  if (plan.setting->lora || network.nodes.size() != 1 || dense == nullptr || dense->per_place ||
      dense->no_bias || network.loss != Loss::squared || !network.class_weights.empty() ||
      plan.manifest->largest_class_weight)
    return "crafted rows are for the model linear with the squared loss";
  if (plan.correlated || plan.clip_norm_adapts())
    return "crafted rows are for independent noise and a clip norm that does not adapt";
  const double batch = plan.batch_size.front();
  if (batch != static_cast<double>(plan.dataset_size) || plan.dataset_size < 4)
    return "crafted rows are all in the first batch, and at least 4: use sampler full_batch";
  if (std::fabs(static_cast<double>(kFar)) < plan.clip_norm.front())
    return "crafted gradients of length 1e4 are clipped, and the clip norm is " +
           format_number(plan.clip_norm.front());
  return "";
}

Dataset without_first(const Dataset& data) {
  std::vector<float> features(data.rows() * data.row_size()), targets(data.rows());
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  data.gather(rows, features, targets);
  std::fill_n(features.begin(), data.row_size(), 0.0f);
  // the network with biases of 0 predicts this target, so there is no gradient
  targets.front() = 0.0f;
  return {data.shape(), std::move(features), std::move(targets)};
}

/// The features are 0, so only the bias has a gradient. 2^k + 1 rows are clipped to the clip norm C
/// and add up to (2^k + 1) C. Above 2^k C, float32 has steps of 2^(k - 23) C; below, half as large.
/// Each of the following rows subtracts a little less than half of the larger step. This changes
/// nothing above 2^k C. If a clipped row is missing, the sum is 2^k C, and each row subtracts a
/// whole smaller step.
Dataset rounding_rows(const Setting& setting, double clip_norm) {
  const std::size_t count = setting.info.train_rows;
  const int k = std::ilogb(static_cast<double>(count) / 2.0);
  const double unit = clip_norm * std::exp2(k - kFloatDigits);
  std::vector<float> targets(count, static_cast<float>(0.98 * unit / 2.0));
  std::fill_n(targets.begin(), (std::size_t{1} << static_cast<unsigned>(k)) + 1, kFar);
  const ExampleShape& shape = setting.network.input;
  return {shape, std::vector<float>(count * element_count(shape.features)), std::move(targets)};
}

/// One row has the same gradient in all coordinates: a release is this gradient plus noise, or only
/// noise, whose rounding steps are then visible.
Dataset lattice_rows(const Setting& setting) {
  const ExampleShape& shape = setting.network.input;
  const std::size_t width = element_count(shape.features), count = setting.info.train_rows;
  std::vector<float> features(count * width), targets(count);
  std::fill_n(features.begin(), width, 1.0f);
  targets.front() = kFar;
  return {shape, std::move(features), std::move(targets)};
}

class CraftedAudit {
 public:
  CraftedAudit(const Plan& plan, const AuditOptions& options)
      : plan_(plan),
        options_(options),
        key_((options.key ? *options.key : run_key(plan.manifest->seed)).derive("audit")),
        executor_(make_executor(options.threads)),
        bench_(make_workbench(plan, *executor_)),
        with_(options.neighbours == AuditNeighbours::rounding
                  ? rounding_rows(*plan.setting, plan.clip_norm.front())
                  : lattice_rows(*plan.setting)),
        without_(without_first(with_)) {
    for (std::uint32_t row = 1; row < with_.rows(); ++row) others_.push_back(row);
  }

  AuditResult result() {
    const auto begin = std::chrono::steady_clock::now();
    AuditResult result{.bounds = planned(),
                       .adjacency = plan_.manifest->adjacency,
                       .epsilon_upper = plan_.epsilon().value,
                       .delta = plan_.manifest->target_delta,
                       .confidence = options_.confidence,
                       .canaries = 1,
                       .runs = options_.runs,
                       .steps = 1,
                       .seconds = 0.0};
    rehearse();
    const auto coins = make_random_source(key_.derive("coins"))->stream(0);
    std::vector<AuditGuess> guesses;
    for (std::uint64_t run = 0; run < options_.runs; ++run) {
      check_not_stopped(options_);
      const bool coin = coins->uniform_below(2) == 1;
      const double score = score_of(release(coin, "run " + std::to_string(run)));
      guesses.push_back({score, (score > 0.0) == coin});
      if (options_.on_run) options_.on_run(run + 1, options_.runs);
    }
    evaluate(result, std::move(guesses), std::nullopt);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  struct Release {
    std::vector<double> values;
    double noise_stddev = 0.0;
  };

  /// The distribution of floating-point leaks is not known beforehand, so the bound for arbitrary
  /// releases comes first. A lattice is visible in about two of five runs.
  std::vector<AuditBound> planned() const {
    std::vector<AuditBound> bounds = planned_bounds(plan_, options_, 1, std::nullopt);
    std::stable_partition(bounds.begin(), bounds.end(),
                          [](const AuditBound& bound) { return !bound.assumes_gaussian; });
    if (options_.neighbours == AuditNeighbours::lattice)
      bounds.front().guesses.made = std::max<std::uint64_t>(1, 2 * options_.runs / 5);
    return bounds;
  }

  /// Makes the first step with the run's own code.
  Release release(bool is_there, const std::string& purpose) {
    const RandomKey key = key_.derive(purpose);
    const bool removed = !is_there && plan_.manifest->adjacency == Adjacency::add_or_remove_one;
    std::optional<std::span<const std::uint32_t>> some;
    if (removed) some = others_;
    Release seen;
    const auto witness = [&](const StepSeen& step) {
      seen.values.assign(step.gradient.values().begin(), step.gradient.values().end());
      seen.noise_stddev = step.gradient.noise_stddev();
    };
    Trainer trainer(plan_, is_there ? with_ : without_, key, *executor_,
                    {.rows = some, .witness = witness});
    bench_.memory = {};
    bench_.load(initial_parameters(plan_, key));
    const auto ledger = ledgers_.path() / "ledger.jsonl";
    if (!plan_.manifest->noise_off) trainer.open_ledger(ledger, nlohmann::json{{"audit", true}});
    if (!trainer.choose_noise(0, bench_, {}) || !trainer.pay_for(0))
      throw PrivacyError("the budget does not pay for a step");
    trainer.take_step(0, bench_);
    std::error_code ignored;
    std::filesystem::remove(ledger, ignored);
    return seen;
  }

  /// Makes both releases with the same keys, so that noise cancels in their difference.
  void rehearse() {
    for (std::uint64_t i = 0; i < kRehearsals; ++i) {
      check_not_stopped(options_);
      const std::string purpose = "rehearsal " + std::to_string(i);
      const Release a = release(true, purpose), b = release(false, purpose);
      shift_.resize(a.values.size());
      middle_.resize(a.values.size());
      for (std::size_t j = 0; j < shift_.size(); ++j) {
        shift_[j] += (a.values[j] - b.values[j]) / static_cast<double>(kRehearsals);
        middle_[j] += (a.values[j] + b.values[j]) / (2.0 * static_cast<double>(kRehearsals));
      }
    }
  }

  /// The score of a release: above 0 if row 0 seems to be present.
  double score_of(const Release& release) const {
    const double sigma =
        release.noise_stddev > 0.0 ? release.noise_stddev : plan_.clip_norm.front() * 1e-3;
    double score = 0.0;
    for (std::size_t j = 0; j < shift_.size(); ++j)
      score += (release.values[j] - middle_[j]) * shift_[j] / (sigma * sigma);
    if (options_.neighbours != AuditNeighbours::lattice) return score;
    for (const double value : release.values) {
      const double deviations = std::fabs(value) / sigma;
      if (value == 0.0 || deviations >= kNearZero) continue;
      const double steps = deviations * kNoiseSteps;
      const double rounding = 1.001 * std::exp2(-kFloatDigits - 1) * std::max(1.0, steps);
      if (std::fabs(steps - std::round(steps)) > rounding) return kCertain;
      score -= std::log(0.5 / rounding);  // with the row, a release is this close only by chance
    }
    return score;
  }

  const Plan& plan_;
  const AuditOptions& options_;
  RandomKey key_;
  std::unique_ptr<Executor> executor_;
  Workbench bench_;
  Dataset with_, without_;
  std::vector<std::uint32_t> others_;
  std::vector<double> shift_, middle_;
  ScratchFolder ledgers_{"audit"};
};

}  // namespace

AuditResult audit_crafted(const Plan& plan, const AuditOptions& options) {
  if (options.kind != AuditKind::repeated)
    throw ConfigError("neighbours: crafted ones need repeated runs");
  if (const std::string why = refusal(plan); !why.empty()) throw ConfigError("neighbours: " + why);
  return CraftedAudit(plan, options).result();
}

}  // namespace privgrad::core
