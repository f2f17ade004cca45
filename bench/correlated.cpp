// The cost of correlated noise: a step of a tree compared with a step with independent noise, the
// memory of a long tree, the accounting of a long run, and a late step of the reduced variant
// compared with an early one. See README.md.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "places.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/plan/correlated_plan.hpp"
#include "privgrad/trust/anchored_sums.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/mechanism.hpp"

namespace {

using namespace privgrad;
using namespace privgrad::bench;
using Json = nlohmann::ordered_json;

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// A program that accepts empty batches, so that sums can have any length.
class NoProgram final : public Program {
 public:
  explicit NoProgram(std::size_t parameters) : parameters_(parameters) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float>) const override {}
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  std::size_t parameters_;
};

/// The most examples of a batch.
constexpr std::uint64_t kBatch = 1024;

class NoClipping final : public Clipping {
 public:
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double>, double, std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(), 1.0);
  }
};

class Bench {
 public:
  explicit Bench(const Catalog& catalog) : catalog_(catalog) {}

  /// Alternates releases with a tree's noise and with independent noise, of sums of zeros.
  Json steps(std::size_t size, std::uint64_t steps, int threads) const {
    used_clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const auto executor = core::make_executor(threads);
    const auto key = core::RandomKey::from_seed(1);
    const auto gaussian = started("gaussian", {}, steps);
    Json result{{"parameters", size}, {"steps", steps}, {"threads", threads}};
    const std::vector<std::pair<std::string, Value::Object>> trees{
        {"tree", {{"momentum", Value(0.99), {}}}},
        {"tree_of_prefix_sums", {}},
        {"tree_with_variance_reduction",
         {{"momentum", Value(0.99), {}}, {"variance_reduction", Value(true), {}}}}};
    for (const auto& [name, params] : trees) {
      const auto tree = started("tree", params, steps);
      const auto recipes = *core::CorrelatedRecipes::of(*tree, steps);
      std::vector<double> own;
      for (std::uint64_t t = 0; t < steps; ++t) own.push_back(recipes.own_multiplier(t));
      Receipts receipts(catalog_, own);
      core::CorrelatedMechanism mechanism(recipes, key.derive("tree"), *executor, kBatch);
      core::Mechanism independent(*gaussian, key.derive("independent"), *executor);
      Receipts plain(catalog_, std::vector<double>(steps, 1.0));
      std::vector<double> seconds, seconds_plain;
      std::size_t bytes = 0;
      for (std::uint64_t t = 0; t < steps; ++t) {
        core::BoundedOnGrid sum = zeros(size, *executor);
        seconds.push_back(
            seconds_of([&] { mechanism.release(std::move(sum), receipts.take(t), 1.0); }));
        bytes = std::max(bytes, mechanism.memory_bytes());
        core::BoundedOnGrid other = zeros(size, *executor);
        seconds_plain.push_back(
            seconds_of([&] { independent.release(std::move(other), plain.take(t), 1.0); }));
      }
      result[name + "_ms"] = 1e3 * median(seconds);
      result[name + "_independent_ms"] = 1e3 * median(seconds_plain);
      result[name + "_over_independent"] = median(seconds) / median(seconds_plain);
      result[name + "_vectors_held"] = static_cast<double>(bytes) / 4.0 / static_cast<double>(size);
    }
    return result;
  }

  /// Times the releases of tree_reduced and the resulting gradients, of sums of zeros, in epochs of
  /// 100 steps: medians over 200 steps around an early step and a late one.
  Json reduced(std::size_t size, std::uint64_t early, std::uint64_t late) const {
    const std::uint64_t steps = late + 100;
    used_clock = CLOCK_PROCESS_CPUTIME_ID;
    const auto executor = core::make_executor(1);
    const auto aggregator = started(
        "tree_reduced", {{"momentum", Value(0.99), {}}, {"smoothness", Value(1.0), {}}}, steps);
    auto& differences = dynamic_cast<UsesGradientDifferences&>(*aggregator);
    const auto parts = core::parts_of(*aggregator, differences, steps);
    core::CorrelatedMechanism mechanism(parts, core::RandomKey::from_seed(1), *executor, kBatch);
    std::vector<Event> releases;
    for (std::uint64_t t = 0; t < steps; ++t) releases.push_back(core::release_of(parts, t));
    Receipts receipts(catalog_, releases);
    const NoProgram program(size);
    const NoClipping clipping;
    const std::vector<ParameterGroup> groups{{.name = "all", .offset = 0, .size = size}};
    const Dataset data(ExampleShape{{1}, 0}, {0.0f}, {0.0f});
    std::vector<double> seconds;
    for (std::uint64_t t = 0; t < steps; ++t) {
      const bool has_last = t >= parts[2].first_step;
      auto sums = core::anchored_exact_sums(
          {.anchor = program, .current = nullptr, .last_anchor = has_last ? &program : nullptr},
          data, {}, {.rule = clipping, .groups = groups, .clip_norm = 1.0},
          {.since_anchor = parts[1].bound(t),
           .between_anchors = has_last ? parts[2].bound(t - parts[2].first_step) : 0.0},
          *executor);
      seconds.push_back(seconds_of([&] {
        const auto released = mechanism.release(std::move(sums), receipts.take(t), 1.0);
        core::combined(differences, t, released, 1.0);
      }));
    }
    const auto around = [&](std::uint64_t t) {
      const auto begin = seconds.begin() + static_cast<std::ptrdiff_t>(t - 100);
      return median({begin, begin + 200});
    };
    return {{"parameters", size},
            {"epoch_steps", differences.epoch_steps()},
            {"early_step", early},
            {"late_step", late},
            {"early_ms", 1e3 * around(early)},
            {"late_ms", 1e3 * around(late)},
            {"late_over_early", around(late) / around(early)}};
  }

  /// Times recipes, order and cost of a long run, in one pass and in ten freshly permuted epochs.
  Json accounting(std::uint64_t steps, std::uint64_t rows, Value::Object options) const {
    std::optional<core::CorrelatedRecipes> recipes;
    std::optional<core::Participation> order;
    core::CorrelatedCost cost;
    const auto tree = started("tree", std::move(options), steps);
    const auto shuffle =
        catalog_.create<Sampler>("shuffle", Value::Object{{"batch_size", Value(1), {}}});
    shuffle->start({.dataset_size = rows, .steps = steps, .adjacency = Adjacency::replace_one});
    const auto random = core::make_random_source(core::RandomKey::from_seed(1));
    const double of_recipes =
        seconds_of([&] { recipes = core::CorrelatedRecipes::of(*tree, steps); });
    const double of_order = seconds_of([&] {
      order = core::Participation::drawn(dynamic_cast<PublicOrder&>(*shuffle), steps, *random);
    });
    const double of_cost = seconds_of([&] { cost = core::cost_of(*recipes, *order); });
    return {{"steps", steps},
            {"examples", rows},
            {"seconds", of_recipes + of_order + of_cost},
            {"seconds_of_recipes", of_recipes},
            {"seconds_of_order", of_order},
            {"seconds_of_cost", of_cost},
            {"peak_megabytes", peak_megabytes()},
            {"squared_sensitivity", cost.worst_after.back()},
            // In vectors of floats: the stored noise, one more during a step, and two for the sum
            // s, which is double.
            {"vectors_held_by_mechanism", recipes->most_kept() + 1 + 2}};
  }

 private:
  /// Receipts by a built-in accountant, charged to a ledger of their own.
  class Receipts {
   public:
    Receipts(const Catalog& catalog, const std::vector<double>& multipliers)
        : Receipts(catalog, gaussians(multipliers)) {}
    Receipts(const Catalog& catalog, const std::vector<Event>& releases)
        : folder_(new_folder()), accountant_(catalog.create<Accountant>("zcdp", Value::Object{})) {
      std::filesystem::create_directories(folder_);
      accountant_->start(Adjacency::zero_out);
      core::Ledger ledger(folder_ / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                          *accountant_, "zcdp", nlohmann::json::object());
      std::vector<core::Charge> charges;
      charges.reserve(releases.size());
      for (std::uint64_t step = 0; step < releases.size(); ++step)
        charges.push_back({step, releases[step], releases[step]});
      receipts_ = ledger.charge(charges);
    }
    ~Receipts() { std::filesystem::remove_all(folder_); }
    Receipts(const Receipts&) = delete;
    Receipts& operator=(const Receipts&) = delete;
    core::Receipt take(std::uint64_t step) { return std::move(receipts_.at(step)); }

   private:
    static std::filesystem::path new_folder() {
      static int count = 0;
      return std::filesystem::temp_directory_path() /
             ("privgrad-bench-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    }
    static std::vector<Event> gaussians(const std::vector<double>& multipliers) {
      std::vector<Event> events;
      events.reserve(multipliers.size());
      for (const double multiplier : multipliers) events.push_back(Event::gaussian(multiplier));
      return events;
    }
    std::filesystem::path folder_;
    ComponentPtr<Accountant> accountant_;
    std::vector<core::Receipt> receipts_;
  };

  ComponentPtr<Aggregator> started(const char* name, Value::Object options,
                                   std::uint64_t steps) const {
    auto made = catalog_.create<Aggregator>(name, std::move(options));
    const std::vector<double> ones(steps, 1.0), rates(steps, 1e-3);
    made->start({.steps = steps,
                 .noise_multipliers = ones,
                 .clip_norms = ones,
                 .learning_rates = rates,
                 .facts = {.steps = steps,
                           .dataset_size = 10'000,
                           .parameters = 1'000'000,
                           .batch_size = 100.0,
                           .target_epsilon = 1.0,
                           .target_delta = 1e-5}});
    return made;
  }

  static core::BoundedOnGrid zeros(std::size_t size, Executor& executor) {
    const NoProgram program(size);
    const NoClipping clipping;
    const std::vector<ParameterGroup> groups{{.name = "all", .offset = 0, .size = size}};
    const Dataset data(ExampleShape{{1}, 0}, {0.0f}, {0.0f});
    return core::exact_sum(
        program, data, {},
        {.rule = clipping, .groups = groups, .clip_norm = 1.0, .count_share = 0.0}, executor);
  }

  const Catalog& catalog_;
};

}  // namespace

int main() try {
  const std::filesystem::path plugins = privgrad::places::plugins();
  host::PluginHost host({.directories = {plugins}, .pins = {}});
  host.load(plugins / "accountants" / "zcdp.privgrad.so");
  host.load(plugins / "aggregators" / "gaussian.privgrad.so");
  host.load(plugins / "aggregators" / "tree.privgrad.so");
  host.load(plugins / "aggregators" / "tree_reduced.privgrad.so");
  host.load(plugins / "samplers" / "shuffle.privgrad.so");
  const Bench bench(host.catalog());
  constexpr std::uint64_t kMillion = 1'000'000;
  const Value::Object momentum{{"momentum", Value(0.999), {}}};
  Json result;
  result["build"] = PRIVGRAD_BENCH_BUILD;
  result["accounting"] = {
      bench.accounting(kMillion, kMillion, {}), bench.accounting(kMillion, kMillion / 10, momentum),
      bench.accounting(kMillion, kMillion / 10,
                       {{"variance_reduction", Value(true), {}}, {"momentum", Value(0.999), {}}})};
  result["steps"] = {bench.steps(1'000'000, 128, 1), bench.steps(1'000'000, 128, 2)};
  result["reduced"] = bench.reduced(2'000, 1'000, 100'000);
  std::cout << result.dump(2) << '\n';
  return EXIT_SUCCESS;
} catch (const std::exception& problem) {
  std::cerr << "correlated: " << problem.what() << '\n';
  return EXIT_FAILURE;
}
