#include "privgrad/train/trainer.hpp"

#include <numeric>
#include <optional>
#include <vector>

#include "counted_manifest.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/trust/row_sum.hpp"

using namespace privgrad;
using core::Plan;
using core::Trainer;

namespace {

/// Every row takes part in every step, which is charged in full.
class Everybody final : public Sampler {
 public:
  explicit Everybody(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return double(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), 0u);
  }

 private:
  std::uint64_t size_ = 0;
};

class PlannedNoise final : public Aggregator {
 public:
  explicit PlannedNoise(const Params&) {}
  void start(const AggregationPlan& plan) override {
    noise_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }
  ReleaseRecipe recipe(std::uint64_t step) const override {
    return {.keep = 0.0, .earlier = {}, .noise = {{.node = step, .multiplier = noise_.at(step)}}};
  }

 private:
  std::vector<double> noise_;
};

/// Gradient descent with momentum, whose state a resumed run needs.
class Rolling final : public Optimizer {
 public:
  explicit Rolling(const Params&) {}
  void start(std::size_t parameters) override { velocity_.assign(parameters, 0.0f); }
  void step(std::span<float> parameters, const Released& gradient, const StepContext&) override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = 0.5f * velocity_[i] + gradient.values()[i];
      parameters[i] -= velocity_[i];
    }
  }
  std::vector<StateMember> state() override { return {{"velocity", &velocity_}}; }

 private:
  std::vector<float> velocity_;
};

class Flat final : public Clipping {
 public:
  explicit Flat(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    flat_clipping().factors(squared_norms, clip_norm, factors);
  }
};

/// A program whose gradients are the rows, and which counts the lines of the ledger when it is
/// asked for them.
class Watching final : public Program {
 public:
  explicit Watching(std::filesystem::path ledger) : ledger_(std::move(ledger)) {}
  std::size_t parameter_count() const override { return 2; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    if (std::filesystem::exists(ledger_))
      lines_when_looked_ = core::read_ledger(ledger_).releases.size();
    std::copy(batch.features.begin(), batch.features.end(), rows.begin());
  }
  Evaluation evaluate(const Batch&) const override { return {}; }
  std::optional<std::size_t> lines_when_looked() const { return lines_when_looked_; }

 private:
  std::filesystem::path ledger_;
  mutable std::optional<std::size_t> lines_when_looked_;
};

/// The owner of three rows, whose steps have noise 1 and cost 1 each, of a budget of 3.
struct Owner {
  core::Manifest manifest = counted();
  Plan plan;
  Dataset data{{{2}, 0}, {1.0f, 0.0f, 0.0f, 1.0f, 0.5f, 0.5f}, {0.0f, 0.0f, 0.0f}};
  std::filesystem::path ledger;
  std::optional<Trainer> trainer;
  core::Workbench bench;

  Owner(const TempDir& dir, std::size_t steps, std::uint64_t affordable = 3)
      : ledger(dir.path() / "ledger.jsonl") {
    manifest.sampler = in_manifest<Sampler, Everybody>("everybody", "sampler");
    manifest.aggregator = in_manifest<Aggregator, PlannedNoise>("planned", "aggregator");
    manifest.optimizer = in_manifest<Optimizer, Rolling>("rolling", "optimizer");
    manifest.clipping = in_manifest<Clipping, Flat>("flat", "clipping");
    core::Setting setting;
    setting.groups = {{"all", 0, 2}};
    plan.manifest = &manifest;
    plan.setting = std::make_shared<core::Setting>(std::move(setting));
    plan.dataset_size = 3;
    plan.parameters = 2;
    plan.planned_steps = plan.facts.steps = steps;
    plan.facts.dataset_size = 3;
    plan.affordable_steps = affordable;
    plan.noise_multiplier.assign(steps, 1.0);
    plan.clip_norm.assign(steps, 1.0);
    plan.learning_rate.assign(steps, 1.0);
    plan.batch_size.assign(steps, 3.0);
    plan.charges = full_steps(steps, 1.0);
    plan.arithmetic = core::Arithmetic::floating;
    bench.program = std::make_unique<Watching>(ledger);
    bench.parameters = {0.0f, 0.0f};
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  Trainer& make() {
    return trainer.emplace(plan, data, std::nullopt, core::RandomKey::from_seed(5), serial);
  }
  Trainer& open() {
    make().open_ledger(ledger, nlohmann::json::object());
    return *trainer;
  }
  std::size_t lines() const { return core::read_ledger(ledger).releases.size(); }
  std::optional<std::size_t> lines_when_looked() const {
    return static_cast<const Watching&>(*bench.program).lines_when_looked();
  }
};

}  // namespace

TEST_CASE("a step is paid for before its rows are looked at", "[trainer][privacy]") {
  const TempDir dir;
  Owner owner(dir, 3);
  Trainer& trainer = owner.open();
  for (std::uint64_t step = 0; step < 3; ++step) {
    REQUIRE(trainer.pay_for(step));
    CHECK(trainer.take_step(step, owner.bench));
    CHECK(owner.lines_when_looked() == step + 1);
  }
}

TEST_CASE("a budget that is spent pays for no step, and no row is looked at",
          "[trainer][privacy]") {
  const TempDir dir;
  Owner owner(dir, 4, 4);  // the plan is mistaken: the fourth step costs more than is left
  Trainer& trainer = owner.open();
  for (std::uint64_t step = 0; step < 3; ++step) REQUIRE(trainer.pay_for(step));
  CHECK(owner.lines() == 1);  // the receipt of the first step is still in hand
  for (std::uint64_t step = 0; step < 3; ++step) {
    REQUIRE(trainer.pay_for(step));
    trainer.take_step(step, owner.bench);
  }
  CHECK_FALSE(trainer.pay_for(3));
  CHECK_THROWS_AS(trainer.take_step(3, owner.bench), PrivacyError);
  CHECK(owner.lines() == 3);
}

TEST_CASE("no step is made without a ledger, or without a receipt of its own",
          "[trainer][privacy]") {
  const TempDir dir;
  Owner without(dir, 3);
  CHECK_THROWS_WITH(without.make().take_step(0, without.bench),
                    ContainsSubstring("needs a ledger, and none was opened"));
  const TempDir other;
  Owner owner(other, 3);
  Trainer& trainer = owner.open();
  CHECK_THROWS_AS(trainer.take_step(0, owner.bench), PrivacyError);
  REQUIRE(trainer.pay_for(0));
  CHECK(trainer.take_step(0, owner.bench));
  CHECK_THROWS_AS(trainer.take_step(1, owner.bench), PrivacyError);
}

TEST_CASE("more steps are paid for behind those in hand", "[trainer][privacy]") {
  const TempDir dir;
  Owner owner(dir, 3);
  Trainer& trainer = owner.open();
  REQUIRE(trainer.pay_for(0));
  REQUIRE(trainer.pay_for(0, 3));
  const auto releases = core::read_ledger(owner.ledger).releases;
  REQUIRE(releases.size() == 3);
  for (std::size_t i = 0; i < releases.size(); ++i) CHECK(releases[i].step == i);
}

TEST_CASE("a run that charges otherwise than its plan is not begun", "[trainer][privacy]") {
  const TempDir dir;
  Owner owner(dir, 3);
  owner.plan.charges[2].cost = Event::gaussian(2.0);
  CHECK_THROWS_WITH(owner.open(),
                    ContainsSubstring("step 2 is charged otherwise than when it was"));
  CHECK_FALSE(std::filesystem::exists(owner.ledger));
}

TEST_CASE("steps are paid for in at most 64 blocks, which end where a report decides",
          "[trainer][privacy]") {
  const auto lines_after_first = [](std::uint64_t affordable, std::uint64_t every,
                                    std::uint64_t at_least = 1) {
    const TempDir dir;
    Owner owner(dir, 640, affordable);
    owner.manifest.target_epsilon.reset();
    if (every > 0) owner.plan.report = core::PlannedReport{.noise_multiplier = 1.0, .every = every};
    REQUIRE(owner.open().pay_for(0, at_least));
    return owner.lines();
  };
  CHECK(lines_after_first(640, 0) == 10);
  CHECK(lines_after_first(640, 4) == 4);
  CHECK(lines_after_first(7, 0) == 7);
  CHECK(lines_after_first(640, 0, 25) == 25);
}

TEST_CASE("a resumed trainer makes the steps of an uninterrupted one, and pays for none twice",
          "[trainer][resume][privacy]") {
  const auto steps = [](Owner& owner, std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t step = first; step < end; ++step) {
      REQUIRE(owner.trainer->pay_for(step));
      owner.trainer->take_step(step, owner.bench);
    }
  };
  const TempDir of_whole;
  Owner whole(of_whole, 3);
  whole.open();
  steps(whole, 0, 3);
  for (const bool is_paid_ahead : {false, true}) {
    const TempDir dir;
    Owner before(dir, 3);
    before.open();
    steps(before, 0, 1);
    if (is_paid_ahead) REQUIRE(before.trainer->pay_for(1));
    core::StateWriter out;
    before.trainer->save(out, Trainer::Between::steps);
    before.trainer.reset();

    Owner after(dir, 3);
    after.bench.parameters = before.bench.parameters;
    Trainer& trainer = after.make();
    core::StateReader in(out.text(), "state");
    trainer.restore(in, Trainer::Between::steps);
    in.end();
    CHECK(trainer.receipts_to_take_up() == (is_paid_ahead ? 1 : 0));
    trainer.reopen_ledger(after.ledger, nlohmann::json::object(), /*may_repeat=*/false);
    steps(after, 1, 3);
    CHECK(after.bench.parameters == whole.bench.parameters);
    CHECK(after.lines() == 3);
  }
}

TEST_CASE("steps that another process pays for are those of the plan, each once",
          "[trainer][privacy]") {
  const TempDir dir;
  Owner payer(dir, 3), maker(dir, 3);
  Trainer& pays = payer.open();
  REQUIRE(pays.pay_for(0, 2));
  pays.hand_over(2);
  CHECK_THROWS_AS(pays.hand_over(1), PrivacyError);

  Trainer& makes = maker.make();
  CHECK_THROWS_AS(makes.take_over(0, 1), PrivacyError);  // it has no such right yet
  makes.expect_receipts();
  CHECK_THROWS_AS(makes.take_over(2, 2), PrivacyError);  // there are three steps
  makes.take_over(0, 2);
  CHECK_THROWS_AS(makes.take_over(2, 1), PrivacyError);  // earlier steps are not made
  makes.take_step(0, maker.bench);
  makes.take_step(1, maker.bench);
  CHECK_THROWS_AS(makes.take_step(2, maker.bench), PrivacyError);
}
