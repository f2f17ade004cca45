// Which engines can make the steps of which plans: every trait of a plan with every engine.
#include "privgrad/plan/engines.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fake_program.hpp"
#include "npy_file.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/model.hpp"
#include "privgrad/trust/data_account.hpp"
#include "tensor_file.hpp"
#include "test_components.hpp"
#include "thread_cluster.hpp"
#include "train.hpp"

using namespace privgrad;
using core::Engine;
using core::Trait;
namespace fs = std::filesystem;

namespace {

/// A central run, without any trait; each case changes a line or two.
constexpr const char* kPlain = R"(privgrad: 1
name: engines
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, batch_size: 12}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 4, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: rdp}
steps: 6
)";

/// A plan with one trait, and the other traits that it implies.
struct Case {
  Trait trait;
  Overrides set;
  std::vector<Trait> too = {};
};

const Overrides kWholeBatches{"sampler=full_batch", "privacy.accountant=zcdp"};
const Overrides kInOrder{"sampler={kind: sequential, batch_size: 12}", "privacy.accountant=gdp"};
const std::string kClients = "federated={clients: 3, rounds: 2, local_iterations: 2}";
const std::string kAdaptiveClients =
    "federated={clients: 3, rounds: 2, local_iterations: {kind: ali_dpfl}, estimates: ";
const std::string kServer =
    "federated={clients: 3, rounds: 2, local_iterations: 2, aggregation: dp_fed_avg, "
    "client_clip_norm: 1";
const std::string kNetwork = "model={kind: mlp, hidden: [4], activation: tanh";

const std::vector<Case>& cases() {
  using enum Trait;
  static const std::vector<Case> all{
      {correlated, with(kInOrder, {"aggregator={kind: tree, momentum: 0.9}"})},
      {correlated, with(kInOrder, {"aggregator={kind: matrix, bands: 3}"})},
      {gradient_differences,
       with(kInOrder, {"aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}",
                       "optimizer=normalized_sgd", "schedules.learning_rate=0.02"}),
       {correlated}},
      {adaptive_clip_norm, {"clipping={kind: adaptive, count_noise: 5}"}},
      {coordinate_scaling, {"clipping=adaclip"}},
      {adaptive_noise,
       with(kWholeBatches, {"privacy.target_epsilon=2",
                            "schedules.noise_multiplier={kind: validation, initial: 20, every: 2, "
                            "threshold: 0.01, factor: 0.8}"})},
      {epoch_coins, {"sampler={kind: allocation, steps_per_epoch: 3}", "privacy.accountant=pld"}},
      {epoch_coins,
       {kServer + ", participation: {kind: allocation, steps_per_epoch: 2}}",
        "privacy.adjacency=add_or_remove_one", "privacy.accountant=pld"},
       {clients, client_unit}},
      {adaptive_iterations, {kAdaptiveClients + "from_models}"}, {clients}},
      {released_statistics,
       {"data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], "
        "noise_multiplier: 20}]"}},
      {unreleased_statistics, {"data.transforms=[standardize]"}},
      {no_noise, {"privacy.noise=off", "schedules.noise_multiplier=null"}},
      {floating_sums, {"aggregator.arithmetic=float"}},
      {accuracy_report, {"report={train_accuracy: {noise_multiplier: 20}}"}},
      {random_iterate, {"output=random_iterate"}},
      {moving_average, {"ema_decay=0.5"}},
      {gradient_norms, {"gradient_norm=true"}},
      {augmentation,
       {"data={kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2}",
        "augmentation={copies: 2, kinds: [flip]}"}},
      {adapters,
       {kNetwork + ", weights: {file: w.safetensors}, lora: {rank: 1, targets: [layers.0]}}"},
       {initial_weights}},
      {initial_weights, {kNetwork + ", weights: {file: w.safetensors}}"}},
      {account, with(kWholeBatches, {"privacy.account=account.jsonl", "seed=null", "mode=release",
                                     "data.size=60"})},
      {streamed_rows,
       {"data={kind: csv, train: t.csv, target: label, classes: 2, columns: [{name: '*', type: "
        "number, fill: 0}], streaming: true}"}},
      {clients, {kClients}},
      {client_unit, {kServer + "}", "privacy.adjacency=add_or_remove_one"}, {clients}},
      {private_estimates,
       {kAdaptiveClients + "private, estimate_noise: 20}"},
       {clients, adaptive_iterations}},
      {unaccounted_estimates, {kAdaptiveClients + "unaccounted}"}, {clients, adaptive_iterations}},
  };
  return all;
}

/// Returns the case's plan, with the files that any case needs.
std::unique_ptr<Experiment> experiment_of(const Overrides& set) {
  static const TempDir cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);  // the place of streamed rows
  auto experiment = std::make_unique<Experiment>(kPlain, set);
  std::vector<float> pixels(60 * 16);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(i * 37 % 101) / 101.0f;
  std::vector<std::int64_t> classes(60);
  std::string table = "a,b,c,d,label\n";
  for (std::size_t row = 0; row < 60; ++row) {
    classes[row] = static_cast<std::int64_t>(row % 2);
    for (std::size_t k = 0; k < 4; ++k) table += std::to_string(pixels[16 * row + k]) + ",";
    table += std::to_string(row % 2) + "\n";
  }
  write_file(experiment->dir() / "x.npy", array_file("<f4", "60, 4, 4", pixels));
  write_file(experiment->dir() / "y.npy", array_file("<i8", "60,", classes));
  write_file(experiment->dir() / "t.csv", table);
  write_file(experiment->dir() / "w.safetensors",
             safetensors_of({{"layers.0.weight", {4, 4}, std::vector<float>(16, 0.1f)},
                             {"layers.0.bias", {4}, std::vector<float>(4, 0.0f)},
                             {"layers.2.weight", {2, 4}, std::vector<float>(8, 0.2f)},
                             {"layers.2.bias", {2}, std::vector<float>(2, 0.0f)}}));
  core::DataAccount::open(experiment->dir() / "account.jsonl", {.name = "rows",
                                                                .adjacency = Adjacency::zero_out,
                                                                .target_epsilon = 100,
                                                                .target_delta = 1e-5,
                                                                .accountant = "kind: zcdp\n"});
  return experiment;
}

std::set<Trait> set_of_traits(const core::Plan& plan) {
  std::set<Trait> found;
  for (const core::PlannedTrait& one : core::traits_of(plan)) found.insert(one.trait);
  return found;
}

bool is_of_clients(Engine engine) {
  return engine == Engine::federated || engine == Engine::shared_rounds ||
         engine == Engine::remote_clients;
}

/// The model of a run on this many processes (in threads); 0: no cluster, only this process.
/// \returns the parameters as exact text, or the reason for a refusal.
std::string model_on(std::size_t processes, const Overrides& set) {
  const auto experiment = experiment_of(set);
  const core::Plan& plan = experiment->plan();
  const auto options = [&](Cluster* cluster) {
    return core::RunOptions{
        .directory = experiment->run_dir(),
        .lock = "",
        .state = experiment->dir() / "state",  // like runs from the command line
        .on_progress = {},
        .cluster = cluster};
  };
  const core::Manifest manifest =
      core::load_manifest(experiment->dir() / "manifest.yaml", set, house());
  std::string refusal;
  if (processes == 0) {
    core::run(plan, options(nullptr));
  } else {
    ThreadCluster::run(processes, [&](Cluster& cluster) {
      try {
        if (cluster.rank() == 0) {
          core::run(plan, options(&cluster));
        } else {
          core::work_for_others(manifest, options(&cluster));
        }
      } catch (const ConfigError& problem) {
        if (cluster.rank() == 0) refusal = problem.what();
      }
    });
  }
  if (!refusal.empty()) return refusal;
  std::ostringstream text;
  text << std::hexfloat;
  for (const float parameter : experiment->parameters()) text << parameter << ' ';
  return text.str();
}

std::string name_of(Trait trait) { return std::string(core::to_text(trait)); }

}  // namespace

TEST_CASE("engines: a plan has the traits of what its manifest asks for", "[engines]") {
  CHECK(core::traits_of(experiment_of({})->plan()).empty());
  std::set<Trait> tried;
  for (const Case& one : cases()) {
    CAPTURE(name_of(one.trait));
    std::set<Trait> expected(one.too.begin(), one.too.end());
    expected.insert(one.trait);
    CHECK(set_of_traits(experiment_of(one.set)->plan()) == expected);
    tried.insert(one.trait);
  }
  CHECK(tried.size() == core::all_traits().size());
}

TEST_CASE("engines: each refuses, by name, every trait that it does not declare", "[engines]") {
  for (const Case& one : cases()) {
    const auto experiment = experiment_of(one.set);
    const core::Plan& plan = experiment->plan();
    const std::vector<core::PlannedTrait> traits = core::traits_of(plan);
    for (const Engine engine : core::all_engines()) {
      CAPTURE(name_of(one.trait), core::to_text(engine));
      const std::string why = core::why_not(engine, plan);
      if (is_of_clients(engine) && !plan.federated) {
        CHECK(why == "the manifest has no section federated");
        continue;
      }
      const auto refused = std::find_if(traits.begin(), traits.end(), [&](auto& has) {
        return !core::supports(engine, has.trait);
      });
      if (refused == traits.end()) {
        CHECK(why.empty());
      } else {
        CHECK_THAT(why, ContainsSubstring("(trait " + name_of(refused->trait)));
      }
    }
  }
}

TEST_CASE("engines: processes make the bits of one process of every plan that they support",
          "[engines][cluster]") {
  for (const Case& one : cases()) {
    const auto experiment = experiment_of(one.set);
    const Engine engine = experiment->plan().federated ? Engine::shared_rounds : Engine::processes;
    CAPTURE(name_of(one.trait), core::to_text(engine));
    const std::string why = core::why_not(engine, experiment->plan());
    if (one.trait == Trait::account) {  // no second run can repeat its noise
      CHECK(why.empty());
      CHECK_FALSE(model_on(2, one.set).empty());
    } else if (why.empty()) {
      CHECK(model_on(2, one.set) == model_on(0, one.set));
    } else {
      CHECK_THAT(model_on(1, one.set), ContainsSubstring(why));
    }
  }
}

TEST_CASE("engines: a federated or streamed plan is refused where its engine lacks a trait",
          "[engines][plan]") {
  for (const Case& one : cases()) {
    if (core::supports(Engine::federated, one.trait) || one.trait == Trait::clients) continue;
    CAPTURE(name_of(one.trait));
    CHECK_THROWS_AS(experiment_of(with({kClients}, one.set))->plan(), ConfigError);
  }
}

namespace {

/// Every release contains a quarter of the last one's sum and noise.
class Carries final : public Aggregator {
 public:
  explicit Carries(const Params&) {}
  void start(const AggregationPlan& plan) override { multiplier_ = plan.noise_multipliers.front(); }
  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe{.keep = step == 0 ? 0.0 : 0.25,
                         .noise = {{.node = step, .multiplier = multiplier_}}};
    if (step > 0) recipe.earlier = {{.step = step - 1, .share = 1.0}};
    return recipe;
  }

 private:
  double multiplier_ = 0.0;
};

Factory declaring(std::vector<std::string> traits) {
  Registrar registrar;
  registrar.add<Aggregator, Carries>({.name = "carries",
                                      .summary = "Of this test.",
                                      .reference = "none",
                                      .params = {},
                                      .traits = std::move(traits)});
  return registrar.factories().front();
}

std::string outcome_of(std::vector<std::string> traits) {
  const Catalog made = house_with({declaring(std::move(traits))});
  try {
    Experiment(kPlain, with(kInOrder, {"aggregator=carries"}), made).plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "planned";
}

/// Returns the table of engines and traits, as in docs/engines.md.
std::string engines_table() {
  std::string head = "| trait | meaning |", rule = "|---|---|", rows;
  for (const core::Engine engine : core::all_engines()) {
    head += " " + std::string(core::to_text(engine)) + " |";
    rule += ":-:|";
  }
  for (const core::Trait trait : core::all_traits()) {
    rows += "| `" + std::string(core::to_text(trait)) + "` | " +
            std::string(core::meaning_of(trait)) + " |";
    for (const core::Engine engine : core::all_engines())
      rows += core::supports(engine, trait) ? " yes |" : " |";
    rows += "\n";
  }
  return head + "\n" + rule + "\n" + rows;
}

}  // namespace

TEST_CASE("engines: what a component does and does not declare is refused, as is what nobody knows",
          "[engines][plan]") {
  CHECK(outcome_of({"correlated"}) == "planned");
  CHECK_THAT(outcome_of({}),
             ContainsSubstring("has the trait correlated (releases depend on sums or noise of "
                               "earlier steps), which it does not declare"));
  CHECK_THAT(outcome_of({"correlated", "own_enclave"}),
             ContainsSubstring("declares the trait 'own_enclave', which no engine"));
  CHECK_THAT(outcome_of({"corelated"}), ContainsSubstring("did you mean 'correlated'?"));
}

TEST_CASE("engines: the page shows the table of the declarations", "[engines][docs]") {
  const std::string page = read_file(kSource / "docs/engines.md");
  if (const char* out = std::getenv("PRIVGRAD_ENGINES_OUT")) write_file(out, engines_table());
  CHECK_THAT(page, ContainsSubstring(engines_table()));
}
