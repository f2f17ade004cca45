// dp_fed_avg with clients that take part whenever they may, with a minimum number of rounds in
// between.
#include <cmath>
#include <map>
#include <set>

#include "federated.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/correlated_plan.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "test_components.hpp"

namespace federated {

namespace {

/// In most rounds, some of the 8 clients come too early.
const Overrides kSeparated{"federated.clients=8",
                           "federated.rounds=12",
                           "federated.aggregation=dp_fed_avg",
                           "federated.client_clip_norm=1",
                           "federated.participation={kind: poisson, sample_rate: 0.6}",
                           "federated.min_separation=2",
                           "aggregator={kind: matrix, bands: 3}",
                           "privacy.target_epsilon=30",
                           "privacy.adjacency=zero_out",
                           "privacy.accountant=gdp"};

/// Draws all clients in every round.
class Eager final : public Sampler {
 public:
  explicit Eager(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    for (batch.clear(); batch.size() < rows;)
      batch.push_back(static_cast<std::uint32_t>(batch.size()));
  }

 private:
  std::uint64_t size_ = 0;
};

const Catalog& eager_house() {
  static const Catalog catalog = house_with({offer<Sampler, Eager>("eager")});
  return catalog;
}

std::string refusal(const Overrides& more) {
  try {
    Experiment experiment(kBase, with(kSeparated, more));
    experiment.plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "";
}

std::vector<std::uint64_t> numbers(const std::vector<Json>& rounds, const char* key) {
  std::vector<std::uint64_t> all;
  for (const Json& round : rounds) all.push_back(round.at(key));
  return all;
}

}  // namespace

TEST_CASE("minimum separation: who comes early is refused, and everybody else takes part",
          "[federated][privacy]") {
  Experiment experiment(kBase, kSeparated);
  const core::Plan& plan = experiment.plan();
  // The same draws, with the rule applied separately.
  const core::Components made = start_components(plan);
  std::map<std::uint32_t, std::uint64_t> last;  // plus 1
  std::vector<std::uint64_t> in, out;
  for (std::uint64_t round = 0; round < 12; ++round) {
    std::vector<std::uint32_t> drawn;
    made.sampler->sample(round, 8, *plan.correlated->order->random, drawn);
    in.push_back(0);
    for (const std::uint32_t client : drawn) {
      if (last[client] != 0 && round + 1 < last[client] + 3) continue;
      last[client] = round + 1;
      ++in.back();
    }
    out.push_back(drawn.size() - in.back());
  }
  const auto result = experiment.run(2);
  CHECK(result.status == core::RunStatus::completed);
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  CHECK(numbers(rounds, "clients") == in);
  CHECK(numbers(rounds, "refused") == out);
  std::uint64_t refused = 0;
  for (const std::uint64_t one : out) refused += one;
  CHECK(refused > 5);
  CHECK(result.summary.at("federated").at("refused") == refused);
}

TEST_CASE("minimum separation: rounds are counted between, and the most of them are kept to",
          "[federated][privacy]") {
  const auto clients_in = [](const Overrides& more) {
    Experiment experiment(kBase, with(with(kSeparated, {"federated.participation=eager"}), more),
                          eager_house());
    experiment.run();
    return numbers(lines_of(experiment.run_dir() / "rounds.jsonl"), "clients");
  };
  using Clients = std::vector<std::uint64_t>;
  CHECK(clients_in({}) == Clients{8, 0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 0});
  CHECK(clients_in({"federated.max_participations=2"}) ==
        Clients{8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(clients_in({"federated.min_separation=0", "federated.max_participations=3"}) ==
        Clients{8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("minimum separation: what is charged is the rule's, whoever comes",
          "[federated][privacy]") {
  Experiment experiment(kBase, kSeparated);
  const core::Plan& plan = experiment.plan();
  REQUIRE(plan.correlated->order->separation);
  CHECK(*plan.correlated->order->separation == core::Separation{12, 2});
  CHECK(plan.charges_are_bounds);
  CHECK_FALSE(plan.federated->participation_is_secret);
  // c = 1 / (1 + a_1 z + a_2 z^2) decreases, and the worst are rounds 0, 3, 6 and 9.
  const std::vector<double>& a = plan.optimized;
  REQUIRE(a.size() == 3);
  CHECK(a[1] < -0.1);  // with separated clients
  std::vector<double> c{1.0}, moved(12, 0.0);
  while (c.size() < 12) {
    const std::size_t d = c.size();
    c.push_back(-a[1] * c[d - 1] - (d > 1 ? a[2] * c[d - 2] : 0.0));
    REQUIRE(c[d] <= c[d - 1]);
  }
  double expected = 0.0;
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t t = 0; t <= row; t += 3) moved[row] += c[row - t];
    expected += moved[row] * moved[row];
  }
  expected /= plan.noise_multiplier.front() * plan.noise_multiplier.front();
  CHECK(std::fabs(plan.correlated->order->cost.worst_after.back() / expected - 1.0) < 1e-11);
  double charged = 0.0;  // the squared sensitivity of all Gaussians
  for (const core::Charge& charge : plan.charges) {
    if (const auto* release = std::get_if<GaussianEvent>(&charge.cost.kind()))
      charged += 1.0 / (release->noise_multiplier * release->noise_multiplier);
  }
  CHECK(charged >= expected);
  CHECK(charged < expected * (1.0 + 1e-11));
  // The charge is the same whether other clients take part in the same rounds or in different ones;
  // fewer rounds cost less.
  const auto epsilon = [](const Overrides& more, const Catalog& catalog = house()) {
    Experiment other(kBase, with(kSeparated, more), catalog);
    return other.plan().epsilon().value;
  };
  const double first = plan.epsilon().value;
  CHECK(epsilon({"seed=2"}) == first);
  CHECK(epsilon({"federated.participation=eager"}, eager_house()) == first);
  CHECK(epsilon({"federated.max_participations=4"}) == first);
  CHECK(epsilon({"federated.max_participations=3"}) < first);
  CHECK(epsilon({"federated.min_separation=3"}) < first);
  CHECK(epsilon({"federated.min_separation=1"}) > first);
  CHECK(epsilon({"privacy.adjacency=replace_one"}) > first);
  CHECK(epsilon({"privacy.adjacency=add_or_remove_one"}) == first);
}

TEST_CASE("minimum separation: the statement says who was refused, and what is charged",
          "[federated][privacy]") {
  Experiment experiment(kBase, kSeparated);
  const auto result = experiment.run();
  const Json& correlated = result.statement.at("mechanism").at("correlated");
  CHECK(correlated.at("min_separation") == 2);
  CHECK(correlated.at("max_participations") == 4);
  CHECK_THAT(
      result.statement.dump(),
      ContainsSubstring(
          "at most 4 of the planned rounds, with at least 2 others between any two of them"));
}

TEST_CASE("minimum separation: what is not proved is refused, by name", "[federated][privacy]") {
  const std::string apart = "privacy.adjacency=add_or_remove_one";
  CHECK(refusal({apart}).empty());
  CHECK(refusal({apart, "federated.participation={kind: allocation, steps_per_epoch: 3}"}).empty());
  // In a cohort of fixed size, another client takes the place of a missing one.
  CHECK_THAT(refusal({apart, "federated.participation={kind: fixed_size, batch_size: 3}"}),
             ContainsSubstring("fixed_size"));
  CHECK_THAT(refusal({apart, "federated.participation={kind: shuffle, batch_size: 2}"}),
             ContainsSubstring("shuffle"));
  CHECK_THAT(refusal({apart, "federated.participation=full_batch"}),
             ContainsSubstring("federated.min_separation: is given under add_or_remove_one"));
  CHECK(refusal({"federated.participation={kind: fixed_size, batch_size: 3}"}).empty());
  CHECK(refusal({"federated.participation={kind: fixed_size, batch_size: 3}",
                 "privacy.adjacency=replace_one"})
            .empty());
  CHECK(refusal({"federated.participation={kind: shuffle, batch_size: 2}"}).empty());
  for (const char* other : {"gaussian", "tree"}) {
    CHECK_THAT(refusal({std::string("aggregator=") + other}),
               ContainsSubstring(std::string("not for ") + other + "; use matrix"));
  }
  CHECK_THAT(refusal({"aggregator={kind: matrix, strategy: coefficients, coefficients: [1, -9]}",
                      "federated.rounds=2000", "steps=6000"}),
             ContainsSubstring("no finite cost is proved"));
}

TEST_CASE("minimum separation: who takes part stays secret where a client may not be there",
          "[federated][privacy]") {
  const Overrides released{"mode=release", "data.size=400"};
  std::string yaml = kBase;
  yaml.erase(yaml.find("seed: 1\n"), 8);
  for (const bool is_secret : {true, false}) {
    const std::string adjacency =
        std::string("privacy.adjacency=") + (is_secret ? "add_or_remove_one" : "zero_out");
    Experiment experiment(yaml, with(with(kSeparated, released), {adjacency}));
    experiment.run();
    for (const Json& round : lines_of(experiment.run_dir() / "rounds.jsonl")) {
      CHECK(round.contains("clients") != is_secret);
      CHECK(round.contains("refused") != is_secret);
    }
  }
}

TEST_CASE("minimum separation: keys that say nothing are refused", "[federated]") {
  const auto problem = [](const Overrides& more) {
    try {
      Experiment experiment(kBase, more);
      experiment.plan();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(problem({"federated.min_separation=2"}),
             ContainsSubstring("only aggregation dp_fed_avg uses it"));
  CHECK_THAT(problem({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                      "federated.max_participations=2"}),
             ContainsSubstring("is given without min_separation"));
}

}  // namespace federated
