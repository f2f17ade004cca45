#include "privgrad/federated/client.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "fake_program.hpp"
#include "privgrad/plan/fed_avg_plan.hpp"
#include "small_components.hpp"

using namespace privgrad;
using core::Client;
using core::ClientRound;
using core::RandomKey;

namespace {

/// A federated run of rows 0 to 4; rows 1 and 3 belong to its only client. A step costs 1, and the
/// estimate after each round costs a quarter.
struct Federation {
  core::Manifest manifest = counted();
  core::Federated wish;
  core::FederatedPlan federated;
  Dataset data{{{2}, 0},
               {0.0f, 0.0f, 1.0f, 0.0f, 2.0f, 0.0f, 3.0f, 0.0f, 4.0f, 0.0f},
               {0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
  core::RunKeys keys = core::RunKeys::constant(RandomKey::from_seed(3));
  std::filesystem::path ledger;
  core::Workbench bench;
  std::optional<Client> client;

  Federation(const TempDir& dir, double budget, bool with_estimates)
      : ledger(dir.path() / "ledger.jsonl") {
    use_small_components(manifest);
    manifest.target_epsilon = budget;
    wish.clients = 1;
    wish.rounds = 2;
    wish.estimate_bound = 10.0;
    manifest.federated = wish;
    auto plan = std::make_shared<core::Plan>(small_plan(manifest, /*rows=*/2, /*steps=*/4, 4));
    federated.estimates = with_estimates;
    federated.estimate_noise = 2.0;
    if (with_estimates) {
      const auto sampler = core::start_estimate_sampler(manifest, 2, {});
      plan->beside = core::estimate_charges(manifest, *sampler, federated.estimate_noise);
    }
    federated.clients.push_back({.plan = plan, .rows = {1, 3}, .labels = {}});
    bench.program = std::make_unique<WatchingProgram>(ledger);
    bench.parameters = {0.0f, 0.0f};
    client.emplace(0, federated, wish, data, keys, serial);
    client->open_ledger(ledger, nlohmann::json::object());
  }
  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  std::optional<ClientRound> round(std::uint64_t steps) {
    return client->train(std::vector<float>{0.0f, 0.0f}, steps, bench);
  }
  std::size_t lines() const { return core::read_ledger(ledger).releases.size(); }
  const WatchingProgram& program() const {
    return static_cast<const WatchingProgram&>(*bench.program);
  }
};

}  // namespace

TEST_CASE("a client pays for its round before it looks at a row, and only at its own",
          "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 3.0, false);
  const auto sent = run.round(2);
  REQUIRE(sent);
  CHECK(run.program().lines_when_looked() == 2);
  for (const float first : run.program().seen()) CHECK((first == 1.0f || first == 3.0f));
  CHECK(run.client->steps_done() == 2);
  CHECK(run.client->steps_left() == 2);
  CHECK(sent->rates == 2.0);  // two steps with learning rate 1
  // The noise of a gradient: clip norm 1 times multiplier 1, over two rows.
  CHECK_THAT(sent->noise_variance, WithinRel(2.0 * 0.25, 1e-6));
}

TEST_CASE("a round that the budget does not pay for whole is not made", "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 3.0, false);
  REQUIRE(run.round(2));
  const std::size_t seen = run.program().seen().size();
  CHECK_FALSE(run.round(2));
  CHECK(run.program().seen().size() == seen);
  CHECK(run.client->steps_done() == 2);
}

TEST_CASE("an estimate is paid for before its losses are computed", "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 10.0, true);
  const auto sent = run.round(1);
  REQUIRE(sent);
  CHECK(run.program().lines_when_looked() == 2);
  REQUIRE(sent->loss_changes);
  CHECK(run.client->estimates_made() == 1);
  const auto releases = core::read_ledger(run.ledger).releases;
  CHECK(releases[0].what.empty());
  CHECK(releases[1].what == "estimate");
}

TEST_CASE("an estimate that the budget does not pay for is not made, and the model is sent",
          "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 1.1, true);  // a step costs 1, an estimate a quarter
  const auto sent = run.round(1);
  REQUIRE(sent);
  CHECK_FALSE(sent->loss_changes);
  CHECK(run.program().lines_when_looked() == 1);
  CHECK(run.client->estimates_made() == 0);
}

// The noise follows only from the key, so a release shows the contribution of one row.
TEST_CASE("losses that are not finite add nothing to an estimate", "[client][privacy]") {
  class OneLoss final : public WatchingProgram {
   public:
    OneLoss(std::filesystem::path ledger, double loss)
        : WatchingProgram(std::move(ledger)), loss_(loss) {}
    Evaluation evaluate(const Batch& batch) const override {
      const Evaluation own = WatchingProgram::evaluate(batch);
      return batch.features.front() == 3.0f ? Evaluation{.loss = loss_, .correct = 0} : own;
    }

   private:
    double loss_;
  };
  const auto released = [](double loss) {
    const TempDir dir;
    Federation run(dir, 10.0, true);
    run.bench.program = std::make_unique<OneLoss>(run.ledger, loss);
    const auto sent = run.round(1);
    REQUIRE(sent);
    REQUIRE(sent->loss_changes);
    return *sent->loss_changes;
  };
  const auto steady = released(1.0);
  for (const double loss : {HUGE_VAL, -HUGE_VAL, std::nan("")}) CHECK(released(loss) == steady);
}

TEST_CASE("no estimate is made beyond those of the plan", "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 10.0, true);
  REQUIRE(run.round(1));
  REQUIRE(run.round(1));
  CHECK_THROWS_WITH(run.round(1),
                    ContainsSubstring("an estimate was requested that is not in the plan"));
}

TEST_CASE("an estimate that another process pays for is one of the plan", "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 10.0, true);
  Client maker(0, run.federated, run.wish, run.data, run.keys, serial);
  CHECK_THROWS_AS(maker.take_over_estimate(), PrivacyError);  // it has no right to this yet
  maker.expect_receipts();
  CHECK_NOTHROW(maker.take_over_estimate());
  maker.has_come_to(/*steps=*/2, /*estimates=*/2, /*diverged=*/false);
  CHECK_THROWS_AS(maker.take_over_estimate(), PrivacyError);  // there are two estimates
}

TEST_CASE("a round that is given up is paid for, and never made", "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 10.0, true);
  run.client->give_up(2);
  CHECK(run.lines() == 3);
  CHECK(run.program().seen().empty());
  CHECK(run.client->steps_done() == 2);
  CHECK(run.client->estimates_made() == 1);
  // The next round is charged for the following steps.
  REQUIRE(run.round(1));
  CHECK(core::read_ledger(run.ledger).releases[3].step == 2);
}

TEST_CASE("each client has a key of its own, the first the run's", "[client][privacy]") {
  const RandomKey key = RandomKey::from_seed(1);
  const auto hex = [&](std::size_t number) { return Client::key_of(number, key).public_hex(); };
  CHECK(hex(0) == key.public_hex());
  CHECK(hex(1) != hex(0));
  CHECK(hex(1) != hex(2));
}

TEST_CASE("a client whose estimates are charged otherwise than planned is not begun",
          "[client][privacy]") {
  const TempDir dir;
  Federation run(dir, 10.0, true);
  run.federated.estimate_noise = 1.0;
  Client other(0, run.federated, run.wish, run.data, run.keys, serial);
  CHECK_THROWS_WITH(other.open_ledger(dir.path() / "other.jsonl", nlohmann::json::object()),
                    ContainsSubstring("the charges for estimates differ"));
}
