#include "privgrad/studies/audit.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "audit_bounds.hpp"
#include "audit_program.hpp"
#include "audit_scores.hpp"
#include "canary_choice.hpp"
#include "crafted_neighbours.hpp"
#include "drawn_rows.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/scratch_folder.hpp"
#include "privgrad/train/trainer.hpp"
#include "token_canaries.hpp"

namespace privgrad::core {
namespace {

/// Larger than any realistic clip norm, while its square is far from overflowing a double.
constexpr float kCanaryGradient = 1e18f;
/// A canary's slot is a float32 feature, which represents all integers only up to this number.
constexpr std::uint64_t kMostCanaries = 1u << 24;

Plan with_spares(const Plan& plan, const SpareLayout& layout) {
  Plan audited = plan;
  auto setting = std::make_shared<Setting>();
  setting->info = plan.setting->info;
  setting->statistics = plan.setting->statistics;
  setting->by_row = plan.setting->by_row;
  setting->dataset_size = plan.setting->dataset_size;
  setting->whole = plan.setting->whole;
  setting->frozen_layers = plan.setting->frozen_layers;
  setting->frozen_parameters = plan.setting->frozen_parameters;
  setting->network = plan.setting->network;
  setting->program = plan.setting->program;
  setting->groups = layout.outer();
  setting->parameters = audited.parameters = layout.outer_parameters();
  audited.setting = std::move(setting);
  return audited;
}

class Audit {
 public:
  Audit(const Plan& plan, const AuditOptions& options)
      : original_(plan),
        options_(options),
        layout_(plan.setting->groups, canaries_of(plan.setting->info.train_rows, options)),
        plan_(with_spares(plan, layout_)),
        key_((options.key ? *options.key : run_key(plan.manifest->seed)).derive("audit")),
        executor_(make_executor(options.threads)),
        data_(options.rows == AuditRows::drawn ? drawn_data(*plan.setting, key_.derive("rows"))
                                               : read_data(*plan.manifest, *plan.setting)),
        program_(make_program(plan, backend_, *executor_)) {
    for (std::size_t i = 0; i < layout_.spares(); ++i) {
      const std::size_t rows = data_.train.rows(), spares = layout_.spares();
      canary_rows_.push_back(static_cast<std::uint32_t>(
          chooses() ? i * (rows - 1) / (spares - 1) : (2 * i + 1) * rows / (2 * spares)));
    }
    bench_.program = audit_program(*program_, layout_);
    if (data_.test.rows() > 0) test_ = with_roles(data_.test, std::vector<Role>(data_.test.rows()));
  }

  AuditResult result() {
    const auto begin = std::chrono::steady_clock::now();
    const auto family = sampled_family(original_.event, original_.manifest->adjacency);
    AuditResult result{.bounds = planned_bounds(original_, options_, layout_.spares(), family),
                       .adjacency = original_.manifest->adjacency,
                       .epsilon_upper = original_.epsilon().value,
                       .delta = original_.manifest->target_delta,
                       .confidence = options_.confidence,
                       .canaries = layout_.spares(),
                       .runs = runs(),
                       .steps = original_.affordable_steps,
                       .seconds = 0.0};
    std::vector<AuditGuess> guesses;
    std::vector<RunSeen> seen;  // only if chooses(), which needs the steps of all runs
    for (std::uint64_t run = 0; run < runs(); ++run) {
      check_not_stopped(options_);
      RunSeen one = see_run(run);
      if (chooses()) {
        seen.push_back(std::move(one));
      } else {
        for (std::size_t i = 0; i < one.coins.size(); ++i)
          guesses.push_back({one.scores[i], (one.scores[i] > 0.0) == one.coins[i]});
      }
      if (options_.on_run) options_.on_run(run + 1, runs());
    }
    evaluate(result, chooses() ? guesses_of_the_best(seen) : std::move(guesses), family);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  static std::size_t canaries_of(std::uint64_t rows, const AuditOptions& options) {
    if (options.canaries == 0)
      return options.kind == AuditKind::repeated ? 1 : std::min<std::uint64_t>(rows, 1000);
    if (options.canaries > std::min(rows, kMostCanaries)) {
      throw ConfigError("canaries: is " + std::to_string(options.canaries) +
                        ", allowed are at most the " + std::to_string(rows) +
                        " training examples, which they replace");
    }
    return options.canaries;
  }

  std::uint64_t runs() const { return options_.kind == AuditKind::repeated ? options_.runs : 1; }
  bool chooses() const { return options_.kind == AuditKind::repeated && layout_.spares() > 1; }
  bool exchanged() const { return original_.manifest->adjacency == Adjacency::replace_one; }
  bool leaves_out() const { return original_.manifest->adjacency == Adjacency::add_or_remove_one; }

  std::vector<bool> throw_coins(const RandomKey& key) const {
    const auto random = make_random_source(key.derive("coins"))->stream(0);
    std::vector<bool> coins(layout_.spares());
    for (std::size_t i = 0; i < coins.size(); ++i) coins[i] = random->uniform_below(2) == 1;
    return coins;
  }

  /// The rows, with the canaries that the coins select.
  Dataset marked(const std::vector<bool>& coins) const {
    std::vector<Role> roles(data_.train.rows());
    for (std::size_t i = 0; i < coins.size(); ++i) {
      const float otherwise = exchanged() ? -kCanaryGradient : 0.0f;
      roles[canary_rows_[i]] = {static_cast<std::uint32_t>(i + 1),
                                coins[i] ? kCanaryGradient : otherwise};
    }
    return with_roles(data_.train, roles);
  }

  /// All rows except the canaries whose coins are false.
  std::vector<std::uint32_t> present(const std::vector<bool>& coins) const {
    std::vector<bool> is_there(data_.train.rows(), true);
    for (std::size_t i = 0; i < coins.size(); ++i) is_there[canary_rows_[i]] = coins[i];
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < is_there.size(); ++row)
      if (is_there[row]) rows.push_back(row);
    return rows;
  }

  RunSeen see_run(std::uint64_t run) {
    const RandomKey key = key_.derive("run " + std::to_string(run));
    const std::vector<bool> coins = throw_coins(key);
    const Dataset data = marked(coins);
    std::vector<std::uint32_t> rows;
    std::optional<std::span<const std::uint32_t>> some;
    if (leaves_out()) some = rows = present(coins);
    const auto random = plan_.public_order() != nullptr ? plan_.public_order()->random
                                                        : make_random_source(key.derive("sampler"));
    const PublicParts parts(plan_, canary_rows_, *random);
    AuditScores scores(plan_, layout_, parts, exchanged(), chooses());
    const std::vector<double> noise = plan_.gradient_noise_multiplier();
    const AdaptiveNoise* adaptive = nullptr;
    const auto witness = [&](const StepSeen& seen) {
      scores.add(seen.step, seen.gradient,
                 adaptive != nullptr ? adaptive->noise_multiplier() : noise[seen.step]);
    };
    Trainer trainer(plan_, data, key, *executor_, {.rows = some, .witness = witness});
    adaptive = trainer.adaptive_noise();
    train(trainer, key, ledgers_.path() / (std::to_string(run) + ".jsonl"));
    return {coins, {scores.values().begin(), scores.values().end()}, scores.moved()};
  }

  void train(Trainer& trainer, const RandomKey& key, const std::filesystem::path& ledger) {
    bench_.memory = {};
    std::vector<float> parameters(layout_.outer_parameters(), 0.0f);
    layout_.spread(initial_parameters(original_, key), parameters);
    bench_.load(std::move(parameters));
    if (!original_.manifest->noise_off)
      trainer.open_ledger(ledger, nlohmann::json{{"audit", true}});
    for (std::uint64_t step = 0; step < original_.steps(); ++step) {
      if (!trainer.choose_noise(step, bench_, test_) || !trainer.pay_for(step)) break;
      if (!trainer.take_step(step, bench_)) break;
    }
    std::error_code ignored;
    std::filesystem::remove(ledger, ignored);
  }

  const Plan& original_;
  const AuditOptions& options_;
  SpareLayout layout_;
  Plan plan_;
  RandomKey key_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  Dataset test_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;  // runs the plan's network
  Workbench bench_;                   // holds program_'s wrapper, audit_program()
  std::vector<std::uint32_t> canary_rows_;
  ScratchFolder ledgers_{"audit"};
};

}  // namespace

std::optional<std::string> refuses_audit(const Plan& plan) {
  if (plan.federated)
    return "federated: audits are of one owner's data; audit the manifest without this section";
  if (plan.manifest->augmentation) {
    return "augmentation: canaries have no copies to be altered; audit the manifest without this "
           "key";
  }
  if (plan.manifest->largest_class_weight) {
    return "model.class_weights: balanced follows from counts that an audit does not release; "
           "audit the manifest with a list of numbers";
  }
  if (start_components(plan).differences != nullptr) {
    return "aggregator." + plan.manifest->aggregator.name() +
           ": releases differences of gradients, in which canaries cancel; audit an aggregator "
           "that releases sums, such as gaussian, tree or matrix";
  }
  return std::nullopt;
}

AuditResult audit(const Plan& plan, const AuditOptions& options) {
  if (!(options.confidence > 0.0 && options.confidence < 1.0))
    throw ConfigError("confidence: is " + format_number(options.confidence) +
                      ", allowed is (0, 1)");
  if (options.runs == 0) throw ConfigError("runs: is 0, allowed is [1, inf)");
  if (options.kind == AuditKind::repeated && options.canaries > 1 && options.runs < 3)
    throw ConfigError("runs: is " + std::to_string(options.runs) +
                      ", allowed is [3, inf) where they choose between places of the canary");
  if (const auto why = refuses_audit(plan)) throw ConfigError(*why);
  if (options.rows != AuditRows::drawn)
    obey_policies_unprotected(*plan.manifest, "an audit trains on the rows without a charge");
  if (options.exposure) return audit_exposure(plan, options);
  if (options.neighbours != AuditNeighbours::canary) return audit_crafted(plan, options);
  return Audit(plan, options).result();
}

}  // namespace privgrad::core
