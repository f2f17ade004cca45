#include "privgrad/partition.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/transform.hpp"
#include "test_random.hpp"

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::Partition;
using privgrad::Transform;
using privgrad::Value;

namespace {

/// A partition together with its transform.
struct Shared {
  privgrad::ComponentPtr<Transform> transform;
  const Partition* partition = nullptr;
  const Partition* operator->() const { return partition; }
};

Shared make(const char* name, Value::Object params = {}) {
  Shared shared{house().create<Transform>(name, Value(std::move(params))), nullptr};
  shared.partition = dynamic_cast<const Partition*>(shared.transform.get());
  REQUIRE(shared.partition != nullptr);
  return shared;
}

/// Returns rows: row i has the label i mod `classes` and two features, i and the label.
Dataset rows_of(std::size_t rows, std::size_t classes) {
  std::vector<float> features, targets;
  for (std::size_t i = 0; i < rows; ++i) {
    targets.push_back(static_cast<float>(i % classes));
    features.push_back(static_cast<float>(i));
    features.push_back(targets.back());
  }
  return Dataset({{2}, classes}, features, targets);
}

std::vector<std::uint64_t> counted(const std::vector<std::uint32_t>& owners,
                                   std::uint64_t clients) {
  std::vector<std::uint64_t> sizes(clients, 0);
  for (const std::uint32_t owner : owners) ++sizes.at(owner);
  return sizes;
}

std::vector<std::set<float>> labels(const Dataset& data, const std::vector<std::uint32_t>& owners,
                                    std::uint64_t clients) {
  std::vector<std::set<float>> sets(clients);
  for (std::size_t row = 0; row < owners.size(); ++row)
    sets.at(owners[row]).insert(data.targets()[row]);
  return sets;
}

}  // namespace

TEST_CASE("partitions whose sizes follow from counts say them beforehand", "[partition]") {
  for (const char* name : {"iid", "shards"}) {
    for (const std::size_t rows : {100u, 103u, 19u}) {
      INFO(name << ", " << rows << " rows");
      const auto shared = make(name);
      const Dataset data = rows_of(rows, 5);
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const TestRandom random(seed);
        const auto owners = shared->clients_of(data, 7, random);
        REQUIRE(owners.size() == rows);
        CHECK(counted(owners, 7) == shared->sizes(rows, 7, random));
      }
    }
  }
}

TEST_CASE("iid: the labels do not matter", "[partition]") {
  const auto iid = make("iid");
  CHECK_FALSE(iid->looks_at_examples());
  CHECK(iid->clients_of(rows_of(60, 2), 4, TestRandom(1)) ==
        iid->clients_of(rows_of(60, 6), 4, TestRandom(1)));
  CHECK(iid->clients_of(rows_of(60, 2), 4, TestRandom(1)) !=
        iid->clients_of(rows_of(60, 2), 4, TestRandom(2)));
}

TEST_CASE("shards: clients have as many labels as shards, where labels fill whole shards",
          "[partition]") {
  // 200 rows of 10 labels make 20 shards of 10 rows, two per label: a client of two shards has one
  // label or two.
  const auto shards = make("shards");
  CHECK(shards->looks_at_examples());
  const Dataset data = rows_of(200, 10);
  const auto owners = shards->clients_of(data, 10, TestRandom(4));
  std::size_t of_two = 0;
  for (const auto& set : labels(data, owners, 10)) {
    CHECK(set.size() <= 2);
    of_two += set.size() == 2 ? 1 : 0;
  }
  CHECK(of_two >= 5);  // both shards are of one label: probability 1 in 19 for each client
}

TEST_CASE("dirichlet: a small alpha gives few labels, a large one all", "[partition]") {
  const Dataset data = rows_of(2000, 10);
  const auto mean_labels = [&](double alpha) {
    const auto shared = make("dirichlet", {{"alpha", alpha, {}}});
    CHECK(shared->looks_at_examples());
    CHECK(shared->sizes(2000, 5, TestRandom(1)).empty());
    const auto owners = shared->clients_of(data, 5, TestRandom(1));
    std::size_t sum = 0;
    for (const auto& set : labels(data, owners, 5)) sum += set.size();
    return static_cast<double>(sum) / 5.0;
  };
  CHECK(mean_labels(0.05) < 6.0);
  CHECK(mean_labels(100.0) == 10.0);
}

TEST_CASE("dirichlet: the shares of a label have the mean and variance of the distribution",
          "[partition]") {
  // Dir(alpha, ..., alpha) of M parts: mean 1/M, variance (M-1)/(M^2 (M alpha + 1)). 400 draws: the
  // standard error of the mean share is below 0.012, and the variance's is below 7 % (measured with
  // another generator); the bounds are 4 standard errors, with false alarms below 1e-4.
  const Dataset data = rows_of(1000, 1);
  for (const double alpha : {0.4, 2.0}) {
    const auto shared = make("dirichlet", {{"alpha", alpha, {}}});
    double sum = 0.0, squares = 0.0;
    constexpr int kDraws = 400;
    int made = 0;
    for (int seed = 0; seed < kDraws; ++seed) {
      const auto owners = shared->clients_of(data, 3, TestRandom(static_cast<std::uint64_t>(seed)));
      for (const std::uint64_t size : counted(owners, 3)) {
        const double share = static_cast<double>(size) / 1000.0;
        sum += share;
        squares += share * share;
        ++made;
      }
    }
    const double mean = sum / made, variance = squares / made - mean * mean;
    CHECK_THAT(mean, WithinAbs(1.0 / 3.0, 1e-9));  // the shares add up to 1
    // Draws that leave a client without examples are repeated, which slightly narrows the
    // distribution for small alphas.
    CHECK_THAT(variance, WithinRel(2.0 / (9.0 * (3.0 * alpha + 1.0)), 0.2));
  }
}

TEST_CASE("dirichlet: what cannot be had is said", "[partition]") {
  const auto shared = make("dirichlet", {{"alpha", 0.5, {}}, {"at_least", 30, {}}});
  CHECK_THROWS_WITH(make("dirichlet", {{"alpha", 0.01, {}}, {"at_least", 30, {}}})
                        ->clients_of(rows_of(100, 2), 3, TestRandom(1)),
                    ContainsSubstring("fewer than 30"));
  CHECK_THROWS_WITH(shared->clients_of(rows_of(100, 5), 4, TestRandom(1)),
                    ContainsSubstring("fewer examples than 4 clients with at least 30 each need"));
  const Dataset reals({{1}, 0}, {1.0f, 2.0f}, {0.1f, 0.2f});
  CHECK_THROWS_AS(shared->clients_of(reals, 2, TestRandom(1)), ConfigError);
}

TEST_CASE("by_column: each declared value is a client, and any other value is one client's",
          "[partition]") {
  // The feature is 0, 1, 2, 0, 1, 2 ...
  const auto shared =
      make("by_column", {{"column", 1, {}}, {"values", Value(Value::List{2, 7, 0}), {}}});
  const auto owners = shared->clients_of(rows_of(6, 3), 3, TestRandom(1));
  CHECK(owners == std::vector<std::uint32_t>{2, 0, 0, 2, 0, 0});
  const auto others =
      make("by_column",
           {{"column", 1, {}}, {"values", Value(Value::List{2, 7, 0}), {}}, {"other", 1, {}}});
  CHECK(others->clients_of(rows_of(6, 3), 3, TestRandom(1)) ==
        std::vector<std::uint32_t>{2, 1, 0, 2, 1, 0});
  CHECK_THROWS_WITH(shared->clients_of(rows_of(6, 3), 4, TestRandom(1)),
                    ContainsSubstring("values has 3 entries, and clients is 4"));
  CHECK_THROWS_WITH(
      make("by_column", {{"column", 1, {}}, {"values", Value(Value::List{1, 2, 1}), {}}}),
      ContainsSubstring("values: 1 is there twice"));
  CHECK_THROWS_WITH(
      make("by_column",
           {{"column", 1, {}}, {"values", Value(Value::List{1, 2}), {}}, {"other", 2, {}}}),
      ContainsSubstring("other is client 2, but values names 2"));
  const auto none =
      make("by_column", {{"column", 2, {}}, {"values", Value(Value::List{0, 1, 2}), {}}});
  CHECK_THROWS_WITH(none->clients_of(rows_of(9, 3), 3, TestRandom(1)),
                    ContainsSubstring("examples have 2 features"));
}
