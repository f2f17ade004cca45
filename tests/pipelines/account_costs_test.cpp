// The cost that a run reserves in an account.
#include "privgrad/plan/account_plan.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/trust/data_account.hpp"
#include "verify.hpp"

namespace verify {

TEST_CASE("an account reserves what the client costs that costs most, also where epsilon is 0",
          "[federated][account][privacy]") {
  // 61 examples for three clients: the first client has one more, and therefore a smaller sampling
  // rate.
  Experiment experiment(kFederated,
                        {"seed=null", "mode=release", "data.rows=61", "data.size=61",
                         "sampler={kind: poisson, batch_size: 4}", "privacy.adjacency=zero_out",
                         "privacy.account=rows.account", "schedules.noise_multiplier=20"});
  core::DataAccount::open(experiment.dir() / "rows.account",
                          {.name = "rows",
                           .adjacency = Adjacency::zero_out,
                           .unit = PrivacyUnit::example,
                           .target_epsilon = 6.0,
                           .target_delta = 0.4,
                           .accountant = "{kind: rdp_filter, order: 16}"});
  const core::Plan& plan = experiment.plan();
  const auto event_of = [&](std::size_t client) {
    return plan.federated->clients.at(client).plan->event;
  };
  REQUIRE(event_of(0) != event_of(1));
  REQUIRE(event_of(1) == event_of(2));
  const core::Reservation made(plan, experiment.run_dir());
  const core::DataAccount account(experiment.dir() / "rows.account");
  REQUIRE(account.entries().size() == 1);
  CHECK(account.entries().front().reserved == event_of(1));
  // At the account's delta, no client costs anything.
  const auto filter = core::make_guard(plan.manifest->account->filter);
  CHECK(account.spent(*filter).value == 0.0);
}

TEST_CASE("verification does not ask for the plugin of a run's account, which decides no number",
          "[account][verify]") {
  Experiment experiment(kCentral,
                        {"seed=null", "mode=release", "data.size=200", "privacy.accountant=pld",
                         "privacy.adjacency=add_or_remove_one", "privacy.account=rows.account"});
  core::DataAccount::open(experiment.dir() / "rows.account",
                          {.name = "rows",
                           .adjacency = Adjacency::add_or_remove_one,
                           .unit = PrivacyUnit::example,
                           .target_epsilon = 500.0,
                           .target_delta = 1e-5,
                           .accountant = "{kind: rdp_filter, order: 16}"});
  experiment.run();
  const core::Verification verification = check(experiment.run_dir());
  CHECK(verify::all_of(verification.problems).empty());
  CHECK_THAT(verify::all_of(verification.notes), !ContainsSubstring("not the files"));
}

}  // namespace verify
