// File length: all tests share one fixture, and repeating it would take more lines.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "house_plugins.hpp"
#include "privgrad/plan/correlated_plan.hpp"
#include "privgrad/trust/anchored_sums.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/testing.hpp"
#include "release_matrices.hpp"
#include "test_random.hpp"

using namespace privgrad;
using core::CorrelatedMechanism;
using core::CorrelatedPart;
using core::Participation;

namespace {

/// A program whose gradient at its iterate is the example times a number, or NaN for one example.
class ScaledEcho final : public Program {
 public:
  ScaledEcho(std::size_t parameters, float scale) : parameters_(parameters), scale_(scale) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    for (std::size_t i = 0; i < batch.features.size(); ++i) rows[i] = scale_ * batch.features[i];
  }
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  std::size_t parameters_;
  float scale_;
};

std::vector<Bounded> sums_of(const core::Iterates& iterates, std::vector<float> examples,
                             std::size_t size, const core::DifferenceBounds& bounds) {
  const std::vector<ParameterGroup> groups{{.name = "all", .offset = 0, .size = size}};
  const std::size_t rows = examples.size() / size;
  const Dataset data(ExampleShape{{size}, 0}, std::move(examples), std::vector<float>(rows));
  std::vector<std::uint32_t> batch(rows);
  std::iota(batch.begin(), batch.end(), 0U);
  return core::anchored_sums(iterates, data, batch,
                             {.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0}, bounds,
                             serial);
}

/// Returns the values, by a release without noise.
std::vector<float> values_of(Bounded sum) {
  const std::vector<CorrelatedPart> one{{core::CorrelatedRecipes::of(
      [](std::uint64_t step) {
        return ReleaseRecipe{.keep = 0.0, .earlier = {}, .noise = {{step, 1.0}}};
      },
      1)}};
  CorrelatedMechanism mechanism(one, core::RandomKey::from_seed(1), serial);
  const Released released = mechanism.release_without_noise(std::move(sum), 1.0);
  return {released.values().begin(), released.values().end()};
}

struct Setting {
  std::uint64_t epoch, steps;
  double momentum, gamma;
};

/// Makes tree_reduced for batches of one of `epoch` examples.
ComponentPtr<Aggregator> reduced(const Setting& setting, double multiplier = 1.3) {
  auto made = house().create<Aggregator>("tree_reduced",
                                         Value::Object{{"momentum", Value(setting.momentum), {}},
                                                       {"smoothness", Value(2.0), {}},
                                                       {"gamma", Value(setting.gamma), {}}});
  std::vector<double> sigma, clip(setting.steps, 1.5), rates(setting.steps, 0.03);
  for (std::uint64_t t = 0; t < setting.steps; ++t)
    sigma.push_back(multiplier * (1.0 + 0.1 * double(t % 3)));
  made->start({.steps = setting.steps,
               .noise_multipliers = sigma,
               .clip_norms = clip,
               .learning_rates = rates,
               .facts = {.steps = setting.steps,
                         .dataset_size = setting.epoch,
                         .parameters = 10,
                         .batch_size = 1.0,
                         .target_epsilon = {},
                         .target_delta = 1e-5}});
  return made;
}

UsesGradientDifferences& differences_of(Aggregator& aggregator) {
  return dynamic_cast<UsesGradientDifferences&>(aggregator);
}

const Setting kSettings[] = {{5, 23, 0.9, 0.3},
                             {4, 16, 0.5, 1.0},
                             {8, 37, 0.97, 0.05},
                             {1, 9, 0.8, 0.4},
                             {30, 20, 0.9, 0.5}};

/// Returns the recipes of a part as matrices.
ReleaseMatrices matrices_of(const Aggregator& aggregator, std::size_t part,
                            const CorrelatedPart& planned) {
  const auto& differences = dynamic_cast<const UsesGradientDifferences&>(aggregator);
  const ScriptedAggregator scripted([&](std::uint64_t step) {
    if (part == 0) return aggregator.recipe(step);
    return differences.difference_recipe(
        part == 1 ? GradientDifference::since_anchor : GradientDifference::between_anchors, step);
  });
  return release_matrices(scripted, planned.recipes.steps());
}

/// Returns the same batches of one example in every epoch.
Participation cyclic(const Setting& setting) {
  std::vector<std::vector<std::uint32_t>> members;
  for (std::uint64_t t = 0; t < setting.steps; ++t)
    members.push_back({static_cast<std::uint32_t>(t % setting.epoch)});
  return {setting.epoch, members};
}

}  // namespace

TEST_CASE("differences of gradients: clipped gradients are subtracted, and clipped again",
          "[differences][privacy]") {
  const ScaledEcho anchor(2, 1.0f), current(2, 2.0f), last(2, 0.5f);
  // The gradients (0.3, 0.4), (0.6, 0.8) and (0.15, 0.2) have the norms 0.5, 1 and 0.25.
  const auto sums = [&](double since, double between) {
    return sums_of({.anchor = anchor, .current = &current, .last_anchor = &last}, {0.3f, 0.4f}, 2,
                   {.since_anchor = since, .between_anchors = between});
  };
  auto whole = sums(2.0, 2.0);
  REQUIRE(whole.size() == 3);
  CHECK(whole[0].l2_bound() == 1.0);
  CHECK(whole[1].l2_bound() == 2.0);
  CHECK_THAT(values_of(std::move(whole[0]))[0], WithinAbs(0.3, 1e-7));
  CHECK_THAT(values_of(std::move(whole[1]))[1], WithinAbs(0.4, 1e-7));
  CHECK_THAT(values_of(std::move(whole[2]))[1], WithinAbs(0.2, 1e-7));
  auto clipped = sums(0.1, 0.05);
  CHECK_THAT(values_of(std::move(clipped[1]))[0], WithinAbs(0.06, 1e-7));
  CHECK_THAT(values_of(std::move(clipped[2]))[1], WithinAbs(0.04, 1e-7));
  // Bounds that are so small that single precision would round them away leave nothing of a sum,
  // but still determine the noise.
  auto tiny = sums(1e-40, 1e-30);
  CHECK(tiny[1].l2_bound() == 1e-40);
  for (const std::size_t part : {1u, 2u})
    CHECK(values_of(std::move(tiny[part])) == std::vector<float>(2, 0.0f));
  // (3, 4) is clipped to (0.6, 0.8) at both iterates, so the difference is 0.
  auto long_ones = sums_of({.anchor = anchor, .current = &current, .last_anchor = nullptr},
                           {3.0f, 4.0f}, 2, {.since_anchor = 2.0, .between_anchors = 0.0});
  REQUIRE(long_ones.size() == 2);
  CHECK_THAT(values_of(std::move(long_ones[1]))[0], WithinAbs(0.0, 1e-7));
}

TEST_CASE("differences of gradients: no example moves a sum further than its bound",
          "[differences][privacy]") {
  const ScaledEcho anchor(7, 1.0f), current(7, -3.0f), last(7, 40.0f);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const core::DifferenceBounds bounds{.since_anchor = 0.3, .between_anchors = 0.01};
  const double most[] = {1.0, 0.3, 0.01};
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> example(7);
    for (float& x : example) x = std::exp(4.0f * normal(random)) * normal(random);
    auto sums =
        sums_of({.anchor = anchor, .current = &current, .last_anchor = &last}, example, 7, bounds);
    for (std::size_t p = 0; p < 3; ++p) {
      double squares = 0.0;
      for (const float x : values_of(std::move(sums[p]))) squares += double(x) * double(x);
      CHECK(std::sqrt(squares) <= most[p] * (1.0 + 1e-6));  // the sums are float32
    }
  }
  // A gradient that is not finite counts as zero; the other gradient is still bounded.
  const ScaledEcho infinite(2, HUGE_VALF);
  auto sums =
      sums_of({.anchor = anchor, .current = nullptr, .last_anchor = nullptr}, {}, 7, bounds);
  CHECK(values_of(std::move(sums[0])) == std::vector<float>(7, 0.0f));
  const ScaledEcho small(2, 1.0f);
  auto half = sums_of({.anchor = small, .current = &infinite, .last_anchor = nullptr}, {0.6f, 0.8f},
                      2, bounds);
  CHECK_THAT(values_of(std::move(half[1]))[0], WithinAbs(-0.18, 1e-6));
}

TEST_CASE("exact differences of gradients are whole numbers, each within its bound",
          "[differences][exact][privacy]") {
  const ScaledEcho anchor(7, 1.0f), current(7, -3.0f), last(7, 40.0f);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const core::DifferenceBounds bounds{.since_anchor = 0.3, .between_anchors = 0.01};
  const std::vector<ParameterGroup> groups{{.name = "all", .offset = 0, .size = 7}};
  const core::Clip clip{.rule = flat_clipping(), .groups = groups, .clip_norm = 2.0};
  const core::Iterates iterates{.anchor = anchor, .current = &current, .last_anchor = &last};
  constexpr std::size_t kRows = 90;
  std::vector<float> features(7 * kRows);
  for (std::size_t i = 0; i < features.size(); ++i) {
    // Every other row is so short that it is clipped only at the last anchor.
    const float size = i / 7 % 2 == 0 ? std::exp(4.0f * normal(random)) : 0.02f;
    features[i] = size * normal(random);
  }
  const Dataset data(ExampleShape{{7}, 0}, std::move(features), std::vector<float>(kRows));
  const auto cells_of = [&](const std::vector<std::uint32_t>& rows) {
    std::vector<std::vector<std::int64_t>> cells;
    for (const auto& sum : core::anchored_exact_sums(iterates, data, rows, clip, bounds, serial)) {
      // The number of whole cells, 2^26 for a clip norm of 2, that fit into the bound.
      const double bound[] = {2.0, 0.3, 0.01};
      CHECK(sum.levels() == static_cast<std::uint64_t>(bound[cells.size()] / 2.0 * 0x1p26));
      CHECK(sum.l2_bound() <= bound[cells.size()]);
      cells.push_back(core::cells_for_testing(sum));
    }
    return cells;
  };
  std::vector<std::uint32_t> all(kRows);
  std::iota(all.begin(), all.end(), 0U);
  const auto whole = cells_of(all);
  REQUIRE(whole.size() == 3);
  std::size_t clipped[3] = {};
  for (std::uint32_t row = 0; row < kRows; row += 3) {
    std::vector<std::uint32_t> others = all;
    others.erase(others.begin() + row);
    const auto without = cells_of(others), own = cells_of({row});
    const long double most[] = {0x1p26L, 0.15L * 0x1p26L, 0.005L * 0x1p26L};
    for (std::size_t p = 0; p < 3; ++p) {
      long double squares = 0.0L;
      for (std::size_t i = 0; i < 7; ++i) {
        REQUIRE(whole[p][i] - without[p][i] == own[p][i]);
        squares += static_cast<long double>(own[p][i]) * static_cast<long double>(own[p][i]);
      }
      REQUIRE(squares <= most[p] * most[p]);
      clipped[p] += squares > 0.999L * most[p] * most[p] ? 1 : 0;
    }
  }
  for (const std::size_t count : clipped) CHECK(count > 3);  // and none is needlessly short
}

TEST_CASE("the gradient of the mean loss is measured whole", "[differences]") {
  const EchoProgram program(2);
  // Mean of (3, 0) and (0, 8): the norm of (1.5, 4). No clip norm is involved.
  const Dataset data(ExampleShape{{2}, 0}, {3.0f, 0.0f, 0.0f, 8.0f}, {0.0f, 0.0f});
  CHECK_THAT(core::mean_gradient_norm(program, data, serial),
             WithinRel(std::sqrt(1.5 * 1.5 + 16.0), 1e-12));
}

TEST_CASE("three trees cost together what dense algebra says of each", "[differences][privacy]") {
  for (const Setting& setting : kSettings) {
    const auto aggregator = reduced(setting);
    const auto parts = core::parts_of(*aggregator, differences_of(*aggregator), setting.steps);
    CHECK(parts.size() == (setting.epoch < setting.steps ? 3 : 2));
    const Participation order = cyclic(setting);
    const core::CorrelatedCost cost = core::cost_of(parts, order);
    CHECK_FALSE(cost.is_attained);
    double worst = 0.0;
    for (std::uint32_t group = 0; group < order.groups(); ++group) {
      double expected = 0.0;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto matrices = matrices_of(*aggregator, p, parts[p]);
        const std::size_t steps = parts[p].recipes.steps();
        std::vector<double> u(steps, 0.0);
        for (std::size_t t = 0; t < steps; ++t) {
          for (std::size_t s = 0; s < steps; ++s) {
            if ((parts[p].first_step + s) % setting.epoch == group)
              u[t] += matrices.data[t][s] * parts[p].bound(s);
          }
        }
        expected += squared_length_under(covariance(matrices, steps), u);
      }
      CHECK_THAT(cost.of_groups[group], WithinRel(expected, 1e-9));
      worst = std::max(worst, expected);
    }
    CHECK_THAT(cost.worst_after.back(), WithinRel(worst, 1e-9));
  }
}

TEST_CASE("differences are let through as far as the learning rates can have led",
          "[differences][privacy]") {
  // Learning rate 0.03, smoothness 2, clip norm 1.5: 0.04 clip norms per step.
  const auto aggregator = reduced({5, 23, 0.9, 0.3});
  const auto& differences = differences_of(*aggregator);
  CHECK(differences.epoch_steps() == 5);
  for (std::uint64_t t = 0; t < 23; ++t) {
    CHECK_THAT(differences.difference_bound(GradientDifference::since_anchor, t),
               WithinAbs(0.04 * double(t % 5), 1e-12));
    CHECK_THAT(differences.difference_bound(GradientDifference::between_anchors, t),
               WithinAbs(t < 5 ? 0.0 : 0.2, 1e-12));
  }
  // The distance of two clipped gradients is at most 2 clip norms, however far apart the iterates
  // are.
  const auto far = reduced({100, 150, 0.9, 0.3});
  CHECK_THAT(differences_of(*far).difference_bound(GradientDifference::since_anchor, 45),
             WithinAbs(1.8, 1e-12));
  CHECK(differences_of(*far).difference_bound(GradientDifference::since_anchor, 60) == 2.0);
  CHECK(differences_of(*far).difference_bound(GradientDifference::between_anchors, 100) == 2.0);
}

// Tran and Cutkosky (2022), Lemma 17, as printed, for scalars: G[1,t] from windows of an epoch,
// with steps counted from 1. Their proof uses G_i - Delta_i as G_{i-N}.
namespace {

double window(const std::vector<double>& values, double beta, std::int64_t from, std::int64_t to) {
  double sum = 0.0;
  for (std::int64_t i = from; i <= to; ++i)
    sum += std::pow(beta, double(to - i)) * values[static_cast<std::size_t>(i - 1)];
  return sum;
}

double lemma_17(const std::vector<double>& g, const std::vector<double>& delta, double beta,
                double gamma, std::int64_t t, std::int64_t n) {
  const std::int64_t q = t / n, r = t - q * n;
  double sum = std::pow(beta, double(t - r)) * window(g, beta, 1, r);
  for (std::int64_t i = 0; i < q; ++i) {
    sum += std::pow(beta, double(n * i)) * std::pow(1.0 - gamma, double(q - i - 1)) *
           window(g, beta, r + 1, r + n);
  }
  for (std::int64_t i = 1; i < q; ++i) {
    double weight = 0.0;
    for (std::int64_t j = 0; j < i; ++j)
      weight += std::pow(1.0 - gamma, double(j)) * std::pow(beta, double((i - 1 - j) * n));
    const std::int64_t from = t - i * n + 1, to = t - (i - 1) * n;
    sum += weight *
           ((1.0 - gamma) * window(delta, beta, from, to) + gamma * window(g, beta, from, to));
  }
  return sum;
}

/// Gradients of `n` examples that change with the epoch, in an order per epoch.
struct Story {
  std::vector<double> g, delta;
};
Story story(std::uint64_t n, std::uint64_t steps, bool fresh_order) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<double> gradient(n), before(n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (double& value : gradient) value = normal(random);
  Story result;
  for (std::uint64_t t = 0; t < steps; ++t) {
    if (t % n == 0) {
      before = gradient;
      if (t > 0) {
        for (double& value : gradient) value += 0.1 * normal(random);
      }
      if (fresh_order) std::shuffle(order.begin(), order.end(), random);
    }
    const std::size_t example = order[t % n];
    result.g.push_back(gradient[example]);
    result.delta.push_back(t < n ? 0.0 : gradient[example] - before[example]);
  }
  return result;
}

/// Returns the result of tree_reduced for the same data, released without noise and without a
/// since_anchor part.
std::vector<double> combined_values(const Setting& setting, const Story& told) {
  const auto aggregator = reduced(setting);
  std::vector<double> results;
  double g = 0.0, delta = 0.0;
  for (std::uint64_t t = 0; t < setting.steps; ++t) {
    g = setting.momentum * g + told.g[t];
    delta = setting.momentum * delta + told.delta[t];
    const float zero = 0.0f, of_g = float(g), of_delta = float(delta);
    float out = 0.0f;
    const auto one = [](const float& value) { return std::span<const float>(&value, 1); };
    differences_of(*aggregator)
        .combine(t, one(of_g), one(zero),
                 t < setting.epoch ? std::span<const float>{} : one(of_delta), std::span(&out, 1));
    results.push_back(double(out));
  }
  return results;
}

}  // namespace

TEST_CASE("the recursion of tree_reduced is the momentum that Lemma 17 puts together",
          "[differences]") {
  for (const Setting& setting : kSettings) {
    const Story told = story(setting.epoch, setting.steps, false);
    const std::vector<double> recursion = combined_values(setting, told);
    for (std::uint64_t t = 1; t <= setting.steps; ++t) {
      const double momentum = window(told.g, setting.momentum, 1, std::int64_t(t));
      const double printed = lemma_17(told.g, told.delta, setting.momentum, setting.gamma,
                                      std::int64_t(t), std::int64_t(setting.epoch));
      CHECK_THAT(printed, WithinAbs(momentum, 1e-12));
      CHECK_THAT(recursion[t - 1], WithinAbs(momentum, 1e-5));  // float32
    }
  }
}

TEST_CASE("noisy releases are put together with weight gamma on whole gradients", "[differences]") {
  // Without noise both ways of combining agree, whatever gamma is; with noise they do not. The
  // releases here are unrelated, and the formula comes from the documentation.
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (const Setting& setting : kSettings) {
    const auto aggregator = reduced(setting);
    const auto n = static_cast<std::size_t>(setting.epoch);
    std::vector<double> g, m;
    for (std::size_t t = 0; t < setting.steps; ++t) {
      const auto at_anchor = float(normal(random)), since = float(normal(random)),
                 between = float(normal(random));
      g.push_back(double(at_anchor));
      const double whole = g[t];
      m.push_back(t < n ? whole
                        : setting.gamma * whole +
                              (1.0 - setting.gamma) *
                                  (double(between) +
                                   std::pow(setting.momentum, double(t - n + 1)) * g[n - 1] +
                                   m[t - n]));
      float out = 0.0f;
      differences_of(*aggregator)
          .combine(t, std::span(&at_anchor, 1), std::span(&since, 1),
                   t < n ? std::span<const float>{} : std::span(&between, 1), std::span(&out, 1));
      CHECK_THAT(double(out), WithinAbs(m[t] + double(since), 1e-5));
    }
  }
}

TEST_CASE("Lemma 17 does not hold for a fresh permutation in every epoch", "[differences]") {
  const Story told = story(8, 37, true);
  double worst = 0.0;
  for (std::int64_t t = 1; t <= 37; ++t) {
    worst = std::max(worst, std::fabs(lemma_17(told.g, told.delta, 0.97, 0.05, t, 8) -
                                      window(told.g, 0.97, 1, t)));
  }
  CHECK(worst > 0.5);
}

TEST_CASE("tree_reduced divides its noise by what each kind of node costs and does",
          "[differences]") {
  // The smallest error sum a_k m_k^2 for a given cost sum c_k / m_k^2: m_k^2 ~ sqrt(c_k / a_k).
  // Four epochs of five steps, gamma 0.3; w = 0.7^2 is the factor by which an epoch reduces a
  // node's squared weight.
  const auto aggregator = reduced({5, 20, 0.9, 0.3});
  const double w = 0.49;
  const double first_error = (1.0 + w + w * w + w * w * w) / 4.0;
  const double grown = (0.0 + 1.0 + (1.0 + w) + (1.0 + w + w * w)) / 4.0;
  const double unit = std::pow(1.0 / first_error, 0.25);  // for one use of each example
  const double later = std::pow(3.0 / (0.09 * grown), 0.25);
  const double between = std::pow(3.0 * 0.2 * 0.2 / (w * grown), 0.25);  // bounds of 0.2
  // Bounds of 0, 0.04, 0.08, 0.12 and 0.16; an example has one of them.
  const double since =
      std::pow(4.0 * 0.04 * 0.04 * (0.0 + 1.0 + 4.0 + 9.0 + 16.0) / 5.0 / 1.0, 0.25);
  const auto multiplier = [](const ReleaseRecipe& recipe) { return recipe.noise[0].multiplier; };
  const auto& differences = differences_of(*aggregator);
  // Steps 0 and 6 have the same noise multiplier.
  const double node = multiplier(aggregator->recipe(0));
  CHECK(node == 1.3);
  CHECK_THAT(multiplier(aggregator->recipe(6)), WithinRel(node * later / unit, 1e-12));
  CHECK_THAT(multiplier(differences.difference_recipe(GradientDifference::between_anchors, 1)),
             WithinRel(node * between / unit, 1e-12));
  CHECK_THAT(multiplier(differences.difference_recipe(GradientDifference::since_anchor, 6)),
             WithinRel(node * since / unit, 1e-12));
}

TEST_CASE("tree_reduced predicts the noise of what it puts together", "[differences]") {
  for (const Setting& setting : kSettings) {
    const auto aggregator = reduced(setting);
    const auto& differences = differences_of(*aggregator);
    const auto parts = core::parts_of(*aggregator, differences, setting.steps);
    // Applies the rule for M_t to the nodes' coefficients; columns of part p begin at p * columns.
    const std::size_t columns = setting.steps, n = setting.epoch;
    Matrix m(setting.steps, std::vector<double>(3 * columns, 0.0));
    const auto g = matrices_of(*aggregator, 0, parts[0]), r = matrices_of(*aggregator, 1, parts[1]);
    std::vector<double> predicted = differences.combined_noise();
    REQUIRE(predicted.size() == setting.steps);
    for (std::size_t t = 0; t < setting.steps; ++t) {
      const auto add = [&](const std::vector<double>& row, std::size_t begin, double weight) {
        for (std::size_t j = 0; j < row.size(); ++j) m[t][begin + j] += weight * row[j];
      };
      if (t < n) {
        add(g.noise[t], 0, 1.0);
      } else {
        const auto d = matrices_of(*aggregator, 2, parts[2]);
        const double left = 1.0 - setting.gamma;
        add(g.noise[t], 0, setting.gamma);
        add(d.noise[t - n], columns, left);
        add(g.noise[n - 1], 0, left * std::pow(setting.momentum, double(t - n + 1)));
        add(m[t - n], 0, left);
      }
      double variance = 0.0;
      for (const double value : m[t]) variance += value * value;
      for (const double value : r.noise[t]) variance += value * value;
      CHECK_THAT(predicted[t], WithinRel((1.0 - setting.momentum) * std::sqrt(variance), 1e-9));
    }
  }
}

namespace {

/// Returns two parts with the same recipes, the second from step 2 on and of half the bound.
std::vector<CorrelatedPart> two_parts() {
  const auto recipe = [](std::uint64_t step) {
    ReleaseRecipe made{.keep = 1.0, .earlier = {}, .noise = {{step, 1.0}}};
    if (step > 0) made.earlier = {{step - 1, 1.0}};
    return made;
  };
  return {{core::CorrelatedRecipes::of(recipe, 6)},
          {core::CorrelatedRecipes::of(recipe, 4), 2, std::vector<double>(4, 0.5)}};
}

class Payments {
 public:
  explicit Payments(const std::vector<CorrelatedPart>& parts)
      : ledger_(dir_.path() / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                accountant_, "fake", {}) {
    std::vector<core::Charge> charges;
    for (std::uint64_t step = 0; step < 6; ++step)
      charges.push_back({step, core::release_of(parts, step), Event::gaussian(1.0)});
    receipts_ = ledger_.charge(charges);
  }
  core::Receipt take(std::size_t step) { return std::move(receipts_.at(step)); }

 private:
  TempDir dir_;
  CountingAccountant accountant_;
  core::Ledger ledger_;
  std::vector<core::Receipt> receipts_;
};

/// Returns sums of zeros with these bounds.
std::vector<Bounded> zeros(std::size_t size, const std::vector<double>& bounds) {
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::vector<float>(size, 0.0f), {0.0f});
  std::vector<Bounded> sums;
  for (const double bound : bounds)
    sums.push_back(clipped_sum(program, data, std::vector<std::uint32_t>{0}, bound, serial));
  return sums;
}

}  // namespace

TEST_CASE("each part of a release has noise of its own", "[differences][privacy]") {
  constexpr std::size_t kSize = 20'000;
  const auto parts = two_parts();
  CorrelatedMechanism mechanism(parts, core::RandomKey::from_seed(2), serial);
  Payments payments(parts);
  mechanism.release(zeros(kSize, {1.0}), payments.take(0), 1.0);
  mechanism.release(zeros(kSize, {1.0}), payments.take(1), 1.0);
  for (std::size_t step = 2; step < 6; ++step) {
    const auto released = mechanism.release(zeros(kSize, {1.0, 0.5}), payments.take(step), 1.0);
    REQUIRE(released.size() == 2);
    double own = 0.0, both = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) {
      const double one = released[0].values()[i], other = released[1].values()[i];
      own += other * other;
      both += one * other;
    }
    // Noise is in units of the first bound, even for a part with shorter contributions: prefix sums
    // of step - 1 nodes. Six standard errors give one false alarm in 10^8 seeds.
    const double steps = double(step - 1), error = 6.0 / std::sqrt(double(kSize));
    CHECK_THAT(released[1].noise_stddev(), WithinRel(std::sqrt(steps), 1e-12));
    CHECK(std::fabs(own / double(kSize) - steps) < error * std::sqrt(2.0) * steps);
    CHECK(std::fabs(both / double(kSize)) < error * std::sqrt(steps * double(step + 1)));
  }
}

TEST_CASE("no two of three parts have noise in common", "[differences][privacy]") {
  // The difference of two releases with the same noise would have no noise.
  constexpr std::size_t kSize = 20'000;
  const auto recipe = [](std::uint64_t step) {
    return ReleaseRecipe{.keep = 0.0, .earlier = {}, .noise = {{step, 1.0}}};
  };
  const std::vector<CorrelatedPart> parts(3, {core::CorrelatedRecipes::of(recipe, 6)});
  CorrelatedMechanism mechanism(parts, core::RandomKey::from_seed(2), serial);
  Payments payments(parts);
  const auto released = mechanism.release(zeros(kSize, {1.0, 1.0, 1.0}), payments.take(0), 1.0);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      double product = 0.0;
      for (std::size_t i = 0; i < kSize; ++i)
        product += double(released[a].values()[i]) * double(released[b].values()[i]);
      // Six standard errors: one false alarm in 10^8 seeds.
      CHECK(std::fabs(product / double(kSize)) < 6.0 / std::sqrt(double(kSize)));
    }
  }
}

TEST_CASE("a release of several parts is paid for, and bounded, in every part",
          "[differences][privacy]") {
  const auto parts = two_parts();
  CorrelatedMechanism mechanism(parts, core::RandomKey::from_seed(2), serial);
  Payments payments(parts);
  mechanism.release(zeros(3, {1.0}), payments.take(0), 1.0);
  mechanism.release(zeros(3, {1.0}), payments.take(1), 1.0);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, {1.0}), payments.take(2), 1.0),
                    ContainsSubstring("has 1 sums, its recipes ask for 2"));
  Payments again(parts);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, {1.0, 0.6}), again.take(2), 1.0),
                    ContainsSubstring("of bound 0.6, planned are 3 of bound 0.5"));
  // A receipt only for the first part's noise, like the receipt of step 1.
  Payments third(parts);
  CHECK_THROWS_AS(mechanism.release(zeros(3, {1.0, 0.5}), third.take(1), 1.0), PrivacyError);
  const std::vector<CorrelatedPart> first_alone{parts.front()};
  Payments other(first_alone);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, {1.0, 0.5}), other.take(2), 1.0),
                    ContainsSubstring("paid for other noise"));
  Payments right(parts);
  CHECK(mechanism.release(zeros(3, {1.0, 0.5}), right.take(2), 1.0).size() == 2);
}

TEST_CASE("the first part is the unit of all bounds: it has none of its own, and begins the run",
          "[differences][privacy]") {
  // A bound of 1/2 would be charged as 1/2, but no sum would ever be checked against it.
  auto bounded = two_parts();
  bounded[0].bounds.assign(6, 0.5);
  CHECK_THROWS_AS(CorrelatedMechanism(bounded, core::RandomKey::from_seed(2), serial), ConfigError);
  auto late = two_parts();
  late[0].first_step = 1;
  CHECK_THROWS_AS(CorrelatedMechanism(late, core::RandomKey::from_seed(2), serial), ConfigError);
}
