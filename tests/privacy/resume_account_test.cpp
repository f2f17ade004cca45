#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "resumed_run.hpp"
#include "trials.hpp"

using namespace resumed;

// ---- accounts that pay for interrupted runs

namespace {

/// A run of 24 steps on all rows that an account pays for; the account cannot pay for two such
/// runs.
struct Paid {
  Place place;
  fs::path file = place.manifest().parent_path() / "rows.account";

  explicit Paid(const Overrides& more = {"sampler=full_batch", "privacy.accountant=zcdp"}) {
    core::DataAccount::open(file, {.name = "rows",
                                   .adjacency = Adjacency::zero_out,
                                   .target_epsilon = 5.0,
                                   .target_delta = 1e-5,
                                   .accountant = "zcdp"});
    Overrides all{"privacy.account=" + file.string(), "privacy.adjacency=zero_out", "mode=release",
                  "data.size=60"};
    all.insert(all.end(), more.begin(), more.end());
    const End end = place.begin(all);
    INFO(place.last_words());
    REQUIRE(end.code == 0);
  }

  /// Returns the only entry.
  core::AccountEntry entry() const {
    const core::DataAccount account(file);
    REQUIRE(account.entries().size() == 1);
    return account.entries().front();
  }

  /// Returns the cost of this many steps, according to the plan.
  double epsilon_of_steps(std::int64_t steps) const {
    const core::Manifest same = core::load_manifest(place.run() / "manifest.yaml", {}, house());
    return epsilon_of(Event::self_composed(steps, core::make_plan(same).charges[0].cost));
  }

  static double epsilon_of(const Event& cost) {
    const auto filter = house().create<Accountant>("zcdp", {});
    filter->start(Adjacency::zero_out);
    filter->compose(cost, 1);
    return filter->epsilon(1e-5).value;
  }

  /// Whether the account would pay for another such run.
  bool pays_for_another() const {
    core::DataAccount account(file);
    const auto filter = house().create<Accountant>("zcdp", {});
    return account.spent(*filter, entry().reserved).value <= account.terms().target_epsilon;
  }
};

}  // namespace

TEST_CASE("killed and resumed, a run keeps its reservation, spends it once, and closes it",
          "[resume][account][privacy][long]") {
  const std::uint64_t stride = trials(10, "operations of a paid run") >= 10 ? 1 : 6;
  std::uint64_t operation = 1;
  for (bool was_killed = true; was_killed; operation += stride) {
    INFO("operation " << operation);
    const Paid paid;
    const double all = paid.epsilon_of_steps(24);
    CHECK(Paid::epsilon_of(paid.entry().reserved) == all);
    CHECK_FALSE(paid.entry().settled);
    was_killed = paid.place.resume({.operation = operation}).killed;
    if (goes_on(paid.place)) {
      CHECK_FALSE(paid.entry().settled);
      CHECK_FALSE(paid.pays_for_another());
      const End end = paid.place.resume();
      INFO(paid.place.last_words());
      REQUIRE(end.code == 0);
    }
    // A run that is killed after its last file may have had no time to report its cost: then its
    // whole reservation counts.
    CHECK((paid.entry().settled || was_killed));
    CHECK(Paid::epsilon_of(paid.entry().cost()) == all);
    if (paid.entry().settled) CHECK(paid.entry().status == "completed");
    CHECK(paid.place.resume().code == 2);
  }
  CHECK(operation > 40);
}

namespace {

std::int64_t steps_charged(const Place& place) {
  return static_cast<std::int64_t>(core::read_ledger(place.run() / "ledger.jsonl").releases.size());
}

}  // namespace

TEST_CASE("of a run that is ended early nothing comes back, since a copy may have gone further",
          "[resume][account][privacy]") {
  const Paid paid;
  REQUIRE(paid.place.resume({.operation = 40}).killed);
  REQUIRE(goes_on(paid.place));
  const Place copy(paid.place, 0), late(paid.place, 0);
  // The copy continues for nine tenths of the run, and is killed without reporting anything.
  while (steps_charged(copy) < 22) REQUIRE(copy.resume({.operation = 30}).killed);
  REQUIRE(goes_on(copy));

  const End end = paid.place.resume({.finish = true});
  INFO(paid.place.last_words());
  REQUIRE(end.code == 0);
  REQUIRE(steps_charged(paid.place) > 0);
  REQUIRE(steps_charged(paid.place) < steps_charged(copy));
  REQUIRE(paid.entry().settled);
  CHECK(paid.entry().status == "interrupted");
  CHECK(*paid.entry().settled == paid.entry().reserved);
  CHECK_FALSE(paid.pays_for_another());
  // A settled reservation pays for nothing more in any copy.
  for (const Place* other : {&copy, &late}) {
    const std::string ledger = read_file(other->run() / "ledger.jsonl");
    CHECK(other->resume().code == 3);
    CHECK_THAT(other->last_words(), ContainsSubstring("holds no open reservation"));
    CHECK(read_file(other->run() / "ledger.jsonl") == ledger);
  }
}

TEST_CASE("a run says in its account that it goes on before it is charged for anything",
          "[resume][account][privacy]") {
  const Paid paid;
  CHECK(paid.entry().status == "begun");
  const std::string ledger = read_file(paid.place.run() / "ledger.jsonl");
  for (std::uint64_t operation = 1; !paid.entry().resumed; ++operation) {
    REQUIRE(operation < 40);
    CHECK(read_file(paid.place.run() / "ledger.jsonl") == ledger);
    REQUIRE(paid.place.resume({.operation = operation}).killed);
  }
  CHECK(steps_charged(paid.place) == 0);
}

TEST_CASE("a federated run keeps its reservation through kills, and closes it for its last client",
          "[resume][federated][account][privacy]") {
  const Overrides federated{"sampler=full_batch", "privacy.accountant=zcdp", "steps=40",
                            "checkpoint.every_steps=2",
                            "federated={clients: 3, rounds: 8, local_iterations: 3}"};
  const std::uint64_t operation = GENERATE(30, 60, 90);
  INFO("operation " << operation);
  const Paid paid(federated);
  const double all = Paid::epsilon_of(paid.entry().reserved);
  CHECK(all > 0.0);
  REQUIRE(paid.place.resume({.operation = operation}).killed);
  REQUIRE(goes_on(paid.place));
  CHECK_FALSE(paid.entry().settled);
  CHECK_FALSE(paid.pays_for_another());

  // Each client has its own examples, so the data are charged for only one client.
  const Place ended(paid.place, 0);
  const End end = paid.place.resume();
  INFO(paid.place.last_words());
  REQUIRE(end.code == 0);
  REQUIRE(paid.entry().settled);
  CHECK(paid.entry().status == "completed");
  double most = 0.0;
  for (const fs::path& ledger : paid.place.ledgers()) {
    const auto releases = core::read_ledger(ledger).releases;
    if (!releases.empty()) most = std::max(most, releases.back().epsilon);
  }
  CHECK_THAT(Paid::epsilon_of(*paid.entry().settled), WithinRel(most, 1e-12));
  CHECK(Paid::epsilon_of(*paid.entry().settled) <= all);
  // A copy cannot spend a settled reservation again.
  CHECK(ended.resume().code == 3);
  CHECK_THAT(ended.last_words(), ContainsSubstring("holds no open reservation"));
}
