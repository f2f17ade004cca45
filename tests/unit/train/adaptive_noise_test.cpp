#include "privgrad/train/adaptive_noise.hpp"

#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "fake_program.hpp"
#include "privgrad/plan/components.hpp"
#include "small_components.hpp"

using namespace privgrad;
using core::AdaptiveNoise;

namespace {

/// The answer of the schedule to the next measurement.
std::function<double(double, std::span<const double>)> next_noise;

class Following final : public Schedule {
 public:
  explicit Following(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 2.0; }
  bool is_shape() const override { return false; }
  std::optional<Measurement> measurement() const override {
    return Measurement{.every = 2, .loss_bound = 4.0, .noise_multiplier = 2.0};
  }
  double next(double current, std::span<const double> measured) const override {
    return next_noise(current, measured);
  }
};

/// A program whose losses are the first features times a factor.
class Factored final : public Program {
 public:
  std::size_t parameter_count() const override { return 2; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float>) const override {}
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum;
    for (std::size_t i = 0; i < batch.rows(); ++i)
      sum.loss += factor * static_cast<double>(batch.features[2 * i]);
    return sum;
  }
  double factor = 1.0;
};

/// Six steps with noise 2, which cost a quarter each, and a measurement after every second step,
/// which also costs a quarter.
struct Followed {
  core::Manifest manifest = counted();
  core::Plan plan;
  Dataset data{{{2}, 0}, {1.0f, 0.0f, 3.0f, 0.0f, 10.0f, 0.0f}, {0.0f, 0.0f, 0.0f}};
  TempDir dir;
  std::filesystem::path file = dir.path() / "ledger.jsonl";
  CountingAccountant accountant;
  std::optional<core::Ledger> ledger;
  core::Components made;
  core::Workbench bench;
  std::optional<AdaptiveNoise> noise;

  explicit Followed(std::optional<double> budget, double check_noise = 2.0) {
    next_noise = [](double current, std::span<const double>) { return 0.5 * current; };
    use_small_components(manifest);
    manifest.noise_multiplier = in_manifest<Schedule, Following>("following", "schedules.noise");
    plan = small_plan(manifest, /*rows=*/3, /*steps=*/6, 6);
    plan.noise_multiplier.assign(6, 2.0);
    plan.noise_adapts.emplace().measurement = *Following(manifest.sampler.params).measurement();
    plan.noise_adapts->measurement.noise_multiplier = check_noise;
    ledger.emplace(file, core::Budget{.target_epsilon = budget, .target_delta = kCountedDelta},
                   accountant, "counting", nlohmann::json::object());
    made = core::start_components(plan);
    bench.program = std::make_unique<WatchingProgram>(file);
    bench.parameters = {0.0f, 0.0f};
    noise.emplace(plan, *made.aggregator, data, core::RandomKey::from_seed(1), serial);
  }
  Followed(const Followed&) = delete;
  Followed& operator=(const Followed&) = delete;

  bool choose(std::uint64_t step) { return noise->choose(step, bench, {}, *ledger); }
  std::size_t lines() const { return core::read_ledger(file).releases.size(); }
  std::size_t seen() const {
    return static_cast<const WatchingProgram&>(*bench.program).seen().size();
  }
  double multiplier(std::uint64_t step) const {
    return made.aggregator->recipe(step).noise.front().multiplier;
  }
};

}  // namespace

TEST_CASE("a measurement is paid for before the losses behind it are computed",
          "[adaptive_noise][privacy]") {
  Followed run(10.0);
  CHECK(run.choose(0));  // the losses for comparison, which are not shown
  CHECK(run.lines() == 0);
  CHECK(run.choose(1));
  CHECK(run.lines() == 0);
  const std::size_t seen = run.seen();
  CHECK(run.choose(2));
  CHECK(run.seen() > seen);
  const auto releases = core::read_ledger(run.file).releases;
  REQUIRE(releases.size() == 1);
  CHECK(releases.front().what == "loss_change");
  CHECK(releases.front().step == 2);
  CHECK(run.noise->record().measured_at == std::vector<std::uint64_t>{2});
  CHECK(run.noise->record().checks.size() == 1);
}

TEST_CASE("a measurement that the budget does not pay for looks at no row",
          "[adaptive_noise][privacy]") {
  Followed run(0.2);
  CHECK(run.choose(0));
  const std::size_t seen = run.seen();
  CHECK_FALSE(run.choose(2));
  CHECK(run.seen() == seen);
  CHECK(run.noise->record().measured.empty());
}

TEST_CASE("a measurement is the mean change of losses, each within its bound",
          "[adaptive_noise][privacy]") {
  // The noise is 0.001 times the bound of 4. Losses above 4 and NaN count as 4, and negative losses
  // as 0.
  const auto measured = [](const std::vector<double>& factors) {
    Followed run(std::nullopt, 1e-3);
    auto program = std::make_unique<Factored>();
    Factored& factored = *program;
    run.bench.program = std::move(program);
    std::uint64_t step = 0;
    for (const double factor : factors) {
      factored.factor = factor;
      REQUIRE(run.choose(2 * step++));
    }
    return run.noise->record().measured;
  };
  // (1, 3, 4), then (2, 4, 4), (0.5, 1.5, 4), and (4, 4, 4).
  const auto far = measured({1.0, 2.0, 0.5, std::numeric_limits<double>::quiet_NaN()});
  REQUIRE(far.size() == 3);
  CHECK_THAT(far[0], WithinAbs(2.0 / 3.0, 0.01));
  CHECK_THAT(far[1], WithinAbs(-4.0 / 3.0, 0.01));
  CHECK_THAT(far[2], WithinAbs(2.0, 0.01));
  // (1, 3, 4), then (0, 0, 0), and (1, 3, 4).
  const auto below = measured({1.0, -1.0, 1.0});
  REQUIRE(below.size() == 2);
  CHECK_THAT(below[0], WithinAbs(-8.0 / 3.0, 0.01));
  CHECK_THAT(below[1], WithinAbs(8.0 / 3.0, 0.01));
}

TEST_CASE("each step is charged for the noise that was chosen for it",
          "[adaptive_noise][privacy]") {
  Followed run(10.0);
  run.choose(0);
  REQUIRE(run.noise->pay(0, *run.ledger));
  run.choose(2);
  const auto receipt = run.noise->pay(2, *run.ledger);
  REQUIRE(receipt);
  CHECK(receipt->release() == Event::gaussian(1.0));  // halved
  CHECK(run.multiplier(2) == 1.0);
  CHECK(run.multiplier(5) == 1.0);
  CHECK(run.multiplier(1) == 2.0);  // earlier steps keep their noise
  CHECK(run.noise->record().noise_multiplier == std::vector<double>{2.0, 1.0});
  // 1/4 for the first step, 1/4 for the measurement, 1 for the second.
  CHECK(run.ledger->spent().value == 1.5);
}

TEST_CASE("a step that the budget does not pay for has no receipt", "[adaptive_noise][privacy]") {
  Followed run(0.3);
  CHECK(run.noise->pay(0, *run.ledger));
  CHECK_FALSE(run.noise->pay(1, *run.ledger));
  CHECK(run.noise->record().steps.size() == 1);
}

TEST_CASE("a schedule that chooses no noise is at fault", "[adaptive_noise][privacy]") {
  for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    Followed run(10.0);
    next_noise = [&](double, std::span<const double>) { return wrong; };
    run.choose(0);
    CHECK_THROWS_AS(run.choose(2), PluginError);
  }
}

TEST_CASE("adaptive noise that is taken up goes on as if it had not stopped",
          "[adaptive_noise][resume]") {
  Followed whole(10.0), again(10.0);
  next_noise = [](double, std::span<const double> measured) { return 2.0 + measured.back(); };
  whole.choose(0);
  whole.choose(2);
  core::StateWriter out;
  whole.noise->save(out);
  core::StateReader in(out.text(), "state");
  again.noise->restore(in);
  in.end();
  CHECK(again.noise->record().measured == whole.noise->record().measured);
  CHECK(again.multiplier(4) == whole.multiplier(4));
  whole.choose(4);
  again.choose(4);
  CHECK(again.noise->record().measured == whole.noise->record().measured);
  CHECK(again.noise->noise_multiplier() == whole.noise->noise_multiplier());

  Followed other(10.0);
  other.plan.noise_multiplier.assign(5, 2.0);
  AdaptiveNoise shorter(other.plan, *other.made.aggregator, other.data,
                        core::RandomKey::from_seed(1), serial);
  core::StateReader same(out.text(), "state");
  CHECK_THROWS_AS(shorter.restore(same), IoError);
}

TEST_CASE("measurements on test rows are means, and need some rows", "[adaptive_noise]") {
  const Evaluation sums{.loss = 6.0, .correct = 3};
  const auto measured = [&](Measured what, std::size_t rows) {
    return core::measured_on_test_rows({.what = what}, sums, rows);
  };
  CHECK(measured(Measured::validation_loss, 4) == 1.5);
  CHECK(measured(Measured::validation_accuracy, 4) == 0.75);
  CHECK_THROWS_AS(measured(Measured::validation_loss, 0), IoError);
}
