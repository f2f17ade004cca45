// The neighbouring-run test on runs whose steps depend on earlier releases: through shared noise,
// an adaptive clip norm or noise, or rounds of clients. A correct run is repeated number by number;
// a component with knowledge that only private rows can give is named.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fault.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/falsify/falsify.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// Four features and a bias for each of two classes: 10 parameters.
constexpr const char* kTenParameters = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, size: 60, test_rows: 20, dimensions: 4, test_is_public: true}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}}
steps: 12
)";

const std::string kDescentCheck =
    "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 3, raise: 0.5, "
    "loss_bound: 2, check_noise_multiplier: 30}";
const std::string kValidation =
    "schedules.noise_multiplier={kind: validation, initial: 20, every: 3, factor: 0.8}";
const std::string kTree = "aggregator={kind: tree, momentum: 0.9}";
const std::string kShuffle = "sampler={kind: shuffle, batch_size: 20}";
const std::string kAllocation = "sampler={kind: allocation, steps_per_epoch: 4}";
const std::string kClients =
    "federated={clients: 4, rounds: 4, local_iterations: 3, partition: iid}";
const std::string kAli =
    "federated={clients: 4, rounds: 4, local_iterations: {kind: ali_dpfl}, partition: iid}";
const std::string kServer =
    "federated={clients: 4, rounds: 4, local_iterations: 3, partition: iid, aggregation: "
    "dp_fed_avg, client_clip_norm: 0.5}";

/// Some of the drawn clients are drawn too early, and are refused.
const Overrides kSeparated = {
    "aggregator={kind: matrix, bands: 3}", "federated.rounds=10", "federated.local_iterations=1",
    "federated.participation={kind: poisson, sample_rate: 0.7}", "federated.min_separation=1"};

const std::string kStatistics =
    "data.transforms=[{kind: standardize, statistic: private, range: [-2, 2], noise_multiplier: "
    "4}, "
    "{kind: standardize, statistic: private, range: [-3, 3], noise_multiplier: 5}]";

const std::string kCounts = "data.size={about: 40, statistic: private, noise_multiplier: 9}";

const std::string kBalanced = "model.class_weights=balanced";
const std::string kBalancedCounts = "report.class_counts={noise_multiplier: 9, largest_weight: 4}";

const std::string kReport = "report.train_accuracy.noise_multiplier=3";

const std::string kReports = "report={train_accuracy: {noise_multiplier: 3, every: 2}}";

/// A kind of run whose steps depend on earlier releases.
struct Kind {
  const char* name;
  Overrides set;
};

const std::vector<Kind> kKinds = {
    {"tree, shuffled", {kTree, kShuffle}},
    {"tree, in the data's order", {kTree, "sampler={kind: sequential, batch_size: 20}"}},
    {"tree of whole recipes", {"aggregator={kind: tree, momentum: 0}", kShuffle}},
    {"noise that is taken back", {"aggregator={kind: matrix, bands: 3}", kShuffle}},
    {"noise that is taken back, amplified",
     {"aggregator={kind: matrix, form: banded, bands: 2}", "privacy.accountant=pld",
      "sampler={kind: cyclic_poisson, batch_size: 20, cycle: 2}", "privacy.adjacency=zero_out"}},
    {"cycles, replace_one",
     {"sampler={kind: cyclic_poisson, batch_size: 12, cycle: 3}", "privacy.accountant=pld",
      "privacy.adjacency=replace_one"}},
    {"tree of floating point", {kTree, kShuffle, "aggregator.arithmetic=float"}},
    {"tree_reduced",
     {"aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}",
      "sampler={kind: shuffle, batch_size: 20, fresh: false}", "optimizer=normalized_sgd",
      "schedules.learning_rate=0.02"}},
    {"tree_reduced of whole recipes",
     {"aggregator={kind: tree_reduced, momentum: 0, smoothness: 10}",
      "sampler={kind: shuffle, batch_size: 20, fresh: false}", "optimizer=normalized_sgd",
      "schedules.learning_rate=0.02"}},
    {"clip norm that adapts", {"clipping=adaptive"}},
    {"clip norm that adapts, in floating point",
     {"clipping=adaptive", "aggregator.arithmetic=float"}},
    {"clip norm that adapts, sampled",
     {"clipping=adaptive", "sampler={kind: poisson, sample_rate: 0.3}", "privacy.accountant=rdp",
      "privacy.adjacency=add_or_remove_one"}},
    {"coordinates that are scaled", {"clipping=adaclip"}},
    {"coordinates that are scaled, replace_one",
     {"clipping=adaclip", "privacy.adjacency=replace_one"}},
    {"coordinates that are scaled, in floating point",
     {"clipping=adaclip", "aggregator.arithmetic=float"}},
    {"coordinates that are scaled, sampled",
     {"clipping=adaclip", "sampler={kind: poisson, sample_rate: 0.3}", "privacy.accountant=rdp",
      "privacy.adjacency=add_or_remove_one"}},
    {"random allocation",
     {kAllocation, "privacy.accountant=pld", "privacy.adjacency=add_or_remove_one"}},
    {"random allocation, zero_out", {kAllocation, "privacy.accountant=pld"}},
    {"random allocation, a clip norm that adapts, reports on the way",
     {kAllocation, "privacy.accountant=pld", "privacy.adjacency=add_or_remove_one",
      "clipping=adaptive", kReports}},
    {"coordinates that are scaled, noise that follows the losses",
     {"clipping=adaclip", kDescentCheck}},
    {"noise that follows the losses", {kDescentCheck}},
    {"noise that follows the losses, replace_one",
     {kDescentCheck, "privacy.adjacency=replace_one"}},
    {"noise that follows public rows", {kValidation}},
    {"fed_avg", {kClients}},
    {"fed_avg, add_or_remove_one", {kClients, "privacy.adjacency=add_or_remove_one"}},
    {"dp_fed_avg with a tree",
     {kServer, kTree, "federated.participation={kind: shuffle, batch_size: 2}"}},
    {"dp_fed_avg with noise that is taken back",
     {kServer, "aggregator={kind: matrix, bands: 2}",
      "federated.participation={kind: shuffle, batch_size: 2}"}},
    {"dp_fed_avg, clients who come when they may", with({kServer}, kSeparated)},
    {"dp_fed_avg, clients who come when they may, one exchanged",
     with({kServer, "privacy.adjacency=replace_one"}, kSeparated)},
    {"dp_fed_avg, clients who come when they may, one not there",
     with({kServer, "privacy.adjacency=add_or_remove_one"}, kSeparated)},
    {"dp_fed_avg with noise that is taken back, amplified",
     {kServer, "aggregator={kind: matrix, form: banded, bands: 2}",
      "federated.participation={kind: cyclic_poisson, batch_size: 1, cycle: 2}",
      "privacy.accountant=pld", "privacy.adjacency=zero_out"}},
    {"fed_avg, clip norms that adapt", {kClients, "clipping=adaptive"}},
    {"fed_avg, some late, some lost",
     {kClients, "federated.client_drop_rate=0.3", "federated.straggler_rate=0.5"}},
    {"ali_dpfl", {kAli}},
    {"ali_dpfl, from models", {kAli, "federated.estimates=from_models"}},
    {"statistics that are paid for", {kStatistics}},
    {"statistics that are paid for, add_or_remove_one",
     {kStatistics, "privacy.adjacency=add_or_remove_one"}},
    {"statistics that are paid for, tree", {kStatistics, kTree, kShuffle}},
    {"counts that are paid for",
     {kStatistics, kReport, kCounts, "report.class_counts.noise_multiplier=3",
      "privacy.adjacency=add_or_remove_one"}},
    {"counts that are paid for, sampled",
     {kReport, kCounts, "sampler={kind: poisson, sample_rate: 0.3}", "privacy.accountant=rdp",
      "privacy.adjacency=add_or_remove_one"}},
    {"class counts", {"report.class_counts.noise_multiplier=3"}},
    {"class weights from counts", {kBalanced, kBalancedCounts}},
    {"class weights from counts, sampled, a reported accuracy",
     {kBalanced, kBalancedCounts, kCounts, kReport, "sampler={kind: poisson, sample_rate: 0.3}",
      "privacy.accountant=rdp", "privacy.adjacency=add_or_remove_one"}},
    {"class weights from counts, differences of gradients",
     {kBalanced, kBalancedCounts, "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}",
      "sampler={kind: shuffle, batch_size: 20, fresh: false}", "optimizer=normalized_sgd",
      "schedules.learning_rate=0.02"}},
    {"a reported accuracy", {kReport}},
    {"a reported accuracy, sampled",
     {kReport, "sampler={kind: poisson, sample_rate: 0.3}", "privacy.accountant=rdp",
      "privacy.adjacency=add_or_remove_one"}},
    {"accuracies that are reported on the way", {kReports}},
    {"accuracies that are reported on the way, tree", {kReports, kTree, kShuffle}},
    {"accuracies that may end the run",
     {kReports, "report.train_accuracy.patience=1", "schedules.learning_rate=1e-9",
      "privacy.adjacency=add_or_remove_one"}},
    {"dp_fed_avg", {kServer}},
    {"dp_fed_avg, some late, some lost",
     {kServer, "federated.client_drop_rate=0.3", "federated.straggler_rate=0.5"}},
    {"dp_fed_avg, sampled clients",
     {kServer, "federated.participation={kind: poisson, sample_rate: 0.6}",
      "privacy.accountant=rdp"}},
    {"dp_fed_avg, clients that draw their round",
     {kServer, "federated.participation={kind: allocation, steps_per_epoch: 2}",
      "federated.client_drop_rate=0.3", "privacy.accountant=pld"}},
    {"dp_fed_avg with a clip norm that adapts", {kServer, "federated.client_clipping=adaptive"}},
};

core::Falsified falsified(const Overrides& set, const Catalog& catalog = house()) {
  Experiment experiment(kTenParameters, set, catalog);
  return core::falsify(experiment.plan(), {.steps = 12, .threads = 2});
}

std::string shown(const core::Falsified& found) {
  std::string text;
  for (const auto& one : found.differences)
    text += one.what + ", " + one.neighbour + ": " + one.detail + "\n";
  for (const auto& one : found.not_compared) text += "not compared: " + one + "\n";
  return text;
}

bool names(const core::Falsified& found, const std::string& what) {
  return std::any_of(found.differences.begin(), found.differences.end(),
                     [&](const core::Difference& one) { return one.what == what; });
}

/// The sum of the training features that were seen last, which no component after a release may
/// know.
double leaked = 0.0;

/// Passes all rows on, and secretly remembers them.
class Spy final : public Transform {
 public:
  explicit Spy(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset& data) const override {
    const auto features = data.features();
    if (data.rows() > 1) leaked = std::accumulate(features.begin(), features.end(), 0.0);
  }
  Statistic statistic() const override { return Statistic::none; }
};

/// Returns a number in [0, 1) that depends on all rows.
double secret() { return std::abs(std::sin(leaked)); }

class KnowingOptimizer final : public Optimizer {
 public:
  explicit KnowingOptimizer(const Params&) {}
  void start(std::size_t) override {}
  void step(std::span<float> parameters, const Released& gradient, const StepContext& at) override {
    const auto rate = static_cast<float>(at.learning_rate * (1.0 + 1e-3 * secret()));
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] -= rate * gradient.values()[i];
  }
};

class KnowingClipNorm final : public Clipping, public AdaptiveClipNorm {
 public:
  explicit KnowingClipNorm(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    double square = 0.0;
    for (const double one : squared_norms) square += one;
    std::fill(factors.begin(), factors.end(), std::min(1.0, clip_norm / std::sqrt(square)));
  }
  double count_noise(double, double noise_multiplier) const override {
    return 4 * noise_multiplier;
  }
  double next_clip_norm(double, double) const override { return 1.0 + secret(); }
};

/// \param knows  whether its factor depends on the rows, from the second step on.
template <bool knows>
class Scaling final : public Clipping, public CoordinateScaling {
 public:
  explicit Scaling(const Params&) {}
  void start(std::span<const ParameterGroup> groups) override {
    shift_.assign(groups.back().offset + groups.back().size, 0.0f);
    scale_.assign(shift_.size(), 1.0f);
  }
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    double square = 0.0;
    for (const double one : squared_norms) square += one;
    std::fill(factors.begin(), factors.end(), std::min(1.0, clip_norm / std::sqrt(square)));
  }
  std::span<const float> shift() const override { return shift_; }
  std::span<const float> scale() const override { return scale_; }
  void learn(const Released&) override {
    const auto next = static_cast<float>(1.5 + (knows ? 1e-3 * secret() : 0.0));
    std::fill(scale_.begin(), scale_.end(), next);
  }
  std::vector<StateMember> state() override { return {{"scale", &scale_}}; }

 private:
  std::vector<float> shift_, scale_;
};
using PlainScaling = Scaling<false>;
using KnowingScaling = Scaling<true>;

class KnowingNoise final : public Schedule {
 public:
  explicit KnowingNoise(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 20.0; }
  bool is_shape() const override { return false; }
  std::optional<Measurement> measurement() const override {
    return Measurement{
        .what = Measured::loss_change, .every = 3, .loss_bound = 2, .noise_multiplier = 30};
  }
  double next(double, std::span<const double>) const override { return 20.0 + secret(); }
};

class KnowingIterations final : public Schedule, public AdaptiveLocalIterations {
 public:
  explicit KnowingIterations(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
  bool start_rounds(std::uint64_t, std::uint64_t) override { return false; }
  std::uint64_t next(const FederatedProgress&) override {
    return 1 + static_cast<std::uint64_t>(1e6 * secret()) % 3;
  }
};

/// Every client in each round, except one that a private number selects.
class KnowingParticipation final : public Sampler {
 public:
  explicit KnowingParticipation(const Params&) {}
  void start(const SamplingPlan& plan) override { plan_ = plan; }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), 0u);
    const auto left_out = static_cast<std::uint64_t>(1e6 * secret()) % rows;
    batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(left_out));
  }
  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(plan_.dataset_size);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }

 private:
  SamplingPlan plan_;
};

const Catalog& knowing_house() {
  static const Catalog catalog = house_with(
      {offer<Transform, Spy>("spy"), offer<Optimizer, KnowingOptimizer>("knowing_optimizer"),
       offer<Clipping, KnowingClipNorm>("knowing_clip_norm"),
       offer<Clipping, PlainScaling>("plain_scaling"),
       offer<Clipping, KnowingScaling>("knowing_scaling"),
       offer<Schedule, KnowingNoise>("knowing_noise", {"adaptive_noise"}),
       offer<Schedule, KnowingIterations>("knowing_iterations"),
       offer<Sampler, KnowingParticipation>("knowing_participation")});
  return catalog;
}

/// A run with the spy, and a component that uses it.
core::Falsified with_spy(const Overrides& set) {
  return falsified(with(set, {"data.transforms=[spy]"}), knowing_house());
}

}  // namespace

TEST_CASE(
    "runs that follow what they released are led through the same releases, and differ in "
    "nothing") {
  for (const Kind& kind : kKinds) {
    const core::Falsified found = falsified(kind.set);
    INFO(kind.name << "\n" << shown(found));
    CHECK(found.differences.empty());
    CHECK(found.participations > 0);
    CHECK(found.coordinates > 0);
  }
}

TEST_CASE("every released number of runs that follow what they released is made again") {
  const std::uint64_t worlds = 2, neighbours = 4, steps = 12, parameters = 10;
  const std::uint64_t all = worlds * neighbours * steps * parameters;
  CHECK(falsified({kTree, kShuffle}).coordinates == all);
  // The count adds one number per step.
  CHECK(falsified({"clipping=adaptive"}).coordinates == all + worlds * neighbours * steps);
  CHECK(falsified({"clipping=adaclip"}).coordinates == all);
  // Measured before the steps 3, 6 and 9.
  CHECK(falsified({kDescentCheck}).coordinates == all + worlds * neighbours * 3);
  // Means and mean squares of four features, twice.
  CHECK(falsified({kStatistics}).coordinates == all + worlds * neighbours * 2 * 8);
  // Four clients.
  CHECK(falsified({kClients}).coordinates == 4 * all);
  CHECK(falsified({kServer}).coordinates == worlds * neighbours * 4 * parameters);
}

TEST_CASE("rows that see each other are found in runs that follow what they released") {
  // Fault kinds are found either by the run itself, when it checks one of them, or by its releases.
  const auto is_found = [](const Overrides& set, const Catalog& catalog) {
    try {
      return names(falsified(set, catalog), "release");
    } catch (const PluginError& problem) {
      return std::string(problem.what()).find("than beside others") != std::string::npos;
    }
  };
  for (const char* id : {"program/contrastive", "program/counts_its_neighbours"}) {
    const Fault& fault = fault_named(id);
    const Catalog catalog = house_with({fault.factory});
    for (const Kind& kind : kKinds) {
      if (kind.set.front() == kServer) continue;    // what clients compute in a round is their own
      if (kind.set.front() == kBalanced) continue;  // programs without class weights
      INFO(id << ", " << kind.name);
      CHECK(is_found(with(kind.set, fault.place), catalog));
    }
  }
}

TEST_CASE("an optimizer that knows the rows is found by the parameters") {
  for (const Overrides& set :
       {Overrides{}, {kTree, kShuffle}, {"clipping=adaptive"}, {kDescentCheck}, {kClients}}) {
    CHECK(names(with_spy(with(set, {"optimizer=knowing_optimizer"})), "parameters"));
    // The spy itself is not detected.
    CHECK(with_spy(set).differences.empty());
  }
  CHECK(names(with_spy({kServer, "federated.server_optimizer=knowing_optimizer"}), "parameters"));
}

TEST_CASE("a rule that knows the rows is found by what it decides about") {
  // The run itself may find these, in a process that received no row.
  const auto finds = [](const Overrides& set) {
    try {
      return !with_spy(set).differences.empty();
    } catch (const PluginError&) {
      return true;
    }
  };
  CHECK(finds({"clipping=knowing_clip_norm"}));
  CHECK(finds({"clipping=knowing_scaling"}));
  CHECK(with_spy({"clipping=plain_scaling"}).differences.empty());
  CHECK(names(with_spy({"schedules.noise_multiplier=knowing_noise"}), "noise"));
  CHECK(names(with_spy({kClients, "federated.local_iterations=knowing_iterations"}), "status"));
  CHECK(names(with_spy({kClients, "federated.participation=knowing_participation"}), "status"));
  CHECK(names(with_spy({kServer, "federated.participation=knowing_participation"}), "batch"));
  CHECK(names(with_spy(with(with({kServer}, kSeparated),
                            {"federated.participation=knowing_participation"})),
              "batch"));
}

TEST_CASE("runs on tokens are compared with rows of a rare token, and of none") {
  const char* preset = GENERATE("encoder", "decoder");
  Experiment experiment(R"(privgrad: 1
name: tokens
seed: 1
data: {kind: csv, train: tokens.csv, row: record, malformed: fill, size: 40,
       target: class, labels: ['0', '1'], other_label: '0', columns: [
         {name: a, type: number, min: -1, max: 5, fill: -1},
         {name: b, type: number, min: -1, max: 5, fill: -1},
         {name: c, type: number, min: -1, max: 5, fill: -1}]}
model: {kind: transformer, vocabulary: 6, layers: 1, width: 4, heads: 2, loss: cross_entropy}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 3
)",
                        {std::string("model.preset=") + preset});
  std::string rows = "a,b,c,class\n";
  for (int row = 0; row < 40; ++row) {
    rows += std::to_string(row % 6) + "," + std::to_string(row % 3 == 0 ? -1 : row % 5) + ",-1," +
            std::to_string(row % 2) + "\n";
  }
  write_file(experiment.dir() / "tokens.csv", rows);
  const core::Falsified found = core::falsify(experiment.plan(), {.steps = 3, .threads = 2});
  INFO(shown(found));
  CHECK(found.differences.empty());
  CHECK(found.participations == 3);
  const auto tried = [&](const char* what) {
    return std::any_of(found.neighbours.begin(), found.neighbours.end(),
                       [&](const std::string& one) { return one.find(what) != std::string::npos; });
  };
  CHECK(tried("the last row replaced by the last token of the vocabulary"));
  CHECK(tried("the last row replaced by no tokens"));
  CHECK_FALSE(tried("subnormal"));
}

TEST_CASE("what cannot be compared is named") {
  const auto only_word = [](const Overrides& set) {
    const core::Falsified found = falsified(set);
    CHECK(found.neighbours.empty());
    REQUIRE(found.not_compared.size() == 1);
    return found.not_compared.front();
  };
  CHECK_THAT(only_word({"privacy.noise=off"}), ContainsSubstring("without noise"));
  CHECK_THAT(only_word({kAli, "federated.estimates=unaccounted"}),
             ContainsSubstring("federated.estimates is unaccounted"));
  CHECK_THAT(shown(falsified({kTree, kShuffle})), ContainsSubstring("fixed point"));
  CHECK_THAT(shown(falsified({kServer})), ContainsSubstring("the removal of a client"));
}
