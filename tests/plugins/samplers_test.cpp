#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/sampler.hpp"
#include "test_random.hpp"

using privgrad::Adjacency;
using privgrad::Event;
using privgrad::Sampler;
using privgrad::Value;

namespace {

std::vector<std::uint32_t> draw(Sampler& sampler, std::uint64_t step, std::size_t rows,
                                std::uint64_t seed = 1) {
  std::vector<std::uint32_t> batch{99};  // the previous content must not matter
  sampler.sample(step, rows, TestRandom(seed), batch);
  return batch;
}

}  // namespace

TEST_CASE("full_batch: every row, charged in full", "[sampler]") {
  const auto sampler = house().create<Sampler>("full_batch", Value::Object{});
  sampler->start({.dataset_size = 4, .steps = 2, .adjacency = Adjacency::zero_out});
  CHECK(sampler->expected_batch_size(0) == 4.0);
  CHECK(draw(*sampler, 0, 4) == std::vector<std::uint32_t>{0, 1, 2, 3});
  const std::vector<Event> releases{Event::gaussian(1.0), Event::gaussian(2.0)};
  CHECK(sampler->charges(releases) == releases);
}

TEST_CASE("full_batch: the divisor is the plan's even when the rows are not", "[sampler]") {
  const auto sampler = house().create<Sampler>("full_batch", Value::Object{});
  SECTION("add_or_remove_one: the size is private, so it may differ") {
    sampler->start({.dataset_size = 4, .steps = 1, .adjacency = Adjacency::add_or_remove_one});
    CHECK(draw(*sampler, 0, 5).size() == 5);
    CHECK(draw(*sampler, 0, 0).empty());
    CHECK(sampler->expected_batch_size(0) == 4.0);
  }
  SECTION("the others: the size is public, so it may not") {
    for (const Adjacency adjacency : {Adjacency::replace_one, Adjacency::zero_out}) {
      sampler->start({.dataset_size = 4, .steps = 1, .adjacency = adjacency});
      CHECK_THROWS_AS(draw(*sampler, 0, 3), privgrad::ConfigError);
    }
  }
  SECTION("an empty data set has no divisor") {
    CHECK_THROWS_AS(
        sampler->start({.dataset_size = 0, .steps = 1, .adjacency = Adjacency::zero_out}),
        privgrad::ConfigError);
  }
}

namespace {

auto make(const char* name, const Value& params, std::uint64_t size, Adjacency adjacency,
          std::uint64_t steps = 100) {
  auto sampler = house().create<Sampler>(name, params);
  sampler->start({.dataset_size = size, .steps = steps, .adjacency = adjacency});
  return sampler;
}

Value rate(double q) { return Value::Object{{"sample_rate", q, {}}}; }
Value size(int n) { return Value::Object{{"batch_size", n, {}}}; }
Value plain(const char* key, Value value) {
  return Value::Object{{key, value, {}}, {"amplification", false, {}}};
}

/// Lane i of the k-th draw is binary digit k of i/8: the U of eight rows take all multiples of
/// 1/8.
class Eighths final : public privgrad::RandomSource {
 public:
  std::unique_ptr<privgrad::RandomStream> stream(std::uint64_t) const override {
    return std::make_unique<Stream>();
  }

 private:
  class Stream final : public privgrad::RandomStream {
   public:
    std::uint64_t uniform_below(std::uint64_t bound) override {
      std::uint64_t draw = 0;
      for (std::uint64_t row = 0; row < 8; ++row) draw |= ((row >> (2 - digit_)) & 1) << row;
      digit_ = std::min(digit_ + 1, 2);
      REQUIRE(draw < bound);
      return draw;
    }
    double uniform() override { throw std::logic_error("not scripted"); }
    void fill_normal(std::span<float>) override { throw std::logic_error("not scripted"); }

   private:
    int digit_ = 0;
  };
};

constexpr Adjacency kAll[] = {Adjacency::add_or_remove_one, Adjacency::replace_one,
                              Adjacency::zero_out};

}  // namespace

TEST_CASE("poisson: a row wins exactly when its uniform number is below q", "[sampler]") {
  for (int eighths = 1; eighths <= 8; ++eighths) {
    const auto sampler = make("poisson", rate(eighths / 8.0), 8, Adjacency::zero_out);
    std::vector<std::uint32_t> batch;
    sampler->sample(0, 8, Eighths(), batch);
    std::vector<std::uint32_t> expected(static_cast<std::size_t>(eighths));
    for (std::uint32_t row = 0; row < expected.size(); ++row) expected[row] = row;
    CHECK(batch == expected);  // U = row/8 < eighths/8
  }
}

// The bounds are 6 standard deviations of nearly normal statistics: a false alarm in one of the 12
// comparisons has a probability below 1e-7, and the seed is fixed.
TEST_CASE("poisson: counts, rows and neighbouring rows behave as independent coins", "[sampler]") {
  constexpr std::size_t kRows = 700;  // 11 groups of 63 lanes and a rest
  constexpr std::size_t kSteps = 3000;
  for (const double q : {0.013, 0.5, 0.97}) {
    INFO("q " << q);
    const auto sampler = make("poisson", rate(q), kRows, Adjacency::add_or_remove_one);
    std::vector<double> per_row(kRows);
    double total = 0.0, squares = 0.0, pairs = 0.0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      const auto batch = draw(*sampler, step, kRows, 20250101);
      REQUIRE(std::is_sorted(batch.begin(), batch.end()));
      const double centred = static_cast<double>(batch.size()) - q * kRows;
      total += centred;
      squares += centred * centred;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        per_row.at(batch[i]) += 1.0;
        if (i > 0 && batch[i] == batch[i - 1] + 1) pairs += 1.0;
      }
    }
    const double variance = q * (1.0 - q) * kRows;  // variance of one step's count
    CHECK(std::abs(total) < 6.0 * std::sqrt(variance * kSteps));
    CHECK(std::abs(squares / kSteps / variance - 1.0) < 6.0 * std::sqrt(2.0 / kSteps) * 1.1);
    double chi2 = 0.0;  // kRows degrees of freedom
    for (const double count : per_row) {
      chi2 += (count - kSteps * q) * (count - kSteps * q) / (kSteps * q * (1.0 - q));
    }
    CHECK(std::abs(chi2 - kRows) < 6.0 * std::sqrt(2.0 * kRows));
    // Pairs in one step: mean (n-1) q^2; variance as for overlapping products of coins.
    const double n1 = kRows - 1.0;
    const double pair_variance =
        n1 * (q * q - std::pow(q, 4)) + 2.0 * (n1 - 1.0) * (std::pow(q, 3) - std::pow(q, 4));
    CHECK(std::abs(pairs - kSteps * n1 * q * q) < 6.0 * std::sqrt(kSteps * pair_variance));
  }
}

TEST_CASE("poisson: rates at the edges of double", "[sampler]") {
  const auto adjacency = Adjacency::add_or_remove_one;
  CHECK(draw(*make("poisson", rate(1.0), 200, adjacency), 0, 200).size() == 200);
  // The false alarms have probabilities 200 * 2^-53 and 200 * 5e-324.
  CHECK(draw(*make("poisson", rate(1.0 - 0x1p-53), 200, adjacency), 0, 200).size() == 200);
  CHECK(draw(*make("poisson", rate(5e-324), 200, adjacency), 0, 200).empty());
  CHECK(draw(*make("poisson", rate(0.5), 200, adjacency), 0, 0).empty());  // no rows: still a step
}

TEST_CASE("poisson: the rate and the divisor are constants of the plan", "[sampler]") {
  const auto by_rate = make("poisson", rate(0.25), 1000, Adjacency::add_or_remove_one);
  CHECK(by_rate->expected_batch_size(0) == 250.0);
  const auto by_size = make("poisson", size(250), 1000, Adjacency::add_or_remove_one);
  CHECK(by_size->expected_batch_size(0) == 250.0);
  // The actual number of rows changes neither of these, and each row is still drawn with
  // probability q: 1e5 rows with the same rate, 6 standard deviations (2e-9).
  const auto batch = draw(*by_size, 0, 100000);
  CHECK(std::abs(static_cast<double>(batch.size()) - 25000.0) < 6.0 * std::sqrt(18750.0));
  CHECK(by_size->expected_batch_size(0) == 250.0);
  CHECK(draw(*by_rate, 3, 1000) == draw(*by_size, 3, 1000));  // the same q, the same coins
  CHECK(draw(*by_rate, 3, 1000) != draw(*by_rate, 4, 1000));
}

TEST_CASE("poisson: what a step is charged", "[sampler]") {
  const std::vector<Event> releases{Event::gaussian(1.0), Event::nothing(), Event::gaussian(2.0)};
  for (const Adjacency adjacency : kAll) {
    const std::vector<Event> amplified{Event::poisson_sampled(0.25, Event::gaussian(1.0)),
                                       Event::nothing(),
                                       Event::poisson_sampled(0.25, Event::gaussian(2.0))};
    CHECK(make("poisson", rate(0.25), 100, adjacency)->charges(releases) == amplified);
    CHECK(make("poisson", size(25), 100, adjacency)->charges(releases) == amplified);
    CHECK(make("poisson", plain("sample_rate", 0.25), 100, adjacency)->charges(releases) ==
          releases);
    CHECK(make("poisson", rate(1.0), 100, adjacency)->charges(releases) == releases);
  }
}

TEST_CASE("poisson: parameters that make no sense", "[sampler]") {
  const auto create = [](const Value& params) { house().create<Sampler>("poisson", params); };
  CHECK_THROWS_WITH(make("poisson", Value::Object{}, 100, Adjacency::zero_out),
                    ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(create(Value::Object{{"sample_rate", 0.1, {}}, {"batch_size", 10, {}}}),
                    ContainsSubstring("exactly one"));
  for (const double bad : {0.0, -0.1, 1.0000001, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_AS(create(rate(bad)), privgrad::ConfigError);
  }
  CHECK_THROWS_AS(create(size(0)), privgrad::ConfigError);
  CHECK_THROWS_WITH(make("poisson", size(101), 100, Adjacency::zero_out),
                    ContainsSubstring("at most the 100"));
  CHECK_THROWS_AS(make("poisson", rate(0.1), 0, Adjacency::zero_out), privgrad::ConfigError);
}

TEST_CASE("poisson and fixed_size follow a schedule of batch sizes, and charge each of them",
          "[sampler]") {
  const std::vector<double> sizes{10.0, 50.5, 100.0};
  const std::vector<Event> releases(3, Event::gaussian(2.0));
  const auto started = [&](const char* name, const Value& params) {
    auto sampler = house().create<Sampler>(name, params);
    sampler->start({.dataset_size = 100,
                    .steps = 3,
                    .adjacency = Adjacency::replace_one,
                    .batch_sizes = sizes});
    return sampler;
  };
  const auto poisson = started("poisson", Value::Object{});
  CHECK(poisson->expected_batch_size(1) == 50.5);
  CHECK(poisson->charges(releases) ==
        std::vector<Event>{Event::poisson_sampled(0.1, Event::gaussian(2.0)),
                           Event::poisson_sampled(0.505, Event::gaussian(2.0)),
                           Event::gaussian(2.0)});
  CHECK(draw(*poisson, 2, 100).size() == 100);
  // 100 coins with probability 0.1 in each of 1000 streams. 6 standard errors: one false alarm in
  // 5e8.
  double total = 0.0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::vector<std::uint32_t> batch;
    poisson->sample(0, 100, TestRandom(seed), batch);
    total += static_cast<double>(batch.size());
  }
  CHECK(std::abs(total / 1000.0 - 10.0) < 6.0 * std::sqrt(9.0 / 1000.0));

  const auto fixed = started("fixed_size", Value::Object{});
  CHECK(fixed->expected_batch_size(1) == 50.0);  // rounded down
  CHECK(fixed->charges(releases) ==
        std::vector<Event>{Event::sampled_without_replacement(100, 10, Event::gaussian(2.0)),
                           Event::sampled_without_replacement(100, 50, Event::gaussian(2.0)),
                           Event::gaussian(2.0)});
  CHECK(draw(*fixed, 1, 100).size() == 50);

  // Two sizes for one step are a contradiction.
  CHECK_THROWS_WITH(started("poisson", rate(0.1)), ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(started("poisson", size(10)), ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(started("fixed_size", size(10)), ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(make("fixed_size", Value::Object{}, 10, Adjacency::replace_one),
                    ContainsSubstring("exactly one"));
}

TEST_CASE("samplers whose proof needs a fixed size insist on it", "[sampler]") {
  for (const char* name : {"fixed_size", "shuffle"}) {
    const auto sampler = make(name, size(3), 10, Adjacency::replace_one);
    CHECK(sampler->expected_batch_size(0) == 3.0);
    CHECK_THROWS_AS(draw(*sampler, 0, 9), privgrad::ConfigError);
    CHECK_THROWS_AS(draw(*sampler, 0, 11), privgrad::ConfigError);
    CHECK_THROWS_WITH(make(name, size(11), 10, Adjacency::replace_one),
                      ContainsSubstring("at most the 10"));
    CHECK_THROWS_AS(house().create<Sampler>(name, size(0)), privgrad::ConfigError);
    const auto refused = make(name, size(3), 10, Adjacency::add_or_remove_one);
    const std::vector<Event> releases{Event::gaussian(1.0)};
    CHECK_THROWS_AS(refused->charges(releases), privgrad::PrivacyError);
  }
  const auto poisson = make("poisson", rate(0.5), 10, Adjacency::replace_one);
  CHECK_THROWS_AS(draw(*poisson, 0, 9), privgrad::ConfigError);
}

// 20 subsets, 19 degrees of freedom: P(chi2 > 65) = 6e-7.
TEST_CASE("fixed_size: every subset is equally likely", "[sampler]") {
  const auto sampler = make("fixed_size", size(3), 6, Adjacency::replace_one);
  constexpr int kSteps = 20000;
  std::map<std::set<std::uint32_t>, int> seen;
  for (int step = 0; step < kSteps; ++step) {
    const auto batch = draw(*sampler, static_cast<std::uint64_t>(step), 6, 7);
    const std::set<std::uint32_t> subset(batch.begin(), batch.end());
    REQUIRE(batch.size() == 3);
    REQUIRE(subset.size() == 3);
    REQUIRE(*subset.rbegin() < 6);
    ++seen[subset];
  }
  double chi2 = 0.0;
  for (const auto& [subset, count] : seen) {
    chi2 += (count - kSteps / 20.0) * (count - kSteps / 20.0) / (kSteps / 20.0);
  }
  CHECK(seen.size() == 20);
  CHECK(chi2 < 65.0);
}

TEST_CASE("fixed_size: what a step is charged", "[sampler]") {
  const std::vector<Event> releases{Event::gaussian(1.0), Event::nothing()};
  const std::vector<Event> amplified{
      Event::sampled_without_replacement(100, 25, Event::gaussian(1.0)), Event::nothing()};
  const Value n = size(25), n_plain = plain("batch_size", 25), all = size(100);
  CHECK(make("fixed_size", n, 100, Adjacency::replace_one)->charges(releases) == amplified);
  CHECK(make("fixed_size", all, 100, Adjacency::replace_one)->charges(releases) == releases);
  CHECK_THROWS_AS(make("fixed_size", n, 100, Adjacency::zero_out)->charges(releases),
                  privgrad::PrivacyError);
  for (const Adjacency adjacency : {Adjacency::replace_one, Adjacency::zero_out}) {
    CHECK(make("fixed_size", n_plain, 100, adjacency)->charges(releases) == releases);
  }
  CHECK_THROWS_AS(make("fixed_size", n_plain, 100, Adjacency::add_or_remove_one)->charges(releases),
                  privgrad::PrivacyError);
}

TEST_CASE("shuffle: every example exactly once per epoch, in a fresh order", "[sampler]") {
  for (const int batch_size : {1, 3, 7, 10}) {
    const auto sampler = make("shuffle", size(batch_size), 10, Adjacency::replace_one);
    const std::uint64_t epoch_steps =
        (10 + static_cast<std::uint64_t>(batch_size) - 1) / static_cast<std::uint64_t>(batch_size);
    std::set<std::vector<std::uint32_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<std::uint32_t> order;
      const TestRandom random(3);
      for (std::uint64_t i = 0; i < epoch_steps; ++i) {
        std::vector<std::uint32_t> batch;
        sampler->sample(epoch * epoch_steps + i, 10, random, batch);
        CHECK(batch.size() ==
              std::min<std::size_t>(static_cast<std::size_t>(batch_size), 10 - order.size()));
        order.insert(order.end(), batch.begin(), batch.end());
      }
      orders.insert(order);
      std::sort(order.begin(), order.end());
      CHECK(order == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    }
    CHECK(orders.size() == 20);  // two of 20 orders of ten agree with probability 5e-5
  }
}

TEST_CASE("shuffle: a run resumed in mid-epoch meets the same batches", "[sampler]") {
  const auto whole = make("shuffle", size(3), 10, Adjacency::zero_out);
  const TestRandom random(5);
  std::vector<std::uint32_t> expected, got;
  for (std::uint64_t step = 0; step <= 6; ++step) whole->sample(step, 10, random, expected);
  const auto resumed = make("shuffle", size(3), 10, Adjacency::zero_out);
  resumed->sample(6, 10, random, got);
  CHECK(got == expected);
}

// 24 permutations, 23 degrees of freedom: P(chi2 > 70) = 1.3e-6.
TEST_CASE("shuffle: every order is equally likely", "[sampler]") {
  const auto sampler = make("shuffle", size(4), 4, Adjacency::replace_one);
  constexpr int kEpochs = 24000;
  const TestRandom random(11);
  std::map<std::vector<std::uint32_t>, int> seen;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<std::uint32_t> batch;
    sampler->sample(static_cast<std::uint64_t>(epoch), 4, random, batch);
    ++seen[batch];
  }
  double chi2 = 0.0;
  for (const auto& [order, count] : seen) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(seen.size() == 24);
  CHECK(chi2 < 70.0);
}

TEST_CASE("shuffle: an epoch is charged at its start by its costliest release", "[sampler]") {
  const auto sampler = make("shuffle", size(4), 10, Adjacency::replace_one);  // 3 steps an epoch
  const std::vector<double> sigma{1.0, 2.0, 3.0, 4.0, 0.5, 6.0, 7.0};
  std::vector<Event> releases;
  for (const double s : sigma) releases.push_back(Event::gaussian(s));
  const auto nothing = Event::nothing();
  const std::vector<Event> charged = sampler->charges(releases);
  CHECK(charged == std::vector<Event>{Event::gaussian(1.0), nothing, nothing, Event::gaussian(0.5),
                                      nothing, nothing, Event::gaussian(7.0)});

  // Every prefix is covered: an example costs at most the most expensive release of each epoch that
  // has begun.
  double spent = 0.0;
  for (std::size_t steps = 1; steps <= sigma.size(); ++steps) {
    if (const auto* gaussian = std::get_if<privgrad::GaussianEvent>(&charged[steps - 1].kind())) {
      spent += 0.5 / (gaussian->noise_multiplier * gaussian->noise_multiplier);
    }
    double worst = 0.0;
    for (std::size_t begin = 0; begin < steps; begin += 3) {
      const auto end = sigma.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 3, steps));
      const double least =
          *std::min_element(sigma.begin() + static_cast<std::ptrdiff_t>(begin), end);
      worst += 0.5 / (least * least);
    }
    CHECK(spent >= worst * (1.0 - 1e-12));
  }

  SECTION("kinds that cannot be ordered are refused, equal ones need no order") {
    const std::vector<Event> mixed{Event::gaussian(1.0), Event::laplace(1.0)};
    CHECK_THROWS_AS(sampler->charges(mixed), privgrad::PrivacyError);
    const std::vector<Event> laplace(4, Event::laplace(1.0));
    CHECK(sampler->charges(laplace) ==
          std::vector<Event>{Event::laplace(1.0), nothing, nothing, Event::laplace(1.0)});
    CHECK(sampler->charges({}).empty());
  }
}

TEST_CASE("sequential: the rows in their order, batch after batch, epoch after epoch",
          "[sampler]") {
  const auto sampler = make("sequential", size(4), 10, Adjacency::replace_one);
  std::vector<std::vector<std::uint32_t>> batches;
  for (std::uint64_t step = 0; step < 4; ++step)
    sampler->sample(step, 10, TestRandom(1), batches.emplace_back());
  CHECK(batches ==
        std::vector<std::vector<std::uint32_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {0, 1, 2, 3}});
  CHECK(sampler->expected_batch_size(2) == 4.0);  // not the batch's actual size
  // One release an epoch, as for shuffle.
  const auto nothing = Event::nothing();
  const std::vector<Event> releases(4, Event::gaussian(2.0));
  CHECK(sampler->charges(releases) ==
        std::vector<Event>{Event::gaussian(2.0), nothing, nothing, Event::gaussian(2.0)});
}

TEST_CASE("sequential: a single pass uses no example twice", "[sampler]") {
  const auto made = [](std::uint64_t steps) {
    const auto sampler = house().create<Sampler>(
        "sequential",
        Value::Object{{"batch_size", Value(4), {}}, {"single_pass", Value(true), {}}});
    sampler->start({.dataset_size = 10, .steps = steps, .adjacency = Adjacency::zero_out});
  };
  made(3);
  CHECK_THROWS_WITH(made(4), ContainsSubstring("a single pass has 3 steps, but 4 are planned"));
}
