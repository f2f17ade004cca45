#include "privgrad/plan/account_plan.hpp"

#include <functional>
#include <memory>

#include "counted_manifest.hpp"
#include "privgrad/plan/federated_plan.hpp"

using namespace privgrad;
using core::AccountUse;
using core::Manifest;
using core::Plan;

namespace {

/// A run of one Gaussian release, and an account with the same terms that pays for it.
struct Paid {
  Manifest manifest = counted();  // adjacency: zero_out
  Plan plan;

  Paid() {
    AccountUse account;
    account.terms = {.name = "patients",
                     .adjacency = Adjacency::zero_out,
                     .unit = PrivacyUnit::example,
                     .target_epsilon = 3.0,
                     .target_delta = 1e-5,
                     .accountant = "exact"};
    account.filter = counted({"privacy.accountant=exact"}).accountant;
    manifest.account = account;
    plan.manifest = &manifest;
    plan.event = Event::gaussian(1.0);
  }
};

void check_changed(const std::function<void(Paid&)>& change) {
  Paid paid;
  change(paid);
  core::check_account(paid.plan);
}

}  // namespace

TEST_CASE("an account pays for a run of its own terms only, and says which differ",
          "[account][privacy]") {
  CHECK_NOTHROW(check_changed([](Paid&) {}));
  CHECK_THROWS_WITH(
      check_changed([](Paid& run) { run.manifest.adjacency = Adjacency::replace_one; }),
      ContainsSubstring("privacy.account: was opened for zero_out, but the run is for "
                        "replace_one"));
  CHECK_THROWS_WITH(check_changed([](Paid& run) { run.plan.unit = PrivacyUnit::client; }),
                    ContainsSubstring("privacy.account: was opened to protect each example"));
  CHECK_THROWS_WITH(check_changed([](Paid& run) { run.manifest.noise_off = true; }),
                    ContainsSubstring("privacy.account: cannot pay for a run without noise"));
}

TEST_CASE("an account pays for no noise that others know, and no output that is not paid for",
          "[account][privacy]") {
  CHECK_THROWS_WITH(check_changed([](Paid& run) { run.manifest.seed = 1; }),
                    ContainsSubstring("seed: makes noise that anyone with the seed can remove"));
  CHECK_THROWS_WITH(check_changed([](Paid& run) {
                      run.plan.unaccounted.push_back({"pca", "m.yaml:3:1"});
                    }),
                    ContainsSubstring("m.yaml:3:1: error: privacy.account pays only for runs"));
}

TEST_CASE("an account needs a filter, with a proof about every owner's cost",
          "[account][privacy]") {
  CHECK_THROWS_WITH(
      check_changed([](Paid& run) { run.manifest.account->filter = run.manifest.accountant; }),
      ContainsSubstring("counting, which is not a privacy filter"));
  const Event unproved = Event::laplace(1.0);
  CHECK_THROWS_WITH(check_changed([&](Paid& run) { run.plan.event = unproved; }),
                    ContainsSubstring("cannot pay for this run: counts Gaussians only"));
  // With fed_avg the account is asked about each client's own event, not about the plan's.
  const auto with_client = [](Paid& run, const Event& of_client) {
    auto client = std::make_shared<Plan>();
    client->event = of_client;
    auto federated = std::make_shared<core::FederatedPlan>();
    federated->clients.push_back({.plan = client, .rows = {0}, .labels = {}});
    run.plan.federated = federated;
  };
  CHECK_THROWS_AS(check_changed([&](Paid& run) { with_client(run, unproved); }), PrivacyError);
  CHECK_NOTHROW(check_changed([&](Paid& run) {
    run.plan.event = unproved;
    with_client(run, Event::gaussian(2.0));
  }));
}

TEST_CASE("a run without an account has no facts of one", "[account]") {
  Paid run;
  CHECK(core::account_facts(run.manifest.account)->name == "patients");
  CHECK(core::account_facts(run.manifest.account)->target_epsilon == 3.0);
  run.manifest.account.reset();
  CHECK_FALSE(core::account_facts(run.manifest.account));
  CHECK_NOTHROW(core::check_account(run.plan));
}
