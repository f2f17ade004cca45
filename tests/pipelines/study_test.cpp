// Studies with the built-in plugins: arms with the same guarantee, and the same randomness for
// everything that arms do not change.
#include "privgrad/federated/any_run.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/studies/choice_cost.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/train/run_estimate.hpp"
#include "shared_files.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

const std::string kStudy = R"(study: 1
seeds: 2
base:
  privgrad: 1
  data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 6}
  model: linear
  sampler: full_batch
  optimizer: sgd
  schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
  privacy: {target_epsilon: 2, target_delta: 1e-6, adjacency: zero_out, accountant: zcdp}
  steps: 12
)";

core::StudyPlan planned(const std::string& more, const Catalog& catalog = house(),
                        const std::vector<std::string>& overrides = {}) {
  return core::plan_study(core::parse_study(kStudy + more, "/nowhere/s.yaml"), overrides, catalog);
}

template <class Error>
std::string error_of(const std::string& more, const std::vector<std::string>& overrides = {}) {
  try {
    planned(more, house(), overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_equal_privacy(const core::StudyPlan& plan, double target) {
  for (const core::PlannedArm& arm : plan.arms) {
    CAPTURE(arm.arm->name);
    CHECK(arm.plan.epsilon().value <= target);
    CHECK(arm.plan.epsilon().value >= (1.0 - core::kEpsilonTolerance) * target);
    CHECK(arm.plan.affordable_steps == arm.plan.steps());
  }
}

/// Checks that a page's script runs each study of the folder with that name. It must name the study
/// as a whole word, because "accountant" also occurs in "accountant-cnn".
void check_runs_all(const std::string& page) {
  std::string script = read_file(kSource / "scripts" / (page + ".sh"));
  std::replace(script.begin(), script.end(), ';', ' ');
  std::istringstream text(script);
  const std::set<std::string> words{std::istream_iterator<std::string>(text), {}};
  for (const auto& entry :
       std::filesystem::directory_iterator(kSource / "examples/studies" / page)) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path().string());
    CHECK(words.contains(entry.path().stem().string()));
  }
}

}  // namespace

TEST_CASE("every schedule, sampler and accountant is calibrated to one guarantee",
          "[study][privacy]") {
  check_equal_privacy(planned(R"(axes:
  schedules.noise_multiplier:
    - uniform
    - {kind: exponential, rate: 0.9}
    - {kind: step, every: 4, factor: 0.5}
    - {kind: cosine, final: 0.3}
    - {kind: polynomial, final: 0.5}
    - {kind: list, values: [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1]}
    - 3
  optimizer: [sgd, {kind: momentum, beta: 0.9}]
)"),
                      2.0);
  check_equal_privacy(planned("axes: {steps: [5, 20], sampler: [full_batch, {kind: poisson, "
                              "sample_rate: 0.1}], privacy.accountant: [rdp, pld]}\n"),
                      2.0);
}

TEST_CASE("noise with values of its own is multiplied by one factor, and the plan says so",
          "[study][privacy]") {
  const core::StudyPlan plan = planned(
      "axes: {schedules.noise_multiplier: [uniform, {kind: list, values: "
      "[3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1]}]}\n");
  CHECK_FALSE(plan.arms[0].plan.noise_is_rescaled);
  const core::Plan& list = plan.arms[1].plan;
  CHECK(list.noise_is_rescaled);
  CHECK_THAT(list.noise_multiplier.front(), WithinRel(3.0 * list.noise_factor, 1e-14));
  CHECK_THAT(list.noise_multiplier.back(), WithinRel(list.noise_factor, 1e-14));
  const auto json = core::to_json(plan);
  CHECK(json.at("arms").at(1).at("rescaled") == true);
  // The arm's manifest alone gives the same noise, so a run repeats the plan.
  const core::Manifest again = core::parse_manifest(core::to_yaml(plan.arms[1].manifest->resolved),
                                                    "/nowhere/m.yaml", {}, house());
  CHECK(core::make_plan(again).noise_multiplier == list.noise_multiplier);
}

TEST_CASE("noise that adapts is not scaled: the target is its guarantee, and what choosing counts",
          "[study][privacy][adaptive_noise]") {
  const core::StudyPlan plan =
      planned(R"(set: {privacy.accountant: {kind: zcdp, conversion: classic}}
axes:
  schedules.noise_multiplier:
    - uniform
    - {kind: descent_check, initial: 50, every: 4, loss_bound: 1, check_noise_multiplier: 40}
)");
  const core::Plan& adapts = plan.arms[1].plan;
  CHECK(adapts.epsilon().value == 2.0);
  CHECK_FALSE(adapts.noise_is_rescaled);
  CHECK(adapts.noise_multiplier == std::vector<double>(12, 50.0));
  const auto arm = core::to_json(plan).at("arms").at(1);
  CHECK(arm.at("noise_adapts") == true);
  CHECK(arm.at("epsilon") == 2.0);
  // Both arms are (2, 1e-6)-DP with the same rho, whatever the second one actually spends. The
  // conversion and its inverse are Bun and Steinke's.
  const double log_inverse = std::log(1e6);
  const double rho = std::pow(std::sqrt(log_inverse + 2.0) - std::sqrt(log_inverse), 2.0);
  const core::ChoiceCost both = core::composed_cost({{&plan.arms[0].plan, 1}, {&adapts, 1}}, 1e-6);
  REQUIRE(both.epsilon);
  CHECK_THAT(both.epsilon->value,
             WithinRel(2.0 * rho + 2.0 * std::sqrt(2.0 * rho * log_inverse), 1e-8));
  CHECK_THAT(error_of<PrivacyError>("axes: {schedules.noise_multiplier: [uniform, {kind: "
                                    "validation, initial: 9}]}\n"),
             ContainsSubstring("data.test_is_public: true"));
}

TEST_CASE("arms with another guarantee are refused, by name and place", "[study][privacy]") {
  CHECK_THAT(
      error_of<PrivacyError>("axes: {privacy.target_epsilon: [2, 4]}\n"),
      ContainsSubstring("/nowhere/s.yaml:12:36: error: privacy.target_epsilon: is 4 here and "
                        "2 in the first arm") &&
          ContainsSubstring("(in the arm 4)"));
  CHECK_THAT(error_of<PrivacyError>("axes: {privacy.target_delta: [1e-6, 1e-5]}\n"),
             ContainsSubstring("privacy.target_delta: is 1e-05 here"));
  CHECK_THAT(error_of<PrivacyError>("axes: {privacy.adjacency: [zero_out, replace_one]}\n"),
             ContainsSubstring("privacy.adjacency: is replace_one here"));
  CHECK_THAT(error_of<PrivacyError>("set: {mode: release}\n"), ContainsSubstring("release mode"));
  CHECK_THAT(error_of<PrivacyError>(
                 "set: {privacy.target_epsilon: null, schedules.noise_multiplier: 3}\n"),
             ContainsSubstring("privacy.target_epsilon: is missing"));
}

TEST_CASE("an arm without noise is a reference: it keeps no guarantee, and is no baseline",
          "[study][privacy]") {
  const std::string axes = "axes: {privacy.noise: [\"on\", \"off\"], optimizer: [sgd, adam]}\n";
  const core::StudyPlan plan = planned(axes);
  REQUIRE(plan.arms.size() == 4);
  for (std::size_t a = 0; a < 4; ++a) {
    CAPTURE(plan.arms[a].arm->name);
    CHECK(plan.is_reference(a) == plan.arms[a].manifest->noise_off);
    CHECK(core::to_json(plan).at("arms").at(a).contains("reference") == plan.is_reference(a));
  }
  CHECK(plan.is_reference(2));
  CHECK(core::to_json(plan).at("target_epsilon") == 2);
  CHECK(plan.stains.empty());
  // If arms are not at equal privacy, this arm is not the reference, and a remark states that.
  const core::StudyPlan unequal = planned("equal_privacy: false\n" + axes);
  CHECK_FALSE(unequal.is_reference(2));
  REQUIRE_FALSE(unequal.stains.empty());
  CHECK_THAT(unequal.stains[1], ContainsSubstring("some arms are without privacy"));
  CHECK_FALSE(
      error_of<PrivacyError>("axes: {privacy.noise: [\"off\", \"on\"], optimizer: [sgd, adam]}\n")
          .empty());
}

TEST_CASE("arms are at equal privacy within a level, whatever its guarantee is",
          "[study][privacy]") {
  const core::StudyPlan plan = planned(
      "levels: {privacy.target_epsilon: [2, 4], privacy.adjacency: [zero_out, replace_one]}\n"
      "axes: {optimizer: [sgd, adam]}\n");
  REQUIRE(plan.arms.size() == 4);
  for (const core::PlannedArm& arm : plan.arms) {
    const double target = arm.arm->level == 0 ? 2.0 : 4.0;
    CAPTURE(arm.arm->name);
    CHECK(arm.plan.epsilon().value <= target);
    CHECK(arm.plan.epsilon().value >= (1.0 - core::kEpsilonTolerance) * target);
  }
  CHECK(plan.stains.empty());
  const nlohmann::json json = core::to_json(plan);
  CHECK(json.at("target_epsilon").is_null());
  CHECK(json.at("levels").at("labels") == nlohmann::json{"2", "4"});
  CHECK(json.at("arms").at(3).at("level") == "4");
  CHECK(json.at("arms").at(3).at("variant") == "adam");
}

TEST_CASE("an arm with another guarantee than its level is refused", "[study][privacy]") {
  CHECK_THAT(error_of<PrivacyError>("levels: {privacy.target_epsilon: [2, 4]}\n"
                                    "arms: {a: {}, b: {privacy.target_delta: 1e-5}}\n"),
             ContainsSubstring("is 1e-05 here and 1e-06 in the first arm of this level"));
  CHECK_THAT(error_of<PrivacyError>("levels: {steps: [5, 6]}\n"
                                    "axes: {privacy.target_epsilon: [2, 4]}\n"),
             ContainsSubstring("is 4 here and 2 in the first arm of this level"));
}

TEST_CASE("without equal privacy everything runs, and every output says so", "[study][privacy]") {
  const core::StudyPlan plan =
      planned("equal_privacy: false\naxes: {privacy.target_epsilon: [2, 4]}\n");
  CHECK(plan.arms[1].plan.epsilon().value > 3.9);
  CHECK(plan.stains.size() == 2);
  CHECK(core::to_json(plan).at("target_epsilon").is_null());
  CHECK(planned("").stains.empty());
}

TEST_CASE("a problem of an arm has its place in the study, one of the base its own", "[study]") {
  CHECK_THAT(error_of<core::ManifestError>("axes: {optimizer: [sgd, {kind: momentum, beta: 2}]}\n"),
             ContainsSubstring("/nowhere/s.yaml:12:48: error: optimizer.beta") &&
                 ContainsSubstring("(in the arm momentum)"));
  CHECK_THAT(error_of<core::ManifestError>("axes: {optimizer: [sgd, adm]}\n"),
             ContainsSubstring("/nowhere/s.yaml:12:25: error: optimizer"));
  // Every arm has the problem: it is reported once, without naming an arm.
  const std::string all = error_of<core::ManifestError>(
      "axes: {optimizer: [sgd, adam]}\nset: {schedules.clip_norm: -1}\n");
  CHECK(all.find("schedules.clip_norm") == all.rfind("schedules.clip_norm"));
  CHECK(all.find("in the arm") == all.npos);
  CHECK_THAT(error_of<core::ManifestError>("axes: {optimizer: [sgd, adam]}\n", {"optimizer=sgd"}),
             ContainsSubstring("--set optimizer: error: the study varies optimizer"));
  CHECK_THAT(error_of<core::ManifestError>("set: {data.test_rows: 0}\n"),
             ContainsSubstring("there are no test examples"));
}

TEST_CASE("an override changes the base of all arms", "[study]") {
  const core::StudyPlan plan =
      planned("axes: {optimizer: [sgd, adam]}\n", house(), {"privacy.target_epsilon=1", "steps=7"});
  check_equal_privacy(plan, 1.0);
  CHECK(plan.arms[1].plan.steps() == 7);
}

TEST_CASE("choosing costs the composition of all runs, or the bound on a random number of them",
          "[study][privacy]") {
  const core::StudyPlan plan = planned("axes: {optimizer: [sgd, adam]}\n");
  const std::vector<const core::Plan*> arms{&plan.arms[0].plan, &plan.arms[1].plan};
  // zCDP adds up: six runs with rho equal one with 6 rho, whose steps have 1/6 of the variance.
  const auto grid = core::composed_cost({{arms[0], 3}, {arms[1], 3}}, 1e-6);
  Experiment six(R"(privgrad: 1
data: {kind: synthetic, rows: 200, dimensions: 6}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: )" +
                 format_number(plan.arms[0].plan.noise_multiplier.front() / std::sqrt(6.0)) +
                 R"(, clip_norm: 1, learning_rate: 0.5}
privacy: {target_delta: 1e-6, adjacency: zero_out, accountant: zcdp}
steps: 12
)");
  REQUIRE(grid.epsilon);
  CHECK_THAT(grid.epsilon->value, WithinRel(six.plan().epsilon().value, 1e-9));
  const auto random = core::random_number_cost(arms, 1.0, 2.0, 1e-6);
  REQUIRE(random.epsilon);
  CHECK(random.epsilon->value > 2.0);
  CHECK(random.epsilon->value < grid.epsilon->value);
  // zcdp refuses the event of the two arms' events, so the smallest proof of the others counts.
  const Event best = Event::repeat_and_select(2.0, 1.0, {arms[0]->event, arms[1]->event});
  double least = std::numeric_limits<double>::infinity();
  for (const char* name : {"pld", "rdp"}) {
    const auto accountant = house().create<Accountant>(name, Value(Value::Object{}));
    accountant->start(Adjacency::zero_out);
    accountant->compose(best, 1);
    const double epsilon = accountant->epsilon(1e-6).value;
    if (epsilon < least) CHECK(random.accountant == name);
    least = std::min(least, epsilon);
  }
  CHECK(random.epsilon->value == least);
  // An accountant that accepts it gives the answer itself.
  const core::StudyPlan by_rdp =
      planned("set: {privacy.accountant: rdp}\naxes: {optimizer: [sgd, adam]}\n");
  const auto gated = core::random_number_cost({&by_rdp.arms[0].plan}, 1.0, 2.0, 1e-6);
  CHECK(gated.accountant == "rdp");
}

TEST_CASE("time is estimated without touching the data", "[study]") {
  const core::StudyPlan plan = planned("axes: {steps: [12, 1200]}\n");
  // A step is timed for the estimate: the fastest of five, so that a busy machine does not matter.
  const auto seconds = [](const core::Plan& arm) {
    double least = core::estimated_seconds(arm);
    for (int i = 0; i < 4; ++i) least = std::min(least, core::estimated_seconds(arm));
    return least;
  };
  const double few = seconds(plan.arms[0].plan);
  const double many = seconds(plan.arms[1].plan);
  CHECK(few > 0.0);
  CHECK(many > few);
}

TEST_CASE("the example studies are right, and short", "[study]") {
  const std::filesystem::path folder = kSource / "examples/studies";
  check_equal_privacy(core::plan_study(core::read_study(folder / "quickstart.yaml"), {}, house()),
                      3.0);
  const core::Study schedules = core::read_study(folder / "mnist35-schedules.yaml");
  CHECK(schedules.arms.size() == 4 * 2);
  CHECK(schedules.seeds.size() == 5);
  CHECK(schedules.arms[schedules.baselines.front()].name == "uniform+sgd");
  const std::string text = read_file(folder / "mnist35-schedules.yaml");
  CHECK(std::count(text.begin(), text.end(), '\n') <= 30);
}

TEST_CASE("the studies of Hong et al. are right, and can run in some hours", "[study]") {
  std::size_t runs = 0;
  std::size_t studies = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(kSource / "examples/studies/hong2022")) {
    if (entry.path().extension() != ".yaml") continue;
    const core::Study study = core::read_study(entry.path());
    INFO(study.name);
    CHECK(study.equal_privacy);
    const std::string& baseline = study.arms[study.baselines.front()].variant;
    CHECK(baseline == (study.name == "theorem"   ? "dynamic-printed"
                       : study.name == "adaclip" ? "flat"
                                                 : "uniform"));
    CHECK(study.metrics.front().name == "train_loss");
    CHECK(study.seeds.size() == 20);
    runs += study.arms.size() * study.seeds.size();
    if (study.search) {
      const core::Study search = core::search_study(study);
      runs += search.arms.size() * search.seeds.size();
    }
    ++studies;
  }
  CHECK(studies == 17);
  CHECK(runs < 13000);
  check_runs_all("hong2022");
}

TEST_CASE("the script of improvements runs each of their studies", "[study]") {
  check_runs_all("improvements");
}

TEST_CASE("a study of means along runs has arms that measure them often enough", "[study]") {
  const std::string means = "metrics: [mean_gradient_norm, gradient_norm]\n";
  CHECK_THAT(error_of<core::ManifestError>(means),
             ContainsSubstring("error: gradient_norm: is not measured"));
  CHECK(planned(means, house(), {"gradient_norm=true"}).study->metrics.size() == 2);
  // 12 steps: it must be every step, or at least 10 steps.
  CHECK_THAT(error_of<core::ManifestError>(means, {"gradient_norm=true", "evaluate_every=2"}),
             ContainsSubstring("evaluate_every: is 2, allowed is at most 1 of 12"));
  const std::vector<std::string> enough{"gradient_norm=true", "evaluate_every=2", "steps=20"};
  CHECK(planned(means, house(), enough).arms.size() == 1);
  const std::string last = "metrics: [gradient_norm]\n";
  CHECK(planned(last, house(), {"gradient_norm=true", "evaluate_every=12"}).arms.size() == 1);
}

TEST_CASE("the studies of Tran and Cutkosky compare their methods and others at one guarantee",
          "[study]") {
  const std::filesystem::path folder = kSource / "examples/studies/tran2022";
  const std::string script = read_file(kSource / "scripts/tran2022.sh");
  std::size_t runs = 0;
  for (const char* data : {"mnist", "fashion-mnist"}) {
    for (const char* question : {"mlp-epsilon", "mlp-examples", "cnn"}) {
      const std::string name = std::string(data) + "-" + question;
      INFO(name);
      const core::Study study = core::read_study(folder / (name + ".yaml"));
      CHECK(study.metrics.front().name == "gradient_norm");
      CHECK(study.seeds.size() == (std::string_view(question) == "cnn" ? 5 : 20));
      CHECK_THAT(study.arms[study.baselines.front()].name, ContainsSubstring("dp-sgd"));
      CHECK_THAT(script, ContainsSubstring(name));
      runs += study.arms.size() * study.seeds.size();
      // Without the data files there is no plan; where they exist, a plan is made that meets the
      // target.
      const auto files = data_folder_with(std::string(data) + "/train-images-idx3-ubyte.gz");
      if (files.empty()) continue;
      if (std::getenv("PRIVGRAD_DATA_DIR") == nullptr)
        ::setenv("PRIVGRAD_DATA_DIR", files.c_str(), 1);
      const core::StudyPlan plan = core::plan_study(study, {}, house());
      for (const core::PlannedArm& arm : plan.arms) {
        INFO(arm.arm->name);
        const double target = *arm.manifest->target_epsilon;
        CHECK(arm.plan.epsilon().value <= target);
        CHECK(arm.plan.epsilon().value >= 0.995 * target);
        CHECK(arm.manifest->adjacency == Adjacency::zero_out);
        CHECK(arm.manifest->target_delta == 1e-5);
        CHECK(arm.plan.steps() == plan.arms.front().plan.steps());
      }
    }
  }
  CHECK(runs == 1550);
}

// ---- the same randomness

namespace {

/// The randomness that one run received.
struct Seen {
  std::vector<std::uint32_t> rows;    // rows of all batches, in order
  std::vector<float> initial, noise;  // of all releases, in order: the gradients are 0
  bool operator==(const Seen&) const = default;
};
Seen* listener = nullptr;

/// Draws every example by a coin; charged as if all examples took part, which costs no less.
class CoinSampler final : public Sampler {
 public:
  explicit CoinSampler(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(size_) / 2.0;
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    batch.clear();
    const auto stream = random.stream(step);
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (stream->uniform_below(2) == 0) batch.push_back(row);
    }
    listener->rows.insert(listener->rows.end(), batch.begin(), batch.end());
  }

 private:
  std::uint64_t size_ = 0;
};

/// Gradients of 0: releases are pure noise.
class FlatProgram final : public Program {
 public:
  explicit FlatProgram(std::size_t parameters) : parameters_(parameters) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float> rows) const override {
    std::fill(rows.begin(), rows.end(), 0.0f);
  }
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  std::size_t parameters_;
};

class FlatModel final : public Model {
 public:
  explicit FlatModel(const Params&) {}
  Network network(const ExampleShape& input) const override {
    return house().create<Model>("linear", Value(Value::Object{}))->network(input);
  }
  void initialise(const Network&, RandomStream& random,
                  std::span<float> parameters) const override {
    random.fill_normal(parameters);
    listener->initial.assign(parameters.begin(), parameters.end());
  }
};

class FlatBackend final : public Backend {
 public:
  explicit FlatBackend(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor&) override {
    return std::make_unique<FlatProgram>(parameter_count(network));
  }
};

/// Two optimizers that use their inputs in different ways.
template <int kFactor>
class Walker final : public Optimizer {
 public:
  explicit Walker(const Params&) {}
  void start(std::size_t) override {}
  void step(std::span<float> parameters, const Released& gradient, const StepContext&) override {
    listener->noise.insert(listener->noise.end(), gradient.values().begin(),
                           gradient.values().end());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= static_cast<float>(kFactor) * gradient.values()[i];
    }
  }
};

const Catalog& listening() {
  static const Catalog catalog =
      house_with({offer<Sampler, CoinSampler>("coin"), offer<Model, FlatModel>("flat_model"),
                  offer<Backend, FlatBackend>("flat"), offer<Optimizer, Walker<1>>("walker"),
                  offer<Optimizer, Walker<0>>("sitter")});
  return catalog;
}

/// Returns the randomness of each arm with a given seed.
std::map<std::string, Seen> listen(const std::string& axes, std::uint64_t seed) {
  const core::StudyPlan study =
      planned("set: {sampler: coin, model: flat_model, backend: flat, optimizer: walker}\n" + axes,
              listening());
  std::map<std::string, Seen> seen;
  for (const core::PlannedArm& arm : study.arms) {
    listener = &seen[arm.arm->name];
    const core::Manifest manifest =
        core::parse_manifest(core::to_yaml(arm.manifest->resolved), "/nowhere/m.yaml",
                             {"seed=" + std::to_string(seed)}, listening());
    const core::Plan plan = core::make_plan(manifest);
    const TempDir dir;
    core::run(plan, {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}});
  }
  return seen;
}

}  // namespace

TEST_CASE("exchanging the optimizer alone leaves data order, initialisation and noise as they were",
          "[study][privacy]") {
  auto seen = listen("axes: {optimizer: [walker, sitter]}\n", 1);
  const Seen& walker = seen.at("walker");
  REQUIRE(walker.rows.size() > 500);
  REQUIRE(walker.initial.size() > 3);
  REQUIRE(walker.noise.size() == 12 * walker.initial.size());
  CHECK(walker == seen.at("sitter"));
  // The control: another seed gives other draws.
  const Seen other = listen("axes: {optimizer: [walker]}\n", 2).at("walker");
  CHECK(other.rows != walker.rows);
  CHECK(other.initial != walker.initial);
  CHECK(other.noise != walker.noise);
}

TEST_CASE(
    "exchanging the schedule of the noise leaves data order and initialisation, and scales "
    "the noise",
    "[study][privacy]") {
  auto seen =
      listen("axes: {schedules.noise_multiplier: [uniform, {kind: exponential, rate: 0.5}]}\n", 1);
  const Seen& uniform = seen.at("uniform");
  const Seen& exponential = seen.at("exponential");
  CHECK(uniform.rows == exponential.rows);
  CHECK(uniform.initial == exponential.initial);
  REQUIRE(uniform.noise.size() == exponential.noise.size());
  const std::size_t d = uniform.initial.size();
  // The largest value of the first release gives the ratio; released values are rounded to cells of
  // at most 2^-9 of the noise's standard deviation.
  const auto first = std::span(uniform.noise).first(d);
  const auto largest = static_cast<std::size_t>(
      std::max_element(first.begin(), first.end(),
                       [](float a, float b) { return std::abs(a) < std::abs(b); }) -
      first.begin());
  const float ratio = exponential.noise[largest] / uniform.noise[largest];
  for (std::size_t i = 0; i < uniform.noise.size(); ++i) {
    const auto step = static_cast<int>(i / d);
    const float scale = ratio * std::exp(-0.5f * static_cast<float>(step));
    CHECK_THAT(exponential.noise[i], WithinAbs(uniform.noise[i] * scale,
                                               0.02f * std::abs(scale * uniform.noise[largest])));
  }
}
