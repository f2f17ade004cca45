#include "privgrad/trust/participation.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "linear_mechanism.hpp"
#include "privgrad/accountant.hpp"
#include "test_random.hpp"

using namespace privgrad;
using core::Participation;

namespace {

using Members = std::vector<std::uint32_t>;

ComponentPtr<Sampler> sampler(const char* name, Value::Object params, std::uint64_t rows,
                              std::uint64_t steps) {
  auto made = house().create<Sampler>(name, std::move(params));
  made->start({.dataset_size = rows, .steps = steps, .adjacency = Adjacency::replace_one});
  return made;
}

/// Returns the worst cost of an example if each takes part once in every epoch of `batches`, always
/// in the same batch.
double in_fixed_order(const LinearMechanism& mechanism, std::uint64_t batches) {
  const auto order = sampler("sequential", Value::Object{{"batch_size", Value(1), {}}}, batches,
                             mechanism.steps());
  const auto all = squared_sensitivities(
      mechanism,
      Participation::drawn(dynamic_cast<PublicOrder&>(*order), mechanism.steps(), TestRandom(1)));
  return *std::max_element(all.begin(), all.end());
}

double rdp_epsilon(double squared, double sigma, Value::Object params = {}) {
  const auto made = house().create<Accountant>("rdp", std::move(params));
  made->start(Adjacency::zero_out);
  made->compose(Event::gaussian(sigma / std::sqrt(squared)), 1);
  return made->epsilon(1e-5).value;
}

LinearMechanism trees(const std::vector<std::uint64_t>& steps, bool completed) {
  std::vector<LinearMechanism> parts;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::uint64_t full = 1;
    while (full < steps[i]) full *= 2;
    parts.push_back(
        LinearMechanism::tree(steps[i], completed && i + 1 < steps.size() ? full : steps[i]));
  }
  return LinearMechanism::in_sequence(parts);
}

}  // namespace

TEST_CASE("participation: by hand, on a tree of four steps", "[participation]") {
  // Group 0 in steps 0 and 1: two leaves, and 2^2 in the pair and in the root. Group 1 only in step
  // 2.
  const Participation order(3, {{0}, {0}, {1}, {}});
  CHECK(squared_sensitivities(LinearMechanism::tree(4), order) ==
        std::vector<double>{10.0, 3.0, 0.0});
  CHECK(order.counts() == std::vector<std::uint64_t>{2, 1, 0});
}

TEST_CASE("participation: every example of permuted epochs, against its own set of steps",
          "[participation]") {
  // squared_sensitivity() hashes rows for one example's steps; the tested code iterates rows.
  constexpr std::uint64_t kRows = 30, kSteps = 4 * 8;  // epochs of 8 batches, the last one smaller
  const auto shuffle =
      sampler("shuffle", Value::Object{{"batch_size", Value(4), {}}}, kRows, kSteps);
  const TestRandom random(3);
  const auto order = Participation::drawn(dynamic_cast<PublicOrder&>(*shuffle), kSteps, random);
  std::vector<std::vector<std::uint64_t>> steps_of(kRows);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    Members batch;
    shuffle->sample(step, kRows, random, batch);
    for (const std::uint32_t row : batch) steps_of[row].push_back(step);
  }
  std::vector<double> momentum{1.0};
  while (momentum.size() < kSteps) momentum.push_back(-0.9 * momentum.back());
  for (const auto& mechanism : {LinearMechanism::tree(kSteps), LinearMechanism::toeplitz(momentum),
                                trees({12, 20}, true)}) {
    const auto all = squared_sensitivities(mechanism, order);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      CHECK_THAT(all[row], WithinRel(squared_sensitivity(mechanism, steps_of[row]), 1e-13));
    }
  }
}

// DP-FTRL (Kairouz et al. 2021): 100 batches per epoch, noise 46.3, delta 1e-5; the authors' code
// gives these epsilons. DP-FTRL releases all nodes.
TEST_CASE("participation: the known epsilons of multi-epoch trees", "[participation]") {
  const std::vector<std::uint64_t> restarts(5, 2000);
  CHECK_THAT(rdp_epsilon(in_fixed_order(trees({2000}, false), 100), 46.3), WithinRel(1.905, 2e-3));
  CHECK_THAT(rdp_epsilon(in_fixed_order(trees(restarts, false), 100), 46.3),
             WithinRel(4.705, 1e-3));
  CHECK_THAT(rdp_epsilon(in_fixed_order(trees(restarts, true), 100), 46.3), WithinRel(6.922, 1e-3));
}

// Exhaustive search and 50-digit arithmetic, see tests/golden.
TEST_CASE("participation: every golden tree of several epochs", "[participation][golden]") {
  const auto golden = golden_values();
  int compared = 0;
  for (const auto& entry : golden.at("entries")) {
    const auto& given = entry.at("inputs");
    INFO(entry.at("id").get<std::string>());
    if (entry.at("kind") == "dpftrl_tree") {
      const std::uint64_t batches = given.at("batches_per_epoch");
      auto steps = given.at("epochs_between_restarts").get<std::vector<std::uint64_t>>();
      for (std::uint64_t& count : steps) count *= batches;
      CHECK(in_fixed_order(trees(steps, given.at("tree_completion")), batches) ==
            entry.at("expected").at("sens_sq"));
      ++compared;
    }
    if (entry.at("kind") == "tree_single_epoch") {
      const std::uint64_t steps = given.at("steps");
      CHECK(in_fixed_order(LinearMechanism::tree(steps), steps) ==
            entry.at("expected").at("sens_sq"));
      ++compared;
    }
  }
  CHECK(compared > 4);
}

TEST_CASE("participation: rows that an order does not name are seen", "[participation][privacy]") {
  const auto sequential =
      sampler("sequential", Value::Object{{"batch_size", Value(10), {}}}, 25, 3);
  auto& order = dynamic_cast<PublicOrder&>(*sequential);
  const auto drawn = Participation::drawn(order, 3, TestRandom(1));
  CHECK(drawn.covers(0, Members{0, 9}, order));
  CHECK_FALSE(drawn.covers(0, Members{0, 10}, order));
  CHECK(drawn.covers(2, Members{20, 24}, order));
  CHECK_FALSE(drawn.covers(2, Members{19}, order));
  CHECK(drawn.covers(1, Members{}, order));
}

TEST_CASE("participation: an order that is none is the sampler's mistake", "[participation]") {
  CHECK_THROWS_WITH(Participation(3, {{0}, {3}}), ContainsSubstring("group 3 of 3 in step 1"));
  CHECK_THROWS_WITH(Participation(3, {{0, 1, 0}}), ContainsSubstring("group 0 of 3 twice"));
  CHECK_THROWS_AS(Participation(3, {{0, 1, 0}}), PluginError);
}

TEST_CASE("orders without a proof are refused", "[participation][privacy]") {
  const auto groups_under = [](const char* name, Value::Object params, Adjacency adjacency) {
    const auto made = house().create<Sampler>(name, std::move(params));
    made->start({.dataset_size = 20, .steps = 5, .adjacency = adjacency});
    const auto* order = dynamic_cast<const PublicOrder*>(made.get());
    return order == nullptr ? 0 : order->groups();
  };
  const Value::Object two{{"batch_size", Value(2), {}}};
  Value::Object unamplified = two;
  unamplified.push_back({"amplification", Value(false), {}});
  for (const Adjacency adjacency : {Adjacency::replace_one, Adjacency::zero_out}) {
    CHECK(groups_under("shuffle", two, adjacency) == 20);
    CHECK(groups_under("sequential", two, adjacency) == 10);
    CHECK(groups_under("fixed_size", unamplified, adjacency) == 20);
    CHECK_THROWS_AS(groups_under("fixed_size", two, adjacency), PrivacyError);
  }
  CHECK(groups_under("full_batch", {}, Adjacency::add_or_remove_one) == 1);
  for (const auto& [name, params] : {std::pair{"shuffle", two}, std::pair{"sequential", two},
                                     std::pair{"fixed_size", unamplified}}) {
    CHECK_THROWS_AS(groups_under(name, params, Adjacency::add_or_remove_one), PrivacyError);
  }
  // The coins of poisson are secret, and the amplification depends on that.
  CHECK(groups_under("poisson", Value::Object{{"sample_rate", Value(0.1), {}}},
                     Adjacency::zero_out) == 0);
}
