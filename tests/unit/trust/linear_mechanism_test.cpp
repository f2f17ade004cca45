#include "linear_mechanism.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/trust/separation.hpp"

using namespace privgrad;
using core::worst_squared_sensitivities_of_decreasing;
using Json = nlohmann::json;

namespace {

using Steps = std::vector<std::uint64_t>;

double of_steps(const LinearMechanism& mechanism, const Steps& steps) {
  return squared_sensitivity(mechanism, steps);
}

/// Returns the cost of the worst example if each takes part once per epoch of `batches`, always in
/// the same batch.
double worst_in_fixed_order(const LinearMechanism& mechanism, std::uint64_t batches) {
  double worst = 0.0;
  for (std::uint64_t first = 0; first < batches; ++first) {
    Steps steps;
    for (std::uint64_t step = first; step < mechanism.steps(); step += batches)
      steps.push_back(step);
    worst = std::max(worst, of_steps(mechanism, steps));
  }
  return worst;
}

std::uint64_t next_power_of_two(std::uint64_t n) {
  std::uint64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// c_i = binom(2i, i) / 4^i: the first column of the square root of the matrix of prefix sums.
std::vector<double> square_root_of_prefix_sums(std::uint64_t n) {
  std::vector<double> column{1.0};
  for (std::uint64_t i = 1; i < n; ++i) {
    const auto k = static_cast<double>(i);
    column.push_back(column.back() * (2.0 * k - 1.0) / (2.0 * k));
  }
  return column;
}

double epsilon(const char* accountant, const Value::Object& params, double squared, double sigma,
               double delta) {
  const auto made = house().create<Accountant>(accountant, params);
  made->start(Adjacency::zero_out);
  made->compose(Event::gaussian(sigma / std::sqrt(squared)), 1);
  return made->epsilon(delta).value;
}

double worst_of(std::span<const double> first_column, std::uint64_t most,
                std::uint64_t separation) {
  return worst_squared_sensitivities_of_decreasing(
             first_column, {.max_participations = most, .min_separation = separation})
      .back();
}

/// Maximises over every subset of at most 26 steps, by the sum in each row of a dense matrix.
double by_brute_force(const LinearMechanism& mechanism, std::uint64_t most,
                      std::uint64_t separation) {
  const std::uint64_t n = mechanism.steps();
  REQUIRE(n <= 26);
  std::vector<std::vector<double>> dense(n, std::vector<double>(mechanism.rows(), 0.0));
  for (std::uint64_t t = 0; t < n; ++t) {
    for (const auto& entry : mechanism.column(t)) dense[t][entry.row] = std::fabs(entry.value);
  }
  double worst = 0.0;
  std::vector<double> change(mechanism.rows(), 0.0);
  const std::function<void(std::uint64_t, std::uint64_t)> extend = [&](std::uint64_t from,
                                                                       std::uint64_t left) {
    worst = std::max(worst, std::inner_product(change.begin(), change.end(), change.begin(), 0.0));
    if (left == 0) return;
    for (std::uint64_t t = from; t < n; ++t) {
      for (std::size_t r = 0; r < change.size(); ++r) change[r] += dense[t][r];
      extend(t + separation + 1, left - 1);
      for (std::size_t r = 0; r < change.size(); ++r) change[r] -= dense[t][r];
    }
  };
  extend(0, most);
  return worst;
}

void check_close(double got, double expected, double relative) {
  INFO("got " << got << ", expected " << expected);
  CHECK(std::fabs(got - expected) <= relative * std::fabs(expected));
}

}  // namespace

TEST_CASE("a tree releases the blocks that are complete, and no others", "[linear]") {
  // 8 + 4 + 2 + 1 blocks; 7 steps never finish the last block of each size above 1.
  CHECK(LinearMechanism::tree(8).rows() == 15);
  CHECK(LinearMechanism::tree(7).rows() == 11);
  CHECK(LinearMechanism::tree(8).column(0).size() == 4);
  CHECK(LinearMechanism::tree(7).column(0).size() == 3);
  CHECK(LinearMechanism::tree(7).column(6).size() == 1);
  // Steps without data complete these blocks.
  CHECK(LinearMechanism::tree(7, 8).column(6).size() == 4);
  CHECK(LinearMechanism::tree(0).rows() == 0);
  CHECK_THROWS_AS(LinearMechanism::tree(8, 7), ConfigError);
}

TEST_CASE("sensitivity: what a unit's steps add up to in every row, by hand", "[linear]") {
  const auto tree = LinearMechanism::tree(4);
  CHECK(of_steps(tree, {}) == 0.0);
  CHECK(of_steps(tree, {2}) == 3.0);            // a leaf, a pair, the root
  CHECK(of_steps(tree, {0, 1}) == 10.0);        // two leaves, 2^2 in their pair, 2^2 in the root
  CHECK(of_steps(tree, {0, 2}) == 8.0);         // two leaves, two pairs, 2^2 in the root
  CHECK(of_steps(tree, {0, 1, 2, 3}) == 28.0);  // 4 + 2 * 4 + 16
  // In separate trees, contributions do not add up before they are squared.
  CHECK(of_steps(LinearMechanism::in_sequence({tree, tree}), {0, 4}) == 6.0);
  // Signs do not help, because contributions can have signs, too.
  const std::vector<double> column{1.0, -1.0};
  CHECK(of_steps(LinearMechanism::toeplitz(column), {0, 1}) == 5.0);
}

TEST_CASE("sensitivity: no choice of contributions moves the release further", "[linear]") {
  // Brute force over signs in one dimension, on a matrix with entries of both signs.
  const std::vector<double> column{1.0, -0.5, 0.25, 2.0, -0.125};
  const auto mechanism = LinearMechanism::toeplitz(column);
  for (const Steps& steps : {Steps{0}, Steps{1, 3}, Steps{0, 1, 2, 3, 4}}) {
    const double bound = of_steps(mechanism, steps);
    double most = 0.0;
    for (unsigned signs = 0; signs < (1U << steps.size()); ++signs) {
      std::vector<double> change(mechanism.rows(), 0.0);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        for (const auto& entry : mechanism.column(steps[i])) {
          change[entry.row] += ((signs >> i) & 1U) != 0 ? entry.value : -entry.value;
        }
      }
      double square = 0.0;
      for (const double c : change) square += c * c;
      most = std::max(most, square);
    }
    CHECK(most <= bound * (1.0 + 1e-15));
  }
}

TEST_CASE("a decreasing Toeplitz matrix: the first steps that are allowed are the worst",
          "[linear]") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> column{1.0};
    while (column.size() < 4 + random() % 9) {
      column.push_back(column.back() *
                       (random() % 4 == 0 ? 1.0 : 0.25 * static_cast<double>(random() % 5)));
    }
    const auto mechanism = LinearMechanism::toeplitz(column);
    for (const std::uint64_t most : {1, 2, 3, 20}) {
      for (const std::uint64_t separation : {0, 1, 3}) {
        INFO(column.size() << " steps, " << most << " times, " << separation << " apart");
        check_close(worst_of(column, most, separation), by_brute_force(mechanism, most, separation),
                    1e-14);
      }
    }
  }
  for (const std::vector<double>& column :
       {std::vector{1.0, 2.0}, std::vector{1.0, -0.5}, std::vector{1.0, std::nan("")}}) {
    CHECK_THROWS_AS(worst_of(column, 1, 0), ConfigError);
  }
}

TEST_CASE("a decreasing Toeplitz matrix of many steps needs no matrix and no search", "[linear]") {
  // Every row r adds up r + 1 ones: the sum of squares up to n is n (n + 1) (2n + 1) / 6.
  const std::vector<double> ones(100'000, 1.0);
  const double n = 1e5;
  check_close(worst_of(std::span(ones).first(1000), 1000, 0), 1000.0 * 1001.0 * 2001.0 / 6.0,
              1e-14);
  // Ten participations, 10^4 steps apart: blocks of 10^4 rows with the change 1, 2, ..., 10.
  check_close(worst_of(ones, 10, 9999), 0.1 * n * 385.0, 1e-14);
}

// Tran and Cutkosky (2022) discount the j-th use of an example in a node by (1-a)^(jN), which holds
// for one fixed order of N examples. With a fresh permutation per epoch, an example can be the last
// in one epoch and the first in the next: then a node changes by nearly twice as much.
TEST_CASE("momentum under fresh permutations: two uses can be neighbours", "[linear]") {
  constexpr double kA = 0.01;
  constexpr std::uint64_t kExamples = 100;
  std::vector<double> weights{kA};
  while (weights.size() < 2 * kExamples) weights.push_back(weights.back() * (1.0 - kA));
  const auto momentum = LinearMechanism::toeplitz(weights);
  const auto most_in_a_row = [&](const Steps& steps) {
    std::vector<double> change(momentum.rows(), 0.0);
    for (const std::uint64_t step : steps) {
      for (const auto& entry : momentum.column(step)) change[entry.row] += entry.value;
    }
    return *std::max_element(change.begin(), change.end());
  };
  const double printed = kA * (1.0 + std::pow(1.0 - kA, kExamples));
  CHECK(most_in_a_row({0, kExamples}) <= printed * (1.0 + 1e-12));
  CHECK(most_in_a_row({kExamples - 1, kExamples}) > 1.4 * printed);
}

// 50-digit arithmetic and exhaustive search, see tests/golden.
TEST_CASE("linear mechanisms: every golden value", "[linear][golden]") {
  const Json golden = golden_values();

  const auto orders = [&](const std::string& kind) {
    Value::List list;
    if (kind == "dpftrl_tree") {
      for (int i = 11; i < 2000; ++i) list.push_back(i / 10.0);
    } else {
      const char* name = kind == "tree_single_epoch" ? "dp_accounting_default" : "opacus_default";
      for (const double order : golden.at("orders").at(name)) list.push_back(order);
    }
    return Value::Object{{"orders", Value(list), {}}};
  };
  const auto check_epsilons = [&](const Json& entry, double squared) {
    const Json& given = entry.at("inputs");
    const Json& expected = entry.at("expected");
    CHECK(squared == expected.at("sens_sq"));
    const double sigma = given.at("noise_multiplier");
    const double delta = given.at("delta");
    const double at_orders = epsilon("rdp", orders(entry.at("kind")), squared, sigma, delta);
    check_close(at_orders, expected.at("eps_rdp"), 1e-9);
    CHECK(epsilon("rdp", {}, squared, sigma, delta) <= at_orders * (1.0 + 1e-9));
    check_close(epsilon("gdp", {}, squared, sigma, delta), expected.at("eps_exact_gaussian"), 1e-9);
  };

  int compared = 0;
  for (const Json& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    const Json& given = entry.at("inputs");
    const Json& expected = entry.at("expected");
    INFO(entry.at("id").get<std::string>());
    if (kind == "tree_single_epoch") {
      check_epsilons(entry, of_steps(LinearMechanism::tree(given.at("steps")), {0}));
    } else if (kind == "tree_restart_every_epoch") {
      std::vector<LinearMechanism> trees;
      Steps first_of_each;
      std::uint64_t begin = 0;
      for (const std::uint64_t steps : given.at("steps_list")) {
        trees.push_back(LinearMechanism::tree(steps));
        first_of_each.push_back(begin);
        begin += steps;
      }
      check_epsilons(entry, of_steps(LinearMechanism::in_sequence(trees), first_of_each));
    } else if (kind == "dpftrl_tree") {
      const std::uint64_t batches = given.at("batches_per_epoch");
      const auto epochs = given.at("epochs_between_restarts").get<Steps>();
      std::vector<LinearMechanism> trees;
      for (std::size_t i = 0; i < epochs.size(); ++i) {
        const bool completed = given.at("tree_completion") && i + 1 < epochs.size();
        const std::uint64_t steps = epochs[i] * batches;
        trees.push_back(LinearMechanism::tree(steps, completed ? next_power_of_two(steps) : steps));
      }
      check_epsilons(entry, worst_in_fixed_order(LinearMechanism::in_sequence(trees), batches));
    } else if (kind == "toeplitz_sqrt_sensitivity") {
      const std::vector<double> column = square_root_of_prefix_sums(given.at("n"));
      const std::uint64_t uses = given.at("k"), distance = given.at("b");
      check_close(std::sqrt(worst_of(column, 1, 0)), expected.at("sens_single"), 1e-12);
      check_close(std::sqrt(worst_of(column, uses, distance - 1)), expected.at("sens_kb"), 1e-12);
    } else {
      continue;
    }
    ++compared;
  }
  CHECK(compared == 25);
}
