#include "privgrad/train/trainer.hpp"

#include <optional>
#include <vector>

#include "fake_program.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "small_components.hpp"

using namespace privgrad;
using core::Plan;
using core::Trainer;

namespace {

/// The owner of three rows, whose steps have noise 1 and cost 1 each; the budget is 3.
struct Owner {
  core::Manifest manifest = counted();
  Plan plan;
  Dataset data{{{2}, 0}, {1.0f, 0.0f, 0.0f, 1.0f, 0.5f, 0.5f}, {0.0f, 0.0f, 0.0f}};
  std::filesystem::path ledger;
  std::optional<Trainer> trainer;
  core::Workbench bench;

  Owner(const TempDir& dir, std::size_t steps, std::uint64_t affordable = 3)
      : ledger(dir.path() / "ledger.jsonl") {
    use_small_components(manifest);
    plan = small_plan(manifest, /*rows=*/3, steps, affordable);
    bench.program = std::make_unique<WatchingProgram>(ledger);
    bench.parameters = {0.0f, 0.0f};
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  Trainer& make() { return trainer.emplace(plan, data, core::RandomKey::from_seed(5), serial); }
  Trainer& open() {
    make().open_ledger(ledger, nlohmann::json::object());
    return *trainer;
  }
  std::size_t lines() const { return core::read_ledger(ledger).releases.size(); }
  std::optional<std::size_t> lines_when_looked() const {
    return static_cast<const WatchingProgram&>(*bench.program).lines_when_looked();
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
  CHECK(owner.lines() == 1);  // the first step's receipt is still unused
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
  CHECK_THROWS_WITH(owner.open(), ContainsSubstring("step 2 is charged differently than when it"));
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
  CHECK_THROWS_AS(makes.take_over(0, 1), PrivacyError);  // it has no right to this yet
  makes.expect_receipts();
  CHECK_THROWS_AS(makes.take_over(2, 2), PrivacyError);  // there are three steps
  makes.take_over(0, 2);
  CHECK_THROWS_AS(makes.take_over(2, 1), PrivacyError);  // earlier steps are missing
  makes.take_step(0, maker.bench);
  makes.take_step(1, maker.bench);
  CHECK_THROWS_AS(makes.take_step(2, maker.bench), PrivacyError);
}
