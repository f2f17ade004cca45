// Runs in which each example draws its own step of an epoch.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "privgrad/data/executor.hpp"
#include "privgrad/plan/allocation_price.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/traits.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

constexpr const char* kAllocated = R"(privgrad: 1
name: allocated
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4, test_is_public: true}
model: {kind: linear}
sampler: {kind: allocation, steps_per_epoch: 5}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 50, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: pld}
steps: 15
)";

const Event kEpoch = Event::random_allocation(5, Event::gaussian(2.0));

double epsilon_of(const Overrides& set) {
  return Experiment(kAllocated, set).plan().epsilon().value;
}

// ---- samplers that charge epochs differently from how they draw them

/// Epochs of three steps, drawn and charged as the variant defines.
class Thirds : public Sampler {
 public:
  explicit Thirds(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = static_cast<double>(plan.dataset_size); }
  double expected_batch_size(std::uint64_t) const override { return size_ / 3.0; }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged(releases.size(), Event::nothing());
    for (std::size_t step = 0; step < releases.size(); ++step)
      if (begins_epoch(step)) charged[step] = cost(releases[step]);
    return charged;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    const auto stream = random.stream(stream_of(step));
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row)
      if (stream->uniform_below(3) == step % 3) batch.push_back(row);
  }

 protected:
  virtual bool begins_epoch(std::size_t step) const { return step % 3 == 0; }
  virtual Event cost(const Event& release) const { return Event::random_allocation(3, release); }
  virtual std::uint64_t stream_of(std::uint64_t step) const { return step / 3; }

 private:
  double size_ = 0.0;
};
struct DrawsEachStepAnew final : Thirds {
  using Thirds::Thirds;
  std::uint64_t stream_of(std::uint64_t step) const override { return step; }
};
struct DrawsOneEpoch final : Thirds {
  using Thirds::Thirds;
  std::uint64_t stream_of(std::uint64_t) const override { return 0; }
};
struct AmongOthers final : Thirds {
  using Thirds::Thirds;
  Event cost(const Event& release) const override {
    return Event::composed({Event::random_allocation(3, release), Event::gaussian(1e3)});
  }
};
struct ManyAtOnce final : Thirds {
  using Thirds::Thirds;
  Event cost(const Event& release) const override {
    return Event::self_composed(2, Event::random_allocation(3, release));
  }
};
struct PaysForTwo final : Thirds {
  using Thirds::Thirds;
  bool begins_epoch(std::size_t step) const override { return step % 6 == 0; }
};
struct MoreSteps final : Thirds {
  using Thirds::Thirds;
  Event cost(const Event& release) const override { return Event::random_allocation(4, release); }
};
struct MoreNoise final : Thirds {
  using Thirds::Thirds;
  Event cost(const Event&) const override {
    return Event::random_allocation(3, Event::gaussian(2.001));
  }
};

template <class Impl>
Factory thirds(const std::string& name, bool declared = true) {
  Registrar registrar;
  registrar.add<Sampler, Impl>(
      {.name = name,
       .summary = "Of this test.",
       .reference = "none",
       .params = {},
       .traits = declared ? std::vector<std::string>{std::string(trait::epoch_coins)}
                          : std::vector<std::string>{}});
  return registrar.factories().front();
}

const Catalog& parts() {
  static const Catalog all =
      house_with({thirds<Thirds>("thirds"), thirds<Thirds>("undeclared", false),
                  thirds<DrawsEachStepAnew>("draws_each_step_anew"),
                  thirds<DrawsOneEpoch>("draws_one_epoch"), thirds<AmongOthers>("among_others"),
                  thirds<ManyAtOnce>("many_at_once"), thirds<PaysForTwo>("pays_for_two"),
                  thirds<MoreSteps>("more_steps"), thirds<MoreNoise>("more_noise")});
  return all;
}

}  // namespace

TEST_CASE("an epoch is charged at its first step, and an unfinished one whole",
          "[allocation][privacy]") {
  Experiment experiment(kAllocated, {"steps=12"});
  experiment.run();
  const auto& charges = experiment.plan().charges;
  REQUIRE(charges.size() == 12);
  for (const core::Charge& charge : charges)
    CHECK(charge.cost == (charge.step % 5 == 0 ? kEpoch : Event::nothing()));
  const auto ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 12);
  // Two steps of the third epoch cost as much as all five, and one more step costs another epoch.
  CHECK(epsilon_of({"steps=11"}) == epsilon_of({"steps=15"}));
  CHECK(epsilon_of({"steps=15"}) < epsilon_of({"steps=16"}));
  CHECK(ledger.releases.front().epsilon == epsilon_of({"steps=5"}));
  CHECK(ledger.releases.back().epsilon == epsilon_of({"steps=15"}));
  CHECK(verify::problems_of(experiment) == "");
}

TEST_CASE("the budget pays for whole epochs", "[allocation][privacy]") {
  const double two = epsilon_of({"steps=10"}), three = epsilon_of({"steps=15"});
  Experiment experiment(kAllocated,
                        {"privacy.target_epsilon=" + std::to_string(0.5 * (two + three))});
  CHECK(experiment.plan().affordable_steps == 10);
  CHECK(experiment.run().steps == 10);
}

TEST_CASE("a step whose batch is empty releases its noise", "[allocation][privacy]") {
  // 5 examples in 50 steps: at least 45 batches are empty.
  Experiment experiment(
      kAllocated, {"data.rows=5", "sampler.steps_per_epoch=50", "steps=50", "evaluate_every=1"});
  experiment.run();
  CHECK(experiment.ledger().releases.size() == 50);
  std::set<std::string> losses;
  std::istringstream lines(read_file(experiment.run_dir() / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    losses.insert(nlohmann::json::parse(line).at("test_loss").dump());
  CHECK(losses.size() == 50);
}

namespace {

/// A run whose keys change with its steps; it can be saved and resumed at any step.
class Ratcheting {
 public:
  Ratcheting() {
    begin();
    trainer_.open_ledger(ledger(), nlohmann::json::object());
  }
  /// Continues from the state that another run has saved.
  Ratcheting(const Ratcheting& other, const std::string& saved) {
    begin();
    fs::copy_file(other.ledger(), ledger());
    core::StateReader in(saved, "a checkpoint");
    trainer_.restore(in, core::Trainer::Between::steps);
    trainer_.reopen_ledger(ledger(), nlohmann::json::object(), true);
  }

  /// Returns the key of the sampler's coins in a given step.
  static core::RandomKey coins_of(std::uint64_t step) {
    return core::RandomKey::from_seed(100 + step).derive("sampler");
  }
  /// \returns the batch.
  std::vector<std::uint32_t> step(std::uint64_t step) {
    trainer_.use_key_of_step(core::RandomKey::from_seed(100 + step));
    const bool is_paid = trainer_.pay_for(step), is_finite = trainer_.take_step(step, bench_);
    REQUIRE((is_paid && is_finite));
    return batch_;
  }
  const std::vector<float>& parameters() const { return bench_.parameters; }
  std::string saved() const {
    core::StateWriter out;
    trainer_.save(out, core::Trainer::Between::steps);
    return out.text();
  }

 private:
  fs::path ledger() const { return experiment_.dir() / "ledger.jsonl"; }
  void begin() { bench_.load(core::initial_parameters(plan_, core::RandomKey::from_seed(1))); }

  Experiment experiment_{kAllocated, {"schedules.noise_multiplier=1000"}};
  const core::Plan& plan_ = experiment_.plan();
  std::unique_ptr<Executor> executor_ = core::make_executor(1);
  core::Workbench bench_ = core::make_workbench(plan_, *executor_);
  core::RunData data_ = core::read_data(*plan_.manifest, *plan_.setting);
  std::vector<std::uint32_t> batch_;
  core::Trainer trainer_{
      plan_, data_.train, core::RandomKey::from_seed(1), *executor_, {.listener = [&](auto batch) {
        batch_.assign(batch.begin(), batch.end());
      }}};
};

bool holds(const std::string& state, const core::RandomKey& key) {
  const auto bytes = key.secret_bytes();
  return state.find(std::string(bytes.begin(), bytes.end())) != state.npos;
}

}  // namespace

TEST_CASE("an epoch keeps the coins of its first step, which are forgotten with its last",
          "[allocation][privacy]") {
  Ratcheting run;
  const auto sampler =
      house().create<Sampler>("allocation", Value::Object{{"steps_per_epoch", 5, {}}});
  sampler->start({.dataset_size = 60, .steps = 15, .adjacency = Adjacency::add_or_remove_one});
  for (std::uint64_t step = 0; step < 15; ++step) {
    const std::uint64_t first = step / 5 * 5;
    std::vector<std::uint32_t> expected;
    sampler->sample(step, 60, *core::make_random_source(Ratcheting::coins_of(first)), expected);
    CHECK(run.step(step) == expected);
    // The private state contains the coins of the current epoch, and no others.
    for (std::uint64_t other = 0; other < 15; ++other)
      CHECK(holds(run.saved(), Ratcheting::coins_of(other)) == (other == first && step % 5 != 4));
  }
}

TEST_CASE("a run that goes on in the middle of an epoch draws the rest of it",
          "[allocation][privacy]") {
  for (const std::uint64_t at : {1, 3, 5, 9}) {
    Ratcheting whole;
    for (std::uint64_t step = 0; step < at; ++step) whole.step(step);
    const std::string saved = whole.saved();
    Ratcheting resumed(whole, saved);
    for (std::uint64_t step = at; step < 15; ++step) CHECK(resumed.step(step) == whole.step(step));
  }
}

TEST_CASE("the noise of a step follows the coins of its epoch", "[allocation][privacy]") {
  Ratcheting run;
  run.step(0);
  const std::string saved = run.saved();
  const core::RandomKey drawn_by = Ratcheting::coins_of(0);
  const auto coins = drawn_by.secret_bytes();
  const std::string own(coins.begin(), coins.end());
  const auto next = [&](const core::RandomKey& key) {
    std::string edited = saved;
    const auto bytes = key.secret_bytes();
    std::copy(bytes.begin(), bytes.end(),
              edited.begin() + static_cast<std::ptrdiff_t>(edited.find(own)));
    Ratcheting copy(run, edited);
    copy.step(1);
    return copy.parameters();
  };
  const std::vector<float> expected = next(Ratcheting::coins_of(0));
  CHECK(next(Ratcheting::coins_of(0)) == expected);
  int gone_on = 0;
  for (std::uint64_t other = 1; gone_on < 3; ++other) {
    std::vector<float> changed;
    try {
      changed = next(core::RandomKey::from_seed(other));
    } catch (const PluginError&) {  // a row of step 0 also occurs in step 1
      continue;
    }
    ++gone_on;
    // With the same noise, sums of at most 60 rows of length 1 differ by at most 120, and models by
    // that times 0.5 / 12.
    double square = 0.0;
    for (std::size_t i = 0; i < changed.size(); ++i)
      square += std::pow(static_cast<double>(changed[i]) - static_cast<double>(expected[i]), 2);
    CHECK(std::sqrt(square) > 120 * 0.5 / 12);
  }
}

TEST_CASE("without its coins an epoch is not gone on with", "[allocation][privacy]") {
  Ratcheting run;
  CHECK_THROWS_WITH(run.step(2),
                    ContainsSubstring("the coins that drew the epoch of step 2 are gone"));
}

TEST_CASE("rows that are streamed, or shared by threads, are drawn alike", "[allocation]") {
  std::string table = "a,b,label\n";
  for (int row = 0; row < 60; ++row)
    table += std::to_string(row * 37 % 11) + "," + std::to_string(row * 5 % 7) + "," +
             std::to_string(row % 2) + "\n";
  const auto model = [&](const Overrides& more, int threads) {
    Experiment experiment(
        kAllocated,
        with({"data={kind: csv, train: t.csv, target: label, classes: 2, columns: [{name: '*', "
              "type: number, fill: 0}]}"},
             more));
    write_file(experiment.dir() / "t.csv", table);
    experiment.run(threads);
    return experiment.parameters();
  };
  const TempDir cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  const std::vector<float> one = model({}, 1);
  CHECK(model({}, 3) == one);
  CHECK(model({"data.streaming=true"}, 1) == one);
  CHECK(model({"microbatch_size=1"}, 1) == one);
  CHECK(model({"seed=2"}, 1) != one);
}

TEST_CASE("what random allocation does not cover is refused, with the reason",
          "[allocation][privacy]") {
  const auto refusal = [](const Overrides& set) {
    try {
      Experiment(kAllocated, set).plan();
    } catch (const Error& problem) {
      return std::string(problem.what());
    }
    return std::string("planned");
  };
  CHECK(refusal({}) == "planned");
  CHECK(refusal({"privacy.adjacency=zero_out"}) == "planned");
  CHECK(refusal({"clipping=adaptive"}) == "planned");
  struct Refused {
    Overrides set;
    std::string why;
  };
  for (const auto& [set, why] : std::vector<Refused>{
           {{"privacy.adjacency=replace_one"}, "random_allocation"},
           {{"privacy.accountant=rdp"}, "random_allocation"},
           {{"aggregator={kind: tree, momentum: 0.9}"},
            "no amplification is proved for the correlated releases"},
           {{"schedules.batch_size=13"}, "does not follow schedules.batch_size"},
           {{"privacy.accountant=zcdp",
             "schedules.noise_multiplier={kind: validation, initial: 20, every: 2, threshold: "
             "0.01, factor: 0.8}"},
            "chooses it during the run, so each step must be charged in full"},
           {{"federated={clients: 3, rounds: 2, local_iterations: 2}"},
            "a client of fed_avg that misses a round"}}) {
    INFO(set.front());
    CHECK_THAT(refusal(set), ContainsSubstring(why));
  }
}

TEST_CASE("a sampler that charges epochs otherwise than they are kept to does not run",
          "[allocation][privacy]") {
  const auto refused = [](const std::string& name, const std::string& why) {
    INFO(name);
    Experiment experiment(kAllocated, {"sampler=" + name}, parts());
    CHECK_THROWS_WITH(experiment.run(), ContainsSubstring(name) && ContainsSubstring(why) &&
                                            !ContainsSubstring("\n"));
    CHECK_FALSE(std::filesystem::exists(experiment.run_dir() / "model.safetensors"));
  };
  CHECK_NOTHROW(Experiment(kAllocated, {"sampler=thirds"}, parts()).run());
  refused("undeclared", "has the trait epoch_coins");
  refused("among_others", "charges random_allocation together with others");
  refused("many_at_once", "charges random_allocation together with others");
  refused("pays_for_two", "has another number of steps, or more noise");
  refused("more_steps", "has another number of steps, or more noise");
  refused("more_noise", "has another number of steps, or more noise");
  refused("draws_each_step_anew", "a row is in two batches");
  refused("draws_one_epoch", "name the rows of earlier ones more often");
}

TEST_CASE("plans say what they would cost with random allocation", "[allocation][plan]") {
  const auto price = [](const Overrides& set) {
    return core::price_of_allocation(
        Experiment(kAllocated, with({"privacy.accountant=gdp", "steps=12"}, set)).plan());
  };
  const double allocated = epsilon_of({"steps=12", "privacy.adjacency=zero_out"});
  const std::string shuffle = "sampler={kind: shuffle, batch_size: 13}";  // 5 steps an epoch
  for (const Overrides& set : std::vector<Overrides>{
           {shuffle, "privacy.adjacency=zero_out"},
           {shuffle, "privacy.adjacency=replace_one"},
           {"sampler={kind: sequential, batch_size: 13}", "privacy.adjacency=zero_out"},
           {"sampler={kind: fixed_size, batch_size: 12}", "privacy.adjacency=replace_one",
            "privacy.accountant=rdp"}}) {
    INFO(set.front());
    const auto found = price(set);
    REQUIRE(found);
    CHECK(found->steps_per_epoch == 5);
    CHECK(found->adjacency == "zero_out");
    CHECK(found->epsilon.value() == allocated);
  }
  // Each epoch is charged for its smallest noise, as in the sampler.
  const std::string noise =
      "schedules.noise_multiplier={kind: list, values: [3, 2, 3, 3, 3, 4, 5, 4, 5, 4, 6, 6]}";
  CHECK(price({shuffle, "privacy.adjacency=zero_out", noise})->epsilon.value() ==
        epsilon_of({"steps=12", "privacy.adjacency=zero_out", noise}));
  // Twelve epochs with different noises are approximated by eight: an upper bound, with noise at
  // most 3^(1/8) smaller.
  const auto falling = [](double first) {
    std::string values = "schedules.noise_multiplier={kind: list, values: [";
    for (int step = 0; step < 24; ++step)
      values +=
          std::to_string(first * std::pow(3.0, -(step / 2) / 11.0)) + (step < 23 ? ", " : "]}");
    return values;
  };
  const Overrides two = {"steps=24", "sampler.steps_per_epoch=2", "privacy.adjacency=zero_out"};
  const double most = price({"sampler={kind: shuffle, batch_size: 30}",
                             "privacy.adjacency=zero_out", "steps=24", falling(9.0)})
                          ->epsilon.value();
  CHECK(most > epsilon_of(with(two, {falling(9.0)})));
  CHECK(most < epsilon_of(with(two, {falling(9.0 / std::pow(3.0, 1.0 / 8.0))})));
  for (const Overrides& set : std::vector<Overrides>{
           {"privacy.accountant=pld"},
           {"sampler={kind: poisson, batch_size: 12}", "privacy.accountant=rdp"},
           {"sampler=full_batch"},
           {shuffle, "privacy.adjacency=zero_out", "aggregator={kind: tree, momentum: 0.9}"},
           {"sampler={kind: shuffle, batch_size: 60}", "privacy.adjacency=zero_out"},
           {shuffle, "privacy.adjacency=zero_out", "privacy.noise=off",
            "schedules.noise_multiplier=null"}}) {
    INFO(set.front());
    CHECK_FALSE(price(set));
  }
}
