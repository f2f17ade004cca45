#include "privgrad/studies/audit.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "audit_program.hpp"
#include "audit_scores.hpp"
#include "privgrad/error.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/federated_plan.hpp"
#include "privgrad/pipeline/plan_json.hpp"
#include "privgrad/pipeline/trainer.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

/// Longer than any clip norm that anybody uses, and its square is far from the end of doubles.
constexpr float kCanaryGradient = 1e18f;
/// Slots are float32 features; above this not every whole number is one.
constexpr std::uint64_t kMostCanaries = 1u << 24;

/// Holds the ledgers, and is gone with them. In memory where there is a file system for that: a
/// ledger waits for its disk, and these need not outlive the process.
class LedgerDirectory {
 public:
  LedgerDirectory() {
    for (const fs::path& place : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
      std::string name = (place / "privgrad-audit-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) continue;
      path_ = name;
      return;
    }
    throw IoError("cannot make a temporary directory in " + fs::temp_directory_path().string());
  }
  LedgerDirectory(const LedgerDirectory&) = delete;
  LedgerDirectory& operator=(const LedgerDirectory&) = delete;
  ~LedgerDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path file(std::uint64_t run) const { return path_ / (std::to_string(run) + ".jsonl"); }

 private:
  fs::path path_;
};

/// Whether all that is charged for is Gaussian, so that all releases together are, whatever the size
/// of the noise.
bool is_gaussian(const Event& event) {
  if (std::holds_alternative<GaussianEvent>(event.kind())) return true;
  if (const auto* all = std::get_if<ComposedEvent>(&event.kind()))
    return std::all_of(all->of.begin(), all->of.end(), is_gaussian);
  if (const auto* many = std::get_if<SelfComposedEvent>(&event.kind()))
    return is_gaussian(*many->of);
  return false;
}

/// The plan with spare parameters.
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
        layout_(plan.setting->groups, canaries_of(plan, options)),
        plan_(with_spares(plan, layout_)),
        key_(run_key(*plan.manifest).derive("audit")),
        executor_(make_executor(options.threads)),
        data_(read_data(*plan.manifest, *plan.setting)),
        program_(make_program(plan, backend_, *executor_)) {
    for (std::size_t i = 0; i < layout_.spares(); ++i) {
      canary_rows_.push_back(
          static_cast<std::uint32_t>((2 * i + 1) * data_.train.rows() / (2 * layout_.spares())));
    }
    bench_.program = audit_program(*program_, layout_);
    if (data_.test.rows() > 0) test_ = with_roles(data_.test, std::vector<Role>(data_.test.rows()));
  }

  AuditResult result() {
    const auto begin = std::chrono::steady_clock::now();
    AuditResult result{.bounds = planned_bounds(),
                       .epsilon_upper = original_.epsilon().value,
                       .delta = original_.manifest->target_delta,
                       .confidence = options_.confidence,
                       .canaries = layout_.spares(),
                       .runs = runs(),
                       .steps = original_.affordable_steps,
                       .seconds = 0.0};
    std::vector<Guess> guesses;
    for (std::uint64_t run = 0; run < runs(); ++run) {
      if (options_.stop != nullptr && options_.stop->load())
        throw Error("interrupted: an audit that is not whole says nothing");
      for (const Guess& guess : guesses_of_run(run)) guesses.push_back(guess);
      if (options_.on_run) options_.on_run(run + 1, runs());
    }
    std::stable_sort(guesses.begin(), guesses.end(), [](const Guess& a, const Guess& b) {
      return std::fabs(a.score) > std::fabs(b.score);
    });
    for (AuditBound& bound : result.bounds) evaluate(bound, guesses);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  struct Guess {
    double score;
    bool is_right;
  };

  static std::size_t canaries_of(const Plan& plan, const AuditOptions& options) {
    if (options.kind == AuditKind::repeated) return 1;
    const std::uint64_t rows = plan.setting->info.train_rows;
    if (options.canaries == 0) return std::min<std::uint64_t>(rows, 1000);
    if (options.canaries > std::min(rows, kMostCanaries)) {
      throw ConfigError("canaries: is " + std::to_string(options.canaries) +
                        ", allowed are at most the " + std::to_string(rows) +
                        " training examples, which they stand in for");
    }
    return options.canaries;
  }

  std::uint64_t runs() const { return options_.kind == AuditKind::repeated ? options_.runs : 1; }
  double level() const { return 1.0 - options_.confidence; }
  bool exchanged() const { return original_.manifest->adjacency == Adjacency::replace_one; }
  bool leaves_out() const { return original_.manifest->adjacency == Adjacency::add_or_remove_one; }

  /// The methods, and how many guesses each is to make: fixed before anything is thrown or drawn,
  /// from what the plan says.
  std::vector<AuditBound> planned_bounds() const {
    const double delta = original_.manifest->target_delta, a = level();
    const double epsilon = original_.epsilon().value;
    const double mu = std::isfinite(epsilon) ? gaussian_mu(epsilon, delta) : 30.0;
    const std::uint64_t coins =
        options_.kind == AuditKind::repeated ? options_.runs : layout_.spares();
    std::vector<AuditBound> bounds;
    const auto add = [&](const char* method, bool assumes_gaussian, const auto& bound) {
      Guesses guesses = best_guesses(coins, mu, bound);
      guesses.correct = 0;
      bounds.push_back({method, assumes_gaussian, guesses, 0.0, 0.0});
    };
    if (options_.kind == AuditKind::repeated) {
      bounds.push_back({"repeated_gaussian", true, {coins, coins, 0}, 0.0, 0.0});
      add("repeated", false, [&](const Guesses& g) { return repeated_epsilon(g, delta, a); });
    } else {
      add("one_run_gaussian", true, [&](const Guesses& g) { return f_dp_mu(g, a); });
      add("one_run_f_dp", false, [&](const Guesses& g) { return f_dp_epsilon(g, delta, a); });
      add("one_run", false, [&](const Guesses& g) { return one_run_epsilon(g, delta, a); });
    }
    if (!is_gaussian(original_.event) || original_.manifest->noise_off)
      std::rotate(bounds.begin(), bounds.begin() + 1, bounds.end());
    return bounds;
  }

  /// \param guesses  the clearest first.
  void evaluate(AuditBound& bound, const std::vector<Guess>& guesses) const {
    const double delta = original_.manifest->target_delta;
    const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(bound.guesses.made);
    bound.guesses.correct = static_cast<std::uint64_t>(
        std::count_if(guesses.begin(), end, [](const Guess& guess) { return guess.is_right; }));
    if (bound.assumes_gaussian) {
      bound.mu = bound.method == "repeated_gaussian" ? repeated_mu(bound.guesses, level())
                                                     : f_dp_mu(bound.guesses, level());
      bound.epsilon = gaussian_epsilon(bound.mu, delta);
    } else {
      bound.epsilon = bound.method == "repeated" ? repeated_epsilon(bound.guesses, delta, level())
                      : bound.method == "one_run_f_dp"
                          ? f_dp_epsilon(bound.guesses, delta, level())
                          : one_run_epsilon(bound.guesses, delta, level());
    }
  }

  std::vector<bool> throw_coins(const RandomKey& key) const {
    const auto random = make_random_source(key.derive("coins"))->stream(0);
    std::vector<bool> coins(layout_.spares());
    for (std::size_t i = 0; i < coins.size(); ++i) coins[i] = random->uniform_below(2) == 1;
    return coins;
  }

  /// The rows with canaries as the coins say.
  Dataset marked(const std::vector<bool>& coins) const {
    std::vector<Role> roles(data_.train.rows());
    for (std::size_t i = 0; i < coins.size(); ++i) {
      const float otherwise = exchanged() ? -kCanaryGradient : 0.0f;
      roles[canary_rows_[i]] = {static_cast<std::uint32_t>(i + 1),
                                coins[i] ? kCanaryGradient : otherwise};
    }
    return with_roles(data_.train, roles);
  }

  /// The rows that are there.
  std::vector<std::uint32_t> present(const std::vector<bool>& coins) const {
    std::vector<bool> is_there(data_.train.rows(), true);
    for (std::size_t i = 0; i < coins.size(); ++i) is_there[canary_rows_[i]] = coins[i];
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < is_there.size(); ++row)
      if (is_there[row]) rows.push_back(row);
    return rows;
  }

  std::vector<Guess> guesses_of_run(std::uint64_t run) {
    const RandomKey key = key_.derive("run " + std::to_string(run));
    const std::vector<bool> coins = throw_coins(key);
    const Dataset data = marked(coins);
    std::vector<std::uint32_t> rows;
    std::optional<std::span<const std::uint32_t>> some;
    if (leaves_out()) some = rows = present(coins);
    Trainer trainer(plan_, data, some, key, *executor_);
    const auto random =
        plan_.correlated ? plan_.correlated->random : make_random_source(key.derive("sampler"));
    const PublicParts parts(plan_, canary_rows_, *random);
    AuditScores scores(plan_, layout_, parts, exchanged());
    const std::vector<double> noise = plan_.gradient_noise_multiplier();
    trainer.show_steps_to([&](const StepSeen& seen) {
      const AdaptiveNoise* adaptive = trainer.adaptive_noise();
      scores.add(seen.step, seen.gradient,
                 adaptive != nullptr ? adaptive->noise_multiplier() : noise[seen.step]);
    });
    train(trainer, key, ledgers_.file(run));
    std::vector<Guess> guesses;
    for (std::size_t i = 0; i < coins.size(); ++i) {
      const double score = scores.values()[i];
      guesses.push_back({score, (score > 0.0) == coins[i]});
    }
    return guesses;
  }

  /// All steps that the budget pays for.
  void train(Trainer& trainer, const RandomKey& key, const fs::path& ledger) {
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
    fs::remove(ledger, ignored);
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
  std::unique_ptr<Program> program_;  // of the plan's network
  Workbench bench_;                   // with what wraps it
  std::vector<std::uint32_t> canary_rows_;
  LedgerDirectory ledgers_;
};

}  // namespace

nlohmann::json to_json(const AuditResult& result) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json bounds = nlohmann::json::array();
  for (const AuditBound& bound : result.bounds) {
    bounds.push_back({{"method", bound.method},
                      {"assumes", bound.assumes_gaussian ? nlohmann::json("gaussian_releases")
                                                         : nlohmann::json(nullptr)},
                      {"epsilon_lower", number(bound.epsilon)},
                      {"mu_lower", bound.assumes_gaussian ? number(bound.mu) : nullptr},
                      {"guesses", bound.guesses.made},
                      {"correct", bound.guesses.correct}});
  }
  return {{"epsilon_lower", number(result.bound().epsilon)},
          {"epsilon_upper", number(result.epsilon_upper)},
          {"delta", result.delta},
          {"confidence", result.confidence},
          {"method", result.bound().method},
          {"canaries", result.canaries},
          {"runs", result.runs},
          {"steps", result.steps},
          {"guesses", result.bound().guesses.made},
          {"correct", result.bound().guesses.correct},
          {"contradicts", result.contradicts()},
          {"bounds", std::move(bounds)},
          {"seconds", result.seconds}};
}

std::optional<std::string> refuses_audit(const Plan& plan) {
  if (plan.federated)
    return "federated: audits are of one owner's data; audit the manifest without this section";
  if (plan.manifest->augmentation) {
    return "augmentation: canaries have no copies to be altered; audit the manifest without this "
           "key";
  }
  if (start_components(plan).differences != nullptr) {
    return "aggregator." + plan.manifest->aggregator.name() +
           ": releases differences of gradients, in which canaries cancel; audits are of gaussian, "
           "discrete_gaussian and tree";
  }
  return std::nullopt;
}

AuditResult audit(const Plan& plan, const AuditOptions& options) {
  if (!(options.confidence > 0.0 && options.confidence < 1.0))
    throw ConfigError("confidence: is " + format_number(options.confidence) +
                      ", allowed is (0, 1)");
  if (options.runs == 0) throw ConfigError("runs: is 0, allowed is [1, inf)");
  if (const auto why = refuses_audit(plan)) throw ConfigError(*why);
  return Audit(plan, options).result();
}

}  // namespace privgrad::core
