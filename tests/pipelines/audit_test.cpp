// Audits of whole manifests: how often a lower bound exceeds the proved one, how near it comes, and
// what it finds if the noise is not the charged one.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>

#include "privgrad/backend.hpp"
#include "privgrad/network.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/studies/audit.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "trials.hpp"

using namespace privgrad;

namespace {

constexpr const char* kAudited = R"(privgrad: 1
name: audited
data: {kind: synthetic, rows: 200, test_rows: 10, dimensions: 3, test_is_public: true}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: gdp}
steps: 4
)";

core::AuditResult audited(const Overrides& set, core::AuditOptions options = {},
                          const Catalog& catalog = house()) {
  Experiment experiment(kAudited, set, catalog);
  return core::audit(experiment.plan(), options);
}

/// Returns P[Binomial(n, p) > k], by summation.
double tail_above(int n, double p, int k) {
  double below = 0.0;
  for (int i = 0; i <= k; ++i) {
    below += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) +
                      i * std::log(p) + (n - i) * std::log1p(-p));
  }
  return 1.0 - below;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The bound that the method would find if distinguishing each canary were like distinguishing N(0,
/// 1) from N(mu, 1).
double ideal_epsilon(const core::AuditBound& planned, const std::vector<double>& mus,
                     std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<std::pair<double, bool>> guesses;
  for (const double mu : mus) {
    const bool coin = random() % 2 == 1;
    const double score = mu * (normal(random) + (coin ? mu : 0.0) - mu / 2.0);
    guesses.emplace_back(std::fabs(score), (score > 0.0) == coin);
  }
  std::sort(guesses.rbegin(), guesses.rend());
  core::Guesses made = planned.guesses;
  made.correct = 0;
  for (std::uint64_t i = 0; i < made.made; ++i) made.correct += guesses[i].second ? 1 : 0;
  return core::gaussian_epsilon(core::f_dp_mu(made, 0.01), 1e-5);
}

/// The bound that the method would find if canaries take part by chance and
/// the noise is as planned. \returns the factor of the noise that is
/// excluded.
double ideal_sampled(const core::AuditBound& planned, const core::Plan& plan,
                     const core::SampledFamily& family, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const bool opposites = plan.manifest->adjacency == Adjacency::replace_one;
  const double q = plan.batch_size.front() / static_cast<double>(plan.dataset_size);
  const double z = plan.noise_multiplier.front();
  const auto ratio = [&](double y) {
    const double missing = opposites ? 1.0 - q + q * std::exp((-y - 0.5) / (z * z)) : 1.0;
    return std::log((1.0 - q + q * std::exp((y - 0.5) / (z * z))) / missing);
  };
  std::vector<std::pair<double, bool>> guesses;
  for (std::uint64_t canary = 0; canary < planned.guesses.canaries; ++canary) {
    const bool coin = random() % 2 == 1;
    double score = 0.0;
    for (std::uint64_t step = 0; step < plan.affordable_steps; ++step) {
      const double side = coin ? 1.0 : opposites ? -1.0 : 0.0;
      score += ratio(z * normal(random) + (uniform(random) < q ? side : 0.0));
    }
    guesses.emplace_back(std::fabs(score), (score > 0.0) == coin);
  }
  std::sort(guesses.rbegin(), guesses.rend());
  core::Guesses made = planned.guesses;
  made.correct = 0;
  for (std::uint64_t i = 0; i < made.made; ++i) made.correct += guesses[i].second ? 1 : 0;
  return family.one_run_factor(made, 0.01);
}

/// Returns how visible each example is in all releases, in units of their noise, according to the
/// charges of the plan. For correlated releases this depends on the example's place in the order.
std::vector<double> seen_by(const core::Plan& plan) {
  std::vector<double> mus(plan.dataset_size);
  if (plan.correlated) {
    const std::vector<double>& squares = plan.correlated->order->cost.of_groups;
    REQUIRE(squares.size() == mus.size());
    const double factor = plan.manifest->adjacency == Adjacency::replace_one ? 2.0 : 1.0;
    for (std::size_t i = 0; i < mus.size(); ++i) mus[i] = factor * std::sqrt(squares[i]);
    return mus;
  }
  if (plan.accountants.front().name == "gdp")
    return std::vector<double>(plan.dataset_size, core::gaussian_mu(plan.epsilon().value, 1e-5));
  double squares = 0.0;  // for the discrete Gaussian, which is charged as zCDP
  for (const core::Charge& charge : plan.charges)
    squares += 2.0 * std::get<ZcdpEvent>(charge.cost.kind()).rho;
  return std::vector<double>(plan.dataset_size, std::sqrt(squares));
}

/// Draws every row in every step, but charges as if each were in one of five steps.
class Understates final : public Sampler {
 public:
  explicit Understates(const Params&) {}
  void start(const SamplingPlan& plan) override { plan_ = plan; }
  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(plan_.dataset_size);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged(releases.size(), Event::nothing());
    for (std::size_t step = 0; step < charged.size(); step += 5) charged[step] = releases[step];
    return charged;
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), 0u);
  }

 private:
  SamplingPlan plan_;
};

/// A model with one parameter, a bias. Its passes add up cells in float32.
class SingleSums final : public Program, public ExactClipping {
 public:
  explicit SingleSums(std::size_t parameters) : parameters_(parameters) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float> parameters) override { bias_ = parameters.back(); }
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    std::fill(rows.begin(), rows.end(), 0.0f);
    for (std::size_t i = 0; i < batch.rows(); ++i)
      rows[(i + 1) * parameters_ - 1] = bias_ - batch.targets[i];
  }
  Evaluation evaluate(const Batch&) const override { return {}; }
  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 1u << 20; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Own>(); }
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    auto& own = dynamic_cast<Own&>(pass);
    own.gradients.clear();
    for (std::size_t i = 0; i < batch.rows(); ++i) {
      own.gradients.push_back(static_cast<double>(bias_ - batch.targets[i]));
      squared_norms[i] = own.gradients[i] * own.gradients[i];
    }
  }
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override {
    auto& own = dynamic_cast<Own&>(pass);
    const auto most = static_cast<double>(most_cells);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      own.gradients[i] = std::trunc(std::clamp(scales[i] * own.gradients[i], -most, most));
      lengths[i] = {0, static_cast<std::uint64_t>(own.gradients[i] * own.gradients[i])};
    }
  }
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    const auto& own = dynamic_cast<Own&>(pass);
    float all = 0.0f;
    for (std::size_t i = 0; i < taken.size(); ++i)
      if (taken[i] != 0) all += static_cast<float>(own.gradients[i]);
    sum.back() += static_cast<std::int64_t>(all);
  }

 private:
  struct Own final : Pass {
    std::vector<double> gradients;
  };
  std::size_t parameters_;
  float bias_ = 0.0f;
};

class SingleBackend final : public Backend {
 public:
  explicit SingleBackend(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor&) override {
    return std::make_unique<SingleSums>(parameter_count(network));
  }
};

}  // namespace

TEST_CASE("lower bounds are above the proved one no more often than they may",
          "[audit][privacy][long]") {
  // Every kind of coin, sampler, aggregator, clipping, arithmetic and mode that audits support.
  const std::string shuffle = "sampler={kind: shuffle, batch_size: 50}";
  const std::string poisson = "sampler={kind: poisson, batch_size: 40}";
  const std::string add_or_remove = "privacy.adjacency=add_or_remove_one";
  const std::string replace = "privacy.adjacency=replace_one";
  const std::string zcdp = "privacy.accountant=zcdp";
  const std::vector<Overrides> combinations{
      {},
      {add_or_remove},
      {replace},
      {poisson, "privacy.accountant=rdp"},
      {poisson, "privacy.accountant=pld", add_or_remove},
      {"sampler={kind: fixed_size, batch_size: 40}", "privacy.accountant=rdp", replace},
      {shuffle},
      {"sampler={kind: sequential, batch_size: 50}", replace},
      {"aggregator=tree", shuffle, "steps=8", zcdp},
      {"aggregator={kind: tree, momentum: 0.9}", replace, zcdp},
      {"aggregator=matrix", shuffle, "steps=8", zcdp},
      {"clipping=per_layer", "model={kind: mlp, hidden: [3]}"},
      {"clipping=adaptive", add_or_remove},
      {"clipping=automatic", "aggregator.arithmetic=float"},
      {"clipping=normalized", "mode=release", "data.test_is_public=true"},
      {"schedules.noise_multiplier=validation", zcdp},
  };
  const int audits = trials(1000, "audits");
  int above = 0;
  for (int i = 0; i < audits; ++i) {
    const Overrides& set = combinations[static_cast<std::size_t>(i) % combinations.size()];
    INFO((set.empty() ? std::string("as it is") : set.front()));
    const bool in_release = std::find(set.begin(), set.end(), "mode=release") != set.end();
    const Overrides seeded =
        with(set, in_release ? Overrides{} : Overrides{"seed=" + std::to_string(i)});
    const core::AuditResult result = audited(seeded, {.canaries = 100});
    CHECK(result.epsilon_upper <= 3.0);
    CHECK(result.epsilon_upper > 2.9);
    above += result.contradicts() ? 1 : 0;
  }
  // The largest count of the binomial distribution, with a false-alarm probability of 10^-6.
  int most = 0;
  while (tail_above(audits, 0.01, most) > 1e-6) ++most;
  CHECK(above <= most);
}

TEST_CASE("bounds from repeated runs of a Gaussian are above it as often as they may",
          "[audit][privacy][long]") {
  // Of 20 guesses, k are correct: the bound at confidence 80 % exceeds epsilon from the first k on
  // whose tail probability is below 20 %. Each guess is correct with probability Phi(mu / 2).
  const int audits = trials(1000, "audits of 20 runs");
  const double mu = core::gaussian_mu(3.0, 1e-5);
  const double right = 0.5 * std::erfc(-mu / 2.0 / std::sqrt(2.0));
  int least_right = 0;
  while (core::repeated_mu({20, 20, static_cast<std::uint64_t>(least_right)}, 0.2) <= mu)
    ++least_right;
  const double expected = tail_above(20, right, least_right - 1);
  REQUIRE(expected > 0.05);
  REQUIRE(expected <= 0.2);
  int above = 0;
  for (int i = 0; i < audits; ++i) {
    const core::AuditResult result =
        audited({"steps=1", "data.rows=20", "seed=" + std::to_string(i)},
                {.kind = core::AuditKind::repeated, .runs = 20, .confidence = 0.8});
    above += result.contradicts() ? 1 : 0;
  }
  // Two-sided, with a false-alarm probability of 10^-5 each.
  INFO(above << " of " << audits << " where " << expected << " of all are expected");
  CHECK(tail_above(audits, expected, above - 1) > 1e-5);
  CHECK(1.0 - tail_above(audits, expected, above) > 1e-5);
}

TEST_CASE("bounds from repeated sampled runs are above as often as they may",
          "[audit][privacy][long]") {
  // As above, for 20 runs whose steps take each row with probability 1/2: likelihood-ratio guesses
  // are correct with probability 1/2 plus half of the total variation, computed by integrals.
  const int audits = trials(300, "audits of 20 sampled runs");
  const Overrides set{"steps=4", "data.rows=20", "sampler={kind: poisson, batch_size: 10}",
                      "privacy.accountant=pld"};
  Experiment planned(kAudited, with(set, {"seed=1"}));
  const auto family = core::sampled_family(planned.plan().event, Adjacency::zero_out);
  REQUIRE(family);
  const double right = family->at(1.0).expected_accuracy(1.0);
  std::uint64_t least_right = 0;
  while (family->repeated_factor({20, 20, least_right}, 0.2) <= 1.0) ++least_right;
  const double expected = tail_above(20, right, static_cast<int>(least_right) - 1);
  REQUIRE(expected > 0.05);
  REQUIRE(expected <= 0.2);
  int above = 0;
  for (int i = 0; i < audits; ++i) {
    const core::AuditResult result =
        audited(with(set, {"seed=" + std::to_string(i)}),
                {.kind = core::AuditKind::repeated, .runs = 20, .confidence = 0.8});
    CHECK(result.bound().method == "repeated_sampled");
    above += result.contradicts() ? 1 : 0;
  }
  // Two-sided, with a false-alarm probability of 10^-5 each.
  INFO(above << " of " << audits << " where " << expected << " of all are expected");
  CHECK(tail_above(audits, expected, above - 1) > 1e-5);
  CHECK(1.0 - tail_above(audits, expected, above) > 1e-5);
}

TEST_CASE("choosing where and how to look costs the bound nothing", "[audit][privacy][long]") {
  // A correct run with eight places: the chosen place fits the first two thirds of the runs by
  // chance, so these must not count. If they did, almost every audit at confidence 80 % would
  // exceed epsilon.
  const int audits = trials(100, "audits that choose among eight places");
  int above = 0;
  for (int i = 0; i < audits; ++i) {
    const core::AuditResult result = audited(
        {"steps=2", "data.rows=20", "privacy.target_epsilon=0.05", "seed=" + std::to_string(i)},
        {.kind = core::AuditKind::repeated, .canaries = 8, .runs = 30, .confidence = 0.8});
    CHECK(result.bound().guesses.canaries == 10);  // the last third
    above += result.contradicts() ? 1 : 0;
  }
  int most = 0;
  while (tail_above(audits, 0.2, most) > 1e-5) ++most;
  INFO(above << " of " << audits);
  CHECK(above <= most);
}

TEST_CASE("repeated runs of a full-batch Gaussian come near the proved epsilon",
          "[audit][privacy]") {
  // 10,000 guesses, each correct with probability Phi(mu / 2), give 0.91 of the proved epsilon,
  // with a standard deviation of 0.04. The seed is fixed.
  for (const char* adjacency : {"zero_out", "replace_one"}) {
    const core::AuditResult result = audited(
        {"steps=1", "data.rows=20", "seed=7", std::string("privacy.adjacency=") + adjacency},
        {.kind = core::AuditKind::repeated, .runs = 10000});
    INFO(adjacency);
    CHECK(result.bound().method == "repeated_gaussian");
    CHECK(result.bound().epsilon >= 0.8 * result.epsilon_upper);
    CHECK(result.bound().epsilon <= result.epsilon_upper);
  }
}

TEST_CASE("one run gets what its method gets of an ideal Gaussian",
          "[audit][privacy][long][slow]") {
  const std::string shuffle = "sampler={kind: shuffle, batch_size: 100}";
  const std::vector<Overrides> combinations{
      {},
      {"privacy.adjacency=add_or_remove_one", "clipping=adaptive"},
      {"privacy.adjacency=replace_one", shuffle, "steps=10"},
      {"clipping=per_layer", "model={kind: mlp, hidden: [3]}"},
      {"clipping=automatic", "aggregator.arithmetic=float"},
      {"aggregator=tree", shuffle, "steps=20", "privacy.accountant=zcdp"},
      {"aggregator={kind: matrix, bands: 2}", shuffle, "steps=20", "privacy.accountant=zcdp"}};
  const int audits = trials(200, "audits of each combination");
  for (const Overrides& set : combinations) {
    INFO((set.empty() ? std::string("as it is") : set.front()));
    std::vector<double> real, ideal;
    std::mt19937_64 random(5);
    for (int i = 0; i < audits; ++i) {
      Experiment experiment(kAudited, with(set, {"data.rows=1000", "seed=" + std::to_string(i)}));
      const std::vector<double> mus = seen_by(experiment.plan());
      const core::AuditResult result = core::audit(experiment.plan(), {});
      const auto gaussian =
          std::find_if(result.bounds.begin(), result.bounds.end(),
                       [](const core::AuditBound& one) { return one.assumes_gaussian; });
      real.push_back(gaussian->epsilon);
      for (int k = 0; k < 3; ++k) ideal.push_back(ideal_epsilon(*gaussian, mus, random));
    }
    // A bound's standard deviation is a fifth of its value, so the mean of 20 bounds has an error
    // of 5 %. The seeds are fixed.
    INFO(mean(real) << " of " << mean(ideal));
    CHECK(mean(real) >= 0.9 * mean(ideal));
    CHECK(mean(real) <= 1.1 * mean(ideal));
  }
}

TEST_CASE("one run of a sampled manifest gets what its method gets of the ideal sampled Gaussian",
          "[audit][privacy][long][slow]") {
  const std::vector<Overrides> combinations{
      {"sampler={kind: poisson, batch_size: 200}", "privacy.accountant=pld", "steps=20"},
      {"sampler={kind: poisson, batch_size: 50}", "privacy.accountant=pld", "steps=100",
       "privacy.adjacency=add_or_remove_one"},
      {"sampler={kind: poisson, batch_size: 100}", "privacy.accountant=pld", "steps=40",
       "privacy.adjacency=replace_one"}};
  const int audits = trials(100, "audits of each combination");
  for (const Overrides& set : combinations) {
    INFO(set.front());
    std::vector<double> real, ideal;
    std::mt19937_64 random(6);
    std::optional<core::SampledFamily> family;
    std::map<double, double> epsilons;  // by factor, because the grids take long to compute
    for (int i = 0; i < audits; ++i) {
      Experiment experiment(kAudited, with(set, {"data.rows=1000", "seed=" + std::to_string(i)}));
      if (!family)
        family =
            core::sampled_family(experiment.plan().event, experiment.plan().manifest->adjacency);
      REQUIRE(family);
      const core::AuditResult result = core::audit(experiment.plan(), {});
      CHECK(result.bound().method == "one_run_sampled");
      real.push_back(result.bound().epsilon);
      for (int k = 0; k < 5; ++k) {
        const double factor = ideal_sampled(result.bound(), experiment.plan(), *family, random);
        if (!epsilons.contains(factor)) epsilons[factor] = family->epsilon(factor, 1e-5);
        ideal.push_back(epsilons[factor]);
      }
    }
    // A bound's standard deviation is a fifth of its value; the seeds are fixed.
    INFO(mean(real) << " of " << mean(ideal));
    CHECK(mean(real) >= 0.9 * mean(ideal));
    CHECK(mean(real) <= 1.1 * mean(ideal));
    // The bound is meaningful: without the sampling's law it would be 0 to 0.2.
    CHECK(mean(real) >= 0.8);
  }
}

TEST_CASE("half of the noise that was charged for is found out", "[audit][privacy]") {
  const Overrides rows{"data.rows=2000", "seed=3"};
  Experiment honest(kAudited, rows);
  const double sigma = honest.plan().noise_multiplier.front();
  Experiment halved(kAudited,
                    with(rows, {"schedules.noise_multiplier=" + std::to_string(sigma / 2.0),
                                "privacy.target_epsilon=100"}));
  core::Plan plan = halved.plan();
  plan.accountants = honest.plan().accountants;
  for (const core::AuditOptions& options :
       {core::AuditOptions{.canaries = 2000},
        core::AuditOptions{.kind = core::AuditKind::repeated, .runs = 400}}) {
    CHECK_FALSE(core::audit(honest.plan(), options).contradicts());
    const core::AuditResult result = core::audit(plan, options);
    INFO(result.bound().epsilon);
    CHECK(result.epsilon_upper <= 3.0);
    CHECK(result.contradicts());
  }
}

TEST_CASE("neighbours that are crafted against floating point show it, and exact sums cover it",
          "[audit][exact][privacy]") {
  // A linear model of 4096 parameters; 300 runs of which 120 are guessed. In floating point, a
  // fifth of the 4096 numbers of a release are so near 0 that they show whether they are whole
  // steps of the noise; with the row, each of them is a whole step only by chance, with probability
  // 1/4 on average. So all guesses are correct, and the bound is the largest that 120 guesses can
  // prove, 2.9.
  const Overrides lattice{"data.rows=8", "data.dimensions=4095",     "data.target=linear",
                          "steps=1",     "privacy.target_epsilon=1", "seed=5"};
  const core::AuditOptions crafted{
      .kind = core::AuditKind::repeated, .neighbours = core::AuditNeighbours::lattice, .runs = 300};
  for (const char* adjacency : {"zero_out", "add_or_remove_one"}) {
    const std::string under = std::string("privacy.adjacency=") + adjacency;
    const core::AuditResult in_float =
        audited(with(lattice, {under, "aggregator.arithmetic=float"}), crafted);
    INFO(adjacency << ": " << in_float.bound().epsilon);
    CHECK(in_float.bound().method == "repeated");
    CHECK(in_float.bound().epsilon > 2.0 * in_float.epsilon_upper);
    CHECK(in_float.contradicts());
    CHECK_FALSE(audited(with(lattice, {under}), crafted).contradicts());
  }
}

TEST_CASE(
    "rows that are crafted against sums in single precision move no sum here, and such a sum ends "
    "its run",
    "[audit][exact][privacy]") {
  // 60 000 rows. One more row changes a float32 sum by some 42 clip norms, which the noise for
  // epsilon 1 does not hide; sums in double (arithmetic: float) and in whole numbers change by one.
  const Overrides rounding{"data.rows=60000", "data.dimensions=1",        "data.target=linear",
                           "steps=1",         "privacy.target_epsilon=1", "seed=6"};
  const core::AuditOptions crafted{
      .kind = core::AuditKind::repeated, .neighbours = core::AuditNeighbours::rounding, .runs = 60};
  for (const char* arithmetic : {"aggregator.arithmetic=float", "aggregator.arithmetic=exact"}) {
    INFO(arithmetic);
    CHECK_FALSE(audited(with(rounding, {arithmetic}), crafted).contradicts());
  }
  const Catalog catalog = house_with({offer<Backend, SingleBackend>("single")});
  // The run checks its only step, and finds that the sum does not belong to its examples.
  CHECK_THROWS_WITH(audited(with(rounding, {"backend=single"}), crafted, catalog),
                    ContainsSubstring("test:single: "));
}

TEST_CASE("an audit of a sampler that draws what it did not charge for ends as a run does",
          "[audit][privacy]") {
  const Catalog catalog = house_with({offer<Sampler, Understates>("understates")});
  CHECK_THROWS_WITH(
      audited({"sampler=understates", "steps=50", "data.rows=1000", "seed=4"}, {}, catalog),
      ContainsSubstring("test:understates: a row is in two batches"));
}

TEST_CASE("without noise nothing bounds epsilon from above, and every canary is seen", "[audit]") {
  for (const char* adjacency : {"zero_out", "replace_one", "add_or_remove_one"}) {
    const core::AuditResult result =
        audited({"privacy.noise=off", "seed=1", std::string("privacy.adjacency=") + adjacency});
    CHECK(std::isinf(result.epsilon_upper));
    CHECK(result.bound().method == "one_run_f_dp");
    CHECK(result.bound().guesses.made == 200);
    CHECK(result.bound().guesses.correct == 200);
    CHECK(core::to_json(result).at("epsilon_upper").is_null());
    CHECK_FALSE(result.contradicts());
  }
}

TEST_CASE("an audit is the same for any number of threads, and another for another seed",
          "[audit]") {
  const auto correct = [](const char* seed, int threads) {
    return audited({seed, "data.rows=1000"}, {.threads = threads}).bound().guesses.correct;
  };
  CHECK(correct("seed=1", 1) == correct("seed=1", 3));
  const std::uint64_t first = correct("seed=1", 1);
  CHECK((correct("seed=2", 1) != first || correct("seed=3", 1) != first ||
         correct("seed=4", 1) != first));
}

TEST_CASE("an audit charges no account and leaves nothing", "[audit]") {
  Experiment experiment(kAudited, {"seed=1"});
  (void)core::audit(experiment.plan(), {.canaries = 10});
  CHECK_FALSE(std::filesystem::exists(experiment.run_dir()));
  const auto entries = std::filesystem::directory_iterator(experiment.dir());
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // the manifest
}

TEST_CASE("what cannot be audited is refused in one line", "[audit]") {
  const auto refusal = [](const Overrides& set, const core::AuditOptions& options) {
    try {
      audited(with({"seed=1"}, set), options);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal({"federated={clients: 5, rounds: 2, local_iterations: 2}"}, {}) ==
        "federated: audits are of one owner's data; audit the manifest without this section");
  CHECK(
      refusal({"model.class_weights=balanced",
               "report.class_counts={noise_multiplier: 5, largest_weight: 4}"},
              {}) ==
      "model.class_weights: balanced follows from counts that an audit does not release; audit the "
      "manifest with a list of numbers");
  CHECK_THAT(refusal({"aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10, gamma: 0.5}",
                      "sampler={kind: shuffle, batch_size: 20}", "privacy.accountant=zcdp"},
                     {}),
             ContainsSubstring("aggregator.tree_reduced: releases differences of gradients"));
  CHECK(refusal({}, {.canaries = 201}) ==
        "canaries: is 201, allowed are at most the 200 training examples, which they replace");
  CHECK(refusal({}, {.confidence = 1.0}) == "confidence: is 1, allowed is (0, 1)");
}
