// Releases that subtract noise of the last steps: the noise that they may name, and their cost.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "payments.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/testing.hpp"
#include "release_matrices.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::CorrelatedRecipes;
using core::kExactLevels;
using core::Mechanism;
using core::Participation;
using core::RandomKey;
using core::RoundedGaussianStream;

namespace {

using Members = std::vector<std::uint32_t>;
using Recipe = std::function<ReleaseRecipe(std::uint64_t)>;

/// Returns the recipe with N_{t,t-j} = a_j sigma_{t-j}.
Recipe banded(std::vector<double> a, std::vector<double> sigma) {
  return [a = std::move(a), sigma = std::move(sigma)](std::uint64_t step) {
    ReleaseRecipe recipe;
    for (std::size_t j = 0; j < a.size() && j <= step; ++j)
      recipe.noise.push_back({step - j, a[j] * sigma[step - j]});
    return recipe;
  };
}

/// Returns C = N^-1, by forward substitution.
Matrix inverse(const Matrix& n) {
  const std::size_t size = n.size();
  Matrix c(size, std::vector<double>(size, 0.0));
  for (std::size_t column = 0; column < size; ++column) {
    for (std::size_t row = column; row < size; ++row) {
      double left = row == column ? 1.0 : 0.0;
      for (std::size_t k = column; k < row; ++k) left -= n[row][k] * c[k][column];
      c[row][column] = left / n[row][row];
    }
  }
  return c;
}

Matrix noising_matrix(const Recipe& recipe, std::uint64_t steps) {
  Matrix n(steps, std::vector<double>(steps, 0.0));
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (const NoiseTerm& term : recipe(step).noise) n[step][term.node] += term.multiplier;
  }
  return n;
}

/// Returns ||C sum_t sign_t e_t||^2 over the first `rows` rows.
double moved(const Matrix& c, const std::vector<std::size_t>& steps,
             const std::vector<double>& signs, std::size_t rows) {
  double sum = 0.0;
  for (std::size_t row = 0; row < rows; ++row) {
    double change = 0.0;
    for (std::size_t i = 0; i < steps.size(); ++i) change += signs[i] * c[row][steps[i]];
    sum += change * change;
  }
  return sum;
}

double aligned(const Matrix& c, const std::vector<std::size_t>& steps, std::size_t rows) {
  return moved(c, steps, std::vector<double>(steps.size(), 1.0), rows);
}

/// Returns the change by the worst of all signs.
double worst_of_signs(const Matrix& c, const std::vector<std::size_t>& steps) {
  double worst = 0.0;
  for (std::size_t bits = 0; bits < std::size_t{1} << steps.size(); ++bits) {
    std::vector<double> signs;
    for (std::size_t i = 0; i < steps.size(); ++i) signs.push_back((bits >> i & 1) != 0 ? -1 : 1);
    worst = std::max(worst, moved(c, steps, signs, c.size()));
  }
  return worst;
}

/// Returns random steps of some groups.
std::vector<Members> random_order(std::uint32_t groups, std::size_t steps, std::mt19937& random) {
  std::vector<Members> order(steps);
  for (Members& members : order) {
    for (std::uint32_t group = 0; group < groups; ++group)
      if (random() % 5 == 0) members.push_back(group);
  }
  return order;
}

std::vector<std::size_t> steps_of(std::uint32_t group, const std::vector<Members>& order) {
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < order.size(); ++step) {
    if (std::find(order[step].begin(), order[step].end(), group) != order[step].end())
      steps.push_back(step);
  }
  return steps;
}

std::string refusal(const Recipe& recipe, std::uint64_t steps, std::uint64_t window) {
  try {
    CorrelatedRecipes::of(recipe, steps, window);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "";
}

/// Returns the exact sum of one example that is too short to be clipped, different in each step.
BoundedOnGrid sum_of_step(std::uint64_t step, std::size_t size, std::size_t first = 0) {
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i)
    x[i] = static_cast<float>(std::sin(0.1 * double(first + i) + double(step * step)) / 400.0);
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::move(x), {0.0f});
  return exact_sum(program, data, std::vector<std::uint32_t>{0}, 2.0, serial);
}

/// Returns the sum of no examples, in floating point.
Bounded floating_sum(std::size_t size) {
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::vector<float>(size, 0.0f), {0.0f});
  return clipped_sum(program, data, {}, 2.0, serial);
}

/// Returns an aggregator without recipes: a mechanism with a window does not request them.
ScriptedAggregator silent() {
  return ScriptedAggregator([](std::uint64_t) -> ReleaseRecipe { throw Error("was asked"); });
}

CorrelatedRecipes fading_recipes() {
  return CorrelatedRecipes::of(banded({1, -0.5, -0.25}, {1.5, 1.4, 1.3, 1.2, 1.1}), 5, 2);
}

/// Returns the releases of the steps [first, end).
std::vector<std::vector<float>> releases(Mechanism& mechanism, Payments& payments,
                                         std::uint64_t first, std::uint64_t end, std::size_t size) {
  std::vector<std::vector<float>> all;
  for (std::uint64_t step = first; step < end; ++step)
    all.push_back(values(mechanism.release(sum_of_step(step, size), payments.take(step), 10.0)));
  return all;
}

}  // namespace

TEST_CASE("a release has noise of its own, and the very noise of the steps before it",
          "[correlated][matrix][mechanism][privacy]") {
  constexpr std::size_t kSize = 2500;  // the last chunk of noise not full
  const CorrelatedRecipes recipes = fading_recipes();
  const auto aggregator = silent();
  const RandomKey key = RandomKey::from_seed(10);
  Mechanism mechanism(aggregator, key, serial, &recipes);
  Payments payments(recipes);
  const auto released = releases(mechanism, payments, 0, 5, kSize);
  constexpr auto kCells = static_cast<double>(kExactLevels);
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<double> expected(kSize);
    const BoundedOnGrid sum = sum_of_step(step, kSize);
    const auto cells = core::cells_for_testing(sum);
    for (std::size_t i = 0; i < kSize; ++i) expected[i] = static_cast<double>(cells[i]);
    double size = 0.0;
    for (const NoiseTerm& term : recipes.noise(step)) {
      // A stream that depends only on the node, in cells of the sum.
      const double sigma = std::fabs(term.multiplier) * kCells;
      std::vector<std::int64_t> alone(kSize, 0);
      RoundedGaussianStream(key, term.node).release(0, sigma, 0, alone, alone);
      for (std::size_t i = 0; i < kSize; ++i)
        expected[i] += std::copysign(1.0, term.multiplier) * static_cast<double>(alone[i]);
      size += sigma;
    }
    const double width = 2.0 / kCells / 10.0;
    const double coarse = std::ldexp(width, static_cast<int>(core::release_shift(size)));
    double furthest = 0.0;
    for (std::size_t i = 0; i < kSize; ++i)
      furthest = std::max(furthest, std::fabs(released[step][i] - expected[i] * width));
    // The tolerance: half a coarse cell, one cell for each stream, and a float's rounding error.
    CHECK(furthest < 0.51 * coarse);
    CHECK(furthest > 0.4 * coarse);  // the release is rounded
  }
}

TEST_CASE("noise that is taken back is the same bits on any number of threads, and in slices",
          "[correlated][matrix][mechanism][privacy]") {
  constexpr std::size_t kSize = 3 * 32 * 1024 + 5000, kCut = 40'000;
  const CorrelatedRecipes recipes = fading_recipes();
  const auto aggregator = silent();
  const RandomKey key = RandomKey::from_seed(11);
  Mechanism alone(aggregator, key, serial, &recipes);
  Payments payments(recipes);
  const auto expected = releases(alone, payments, 0, 4, kSize);
  for (const int threads : {2, 4}) {
    const auto executor = core::make_executor(threads);
    Mechanism mechanism(aggregator, key, *executor, &recipes);
    Payments own(recipes);
    CHECK(releases(mechanism, own, 0, 4, kSize) == expected);
  }
  // As with processes: one is charged, and notifies the others.
  Mechanism first(aggregator, key, serial, &recipes);
  Payments own(recipes);
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::string told = first.pay_for_noise(2.0, own.take(step), 10.0).secret_text();
    const auto slice = values(
        core::PaidNoise::of(told).release(sum_of_step(step, kSize - kCut, kCut), kCut, serial));
    CHECK(std::equal(slice.begin(), slice.end(), expected[step].begin() + kCut,
                     expected[step].end()));
  }
}

TEST_CASE("a run that is taken up inside a window draws the same noise, of no older step",
          "[correlated][matrix][mechanism][resume][privacy]") {
  constexpr std::size_t kSize = 700;
  const CorrelatedRecipes recipes = fading_recipes();
  const auto aggregator = silent();
  const RandomKey key = RandomKey::from_seed(12);
  Mechanism through(aggregator, key, serial, &recipes);
  Payments payments(recipes), again(recipes);
  const auto expected = releases(through, payments, 0, 5, kSize);
  Mechanism until(aggregator, key, serial, &recipes);
  releases(until, again, 0, 3, kSize);
  core::StateWriter saved;
  until.save(saved);

  Mechanism from(aggregator, key, serial, &recipes);
  core::StateReader in(saved.text(), "a state");
  from.restore(in);
  in.end();
  const auto rest = releases(from, again, 3, 5, kSize);
  CHECK(rest.front() == expected[3]);
  CHECK(rest.back() == expected[4]);

  const auto holds = [&](std::uint64_t node) {
    const RandomKey of_node = RoundedGaussianStream::own_key(key, node);
    const auto bytes = of_node.secret_bytes();
    return std::search(saved.text().begin(), saved.text().end(), bytes.begin(), bytes.end(),
                       [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }) !=
           saved.text().end();
  };
  CHECK(holds(2));
  CHECK(holds(1));
  CHECK_FALSE(holds(0));

  const CorrelatedRecipes shorter =
      CorrelatedRecipes::of(banded({1, -0.5}, {1.5, 1.4, 1.3, 1.2, 1.1}), 5, 1);
  Mechanism other(aggregator, key, serial, &shorter);
  core::StateReader of_others(saved.text(), "a state");
  CHECK_THROWS_WITH(other.restore(of_others), ContainsSubstring("noise of another window"));
}

TEST_CASE("copies of a state with other older noise have no new noise in common",
          "[correlated][matrix][mechanism][resume][privacy]") {
  constexpr std::size_t kSize = 1000;
  const CorrelatedRecipes recipes = fading_recipes();
  const auto aggregator = silent();
  std::vector<std::vector<std::vector<float>>> copies;
  for (const std::uint64_t seed : {20, 21, 20}) {
    Mechanism mechanism(aggregator, RandomKey::from_seed(1), serial, &recipes);
    Payments payments(recipes);
    mechanism.use_key(RandomKey::from_seed(seed));
    auto released = releases(mechanism, payments, 0, 1, kSize);
    mechanism.use_key(RandomKey::from_seed(30));
    released.push_back(releases(mechanism, payments, 1, 2, kSize).front());
    copies.push_back(std::move(released));
  }
  CHECK(copies[0] == copies[2]);
  // a_1 = -0.5: the second releases still differ by the difference of their own noise.
  double squares = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {
    const double own = double(copies[0][1][i]) - double(copies[1][1][i]) +
                       0.5 * (double(copies[0][0][i]) - double(copies[1][0][i]));
    squares += own * own;
  }
  // For two independent vectors; the tolerance is 6 standard errors.
  const double expected = std::sqrt(2.0) * 1.4 * 2.0 / 10.0;
  CHECK_THAT(std::sqrt(squares / kSize), WithinRel(expected, 6.0 / std::sqrt(2.0 * kSize)));
}

TEST_CASE("copies of a state that take back another share of it have no new noise in common",
          "[correlated][matrix][mechanism][resume][privacy]") {
  // Both are charged alike. With a single new vector, two shares of the older vector could be
  // subtracted from each other.
  constexpr std::size_t kSize = 1000;
  const auto aggregator = silent();
  std::vector<std::vector<std::vector<float>>> copies;
  for (const double share : {-0.5, -0.25}) {
    const CorrelatedRecipes recipes =
        CorrelatedRecipes::of(banded({1, share}, {1.5, 1.4, 1.3}), 3, 1);
    Mechanism mechanism(aggregator, RandomKey::from_seed(1), serial, &recipes);
    Payments payments(recipes);
    mechanism.use_key(RandomKey::from_seed(20));
    copies.push_back(releases(mechanism, payments, 0, 2, kSize));
  }
  REQUIRE(copies[0][0] == copies[1][0]);
  const BoundedOnGrid sum = sum_of_step(0, kSize);
  const auto cells = core::cells_for_testing(sum);
  double squares = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {
    const double data = double(cells[i]) * 2.0 / double(kExactLevels) / 10.0;
    // The term of a_1: a_1 times its noise.
    const double older = -0.25 * (double(copies[0][0][i]) - data);
    const double own = double(copies[0][1][i]) - double(copies[1][1][i]) - older;
    squares += own * own;
  }
  const double expected = std::sqrt(2.0) * 1.4 * 2.0 / 10.0;
  CHECK_THAT(std::sqrt(squares / kSize), WithinRel(expected, 6.0 / std::sqrt(2.0 * kSize)));
}

TEST_CASE("noise that is taken back is paid for, in order, and added to exact sums alone",
          "[correlated][matrix][mechanism][privacy]") {
  const CorrelatedRecipes recipes = fading_recipes();
  const auto aggregator = silent();
  Mechanism mechanism(aggregator, RandomKey::from_seed(13), serial, &recipes);
  Payments payments(recipes), less(recipes, 0.999);
  CHECK_THROWS_AS(mechanism.release(sum_of_step(1, 10), payments.take(1), 10.0), PrivacyError);
  CHECK_THROWS_AS(mechanism.release(sum_of_step(0, 10), less.take(0), 10.0), PrivacyError);
  mechanism.release(sum_of_step(0, 10), payments.take(0), 10.0);
  Payments again(recipes);
  CHECK_THROWS_AS(mechanism.release(sum_of_step(0, 10), again.take(0), 10.0), PrivacyError);
  CHECK_THROWS_AS(mechanism.release(floating_sum(10), again.take(1), 10.0), PrivacyError);
}

TEST_CASE("noise that is taken back costs what the inverse of its matrix says, for every order",
          "[correlated][matrix][privacy]") {
  constexpr std::size_t kSteps = 40;
  constexpr std::uint32_t kMany = 700;  // more than are computed at a time
  std::mt19937 random(7);
  std::vector<double> fading(kSteps), constant(kSteps, 1.5);
  for (std::size_t step = 0; step < kSteps; ++step) fading[step] = std::pow(0.95, double(step));
  for (const auto& sigma : {constant, fading}) {
    for (const std::vector<double>& a :
         {std::vector<double>{1, -0.9}, {1, -0.5, -0.125, -0.0625}, {1, 0, -0.5}}) {
      const Recipe recipe = banded(a, sigma);
      const auto order = random_order(kMany, kSteps, random);
      const Participation participation(kMany, order);
      const auto cost = core::cost_of(CorrelatedRecipes::of(recipe, kSteps, 3), participation);
      const Matrix c = inverse(noising_matrix(recipe, kSteps));
      CHECK(cost.is_attained);
      double worst = 0.0, worst_of_half = 0.0;
      for (std::uint32_t group = 0; group < kMany; ++group) {
        const auto steps = steps_of(group, order);
        const double exact = aligned(c, steps, kSteps);
        CHECK_THAT(cost.of_groups[group], WithinRel(exact, 1e-12));
        worst = std::max(worst, exact);
        worst_of_half = std::max(worst_of_half, aligned(c, steps, kSteps / 2));
      }
      CHECK_THAT(cost.worst_after.back(), WithinRel(worst, 1e-12));
      CHECK(cost.worst_after.back() >= worst * (1.0 - 1e-14));
      CHECK_THAT(cost.worst_after[kSteps / 2 - 1], WithinRel(worst_of_half, 1e-12));
    }
  }
}

TEST_CASE("where contributions that oppose each other are the worst, they are what is charged",
          "[correlated][matrix][privacy]") {
  // C = I - 0.8 shift: contributions with the same direction in two neighbouring steps cost 1.68,
  // opposite ones 4.88.
  const Recipe recipe = banded({1, 0.8, 0.64}, {1, 1, 1});
  const Participation both(1, {{0}, {0}, {}});
  const auto cost = core::cost_of(CorrelatedRecipes::of(recipe, 3, 2), both);
  CHECK_THAT(aligned(inverse(noising_matrix(recipe, 3)), {0, 1}, 3), WithinRel(1.68, 1e-12));
  CHECK_THAT(cost.worst_after.back(), WithinRel(4.88, 1e-12));
  CHECK_FALSE(cost.is_attained);
}

TEST_CASE("coefficients of both signs are charged at least their worst contributions",
          "[correlated][matrix][privacy]") {
  constexpr std::size_t kSteps = 12;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-0.9, 0.9);
  for (int trial = 0; trial < 40; ++trial) {
    const Recipe recipe =
        banded({1, uniform(random), uniform(random)}, std::vector<double>(kSteps, 0.7));
    const auto order = random_order(4, kSteps, random);
    const auto cost =
        core::cost_of(CorrelatedRecipes::of(recipe, kSteps, 2), Participation(4, order));
    const Matrix c = inverse(noising_matrix(recipe, kSteps));
    for (std::uint32_t group = 0; group < 4; ++group) {
      const double worst = worst_of_signs(c, steps_of(group, order));
      CHECK(cost.of_groups[group] >= worst * (1.0 - 1e-12));
      if (cost.is_attained) CHECK_THAT(cost.of_groups[group], WithinRel(worst, 1e-10));
    }
  }
}

TEST_CASE(
    "a positive coefficient of a matrix whose inverse has no negative entry costs nothing more",
    "[correlated][matrix][privacy]") {
  // 1 / (1 - z + 0.2 z^2) = 1 + z + 0.8 z^2 + 0.6 z^3 + 0.44 z^4 + ...
  constexpr std::size_t kSteps = 5;
  const Recipe recipe = banded({1, -1, 0.2}, std::vector<double>(kSteps, 1.0));
  const auto cost = core::cost_of(CorrelatedRecipes::of(recipe, kSteps, 2),
                                  Participation(1, {{0}, {}, {}, {}, {}}));
  CHECK(cost.is_attained);
  CHECK_THAT(cost.worst_after.back(), WithinRel(1.0 + 1.0 + 0.64 + 0.36 + 0.44 * 0.44, 1e-12));
}

TEST_CASE("with a window, a step begins with a node of its own, and others are of the window",
          "[correlated][matrix][privacy]") {
  const auto with = [](std::uint64_t step, const ReleaseRecipe& there) {
    return [=](std::uint64_t at) {
      if (at == step) return there;
      return ReleaseRecipe{.noise = {{.node = at, .multiplier = 1.0}}};
    };
  };
  const auto noise = [](std::vector<NoiseTerm> terms) {
    return ReleaseRecipe{.noise = std::move(terms)};
  };
  CHECK(refusal(with(3, noise({{3, 1.0}, {1, -0.5}, {2, -0.5}})), 5, 2).empty());
  CHECK_THAT(refusal(with(3, noise({{2, 1.0}})), 5, 2),
             ContainsSubstring("begins with noise node 2"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {0, -0.5}})), 5, 2),
             ContainsSubstring("node 0, which is not of a step in the window"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {9, -0.5}})), 5, 2),
             ContainsSubstring("node 9, which is not of a step in the window"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {3, -0.5}})), 5, 2),
             ContainsSubstring("node 3, which is not of a step in the window"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {2, -0.5}, {2, -0.1}})), 5, 2),
             ContainsSubstring("node 2 twice"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {2, 1.0 / 0.0}})), 5, 2),
             ContainsSubstring("a multiplier of inf"));
  CHECK_THAT(refusal(with(3, noise({{3, 0.0}, {2, 1.0}})), 5, 2),
             ContainsSubstring("noise multiplier of 0"));
  CHECK_THAT(refusal(with(3, noise({{3, -1.0}})), 5, 2),
             ContainsSubstring("noise multiplier of -1"));
  CHECK_THAT(refusal(with(3, noise({})), 5, 2), ContainsSubstring("noise multiplier of 0"));
  ReleaseRecipe keeps = noise({{3, 1.0}});
  keeps.keep = 1.0;
  CHECK_THAT(refusal(with(3, keeps), 5, 2), ContainsSubstring("keeps, continues or scales"));
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}})), 5, 16), ContainsSubstring("at most 15"));
  // Without a window, no node is used again.
  CHECK_THAT(refusal(with(3, noise({{3, 1.0}, {2, -0.5}})), 5, 0), ContainsSubstring("used twice"));
}

TEST_CASE("the cost of noise that is taken back scales with one factor of all of it",
          "[correlated][matrix]") {
  const std::vector<double> a{1, -0.5, -0.25};
  const auto recipes = [&](std::vector<double> sigma) {
    return CorrelatedRecipes::of(banded(a, std::move(sigma)), 4, 2);
  };
  const auto once = recipes({1, 2, 3, 4});
  CHECK(recipes({3, 6, 9, 12}).noise_relative_to(once) == 3.0);
  CHECK_FALSE(recipes({3, 6, 9, 13}).noise_relative_to(once));
  // The diagonal alone does not show the dependence.
  CHECK_FALSE(
      CorrelatedRecipes::of(banded({1, -0.5, -0.2}, {1, 2, 3, 4}), 4, 2).noise_relative_to(once));
}
