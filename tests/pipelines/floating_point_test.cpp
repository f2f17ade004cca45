// Whether a plan's guarantee covers the exact bits: the conditions for it, what invalidates it, and
// the resulting messages.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "privgrad/backend.hpp"
#include "privgrad/model.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/transform.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;
using Json = nlohmann::json;

namespace {

constexpr const char* kInFloatingPoint = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 3, test_is_public: true}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

/// The cpu backend's program without its abilities, to which tests add some again.
class Plain : public Program {
 public:
  Plain(ComponentPtr<Backend> backend, const Network& network, Executor& executor)
      : backend_(std::move(backend)), program_(backend_->compile(network, executor)) {}
  std::size_t parameter_count() const override { return program_->parameter_count(); }
  void load_parameters(std::span<const float> parameters) override {
    program_->load_parameters(parameters);
  }
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    program_->gradient_rows(batch, rows);
  }
  Evaluation evaluate(const Batch& batch) const override { return program_->evaluate(batch); }

 private:
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;
};
struct WithRows final : Plain, ReproducibleRows {
  using Plain::Plain;
};
/// Has the ability but never runs it: a plan only checks whether it exists.
struct WithClipping final : Plain, ExactClipping {
  using Plain::Plain;
  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 1; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return nullptr; }
  void backward(const Batch&, Pass&, std::span<double>) const override {}
  void make_cells(Pass&, std::span<const double>, std::uint64_t,
                  std::span<SquaredLength>) const override {}
  void add_cells(Pass&, std::span<const std::uint8_t>, std::span<std::int64_t>) const override {}
};

template <class Made>
class Through final : public Backend {
 public:
  explicit Through(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    return std::make_unique<Made>(house().create<Backend>("cpu", Value(Value::Object{})), network,
                                  executor);
  }
};
/// Breaks the promise of Backend: compile() returns null.
class CompilesNothing final : public Backend {
 public:
  explicit CompilesNothing(const Params&) {}
  std::unique_ptr<Program> compile(const Network&, Executor&) override { return nullptr; }
};

/// Sees all rows at once, as transforms may, and does not promise to process them one at a time.
class AllAtOnce final : public Transform {
 public:
  explicit AllAtOnce(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset&) const override {}
  Statistic statistic() const override { return Statistic::is_public; }
};

const Catalog& through_catalog() {
  static const Catalog made = house_with({offer<Backend, Through<Plain>>("plain"),
                                          offer<Backend, Through<WithRows>>("rows"),
                                          offer<Backend, Through<WithClipping>>("clipping"),
                                          offer<Backend, CompilesNothing>("compiles_nothing"),
                                          offer<Transform, AllAtOnce>("all_at_once")});
  return made;
}

/// Returns the causes listed as floating_point for a plan in research mode.
std::vector<core::Unaccounted> causes(const Overrides& set) {
  Experiment experiment(kInFloatingPoint, set, through_catalog());
  std::vector<core::Unaccounted> found;
  const core::Plan& plan = experiment.plan();
  for (const core::Unaccounted& item : plan.unaccounted)
    if (item.what == "floating_point") found.push_back(item);
  CHECK(plan.covers_bits() == found.empty());
  const Json json = core::to_json(core::plan_facts(plan));
  CHECK(json.at("floating_point") == (found.empty() ? Json("exact") : Json(nullptr)));
  // The name appears once, however many causes there are.
  const auto& names = json.at("unaccounted");
  CHECK(std::count(names.begin(), names.end(), "floating_point") == (found.empty() ? 0 : 1));
  return found;
}

const Overrides kDifferences{
    "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10, gamma: 0.5}",
    "sampler={kind: shuffle, batch_size: 20}"};

}  // namespace

TEST_CASE("the guarantee covers bits by default, with every aggregator", "[plan][privacy]") {
  CHECK(causes({}).empty());
  CHECK(causes(kDifferences).empty());
  CHECK(causes({"clipping=adaptive", "schedules.noise_multiplier=uniform"}).empty());
  CHECK(causes({"aggregator=tree", "sampler={kind: shuffle, batch_size: 20}"}).empty());
  Experiment experiment(kInFloatingPoint);
  CHECK(core::to_json(core::plan_facts(experiment.plan())).at("arithmetic") == "exact");
}

TEST_CASE("arithmetic: float is listed, with its place and what helps", "[plan][privacy]") {
  const auto found = causes({"aggregator.arithmetic=float"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].position == "--set aggregator.arithmetic");
  CHECK(found[0].reach == core::Reach::model);
  CHECK(found[0].why == "aggregator.arithmetic is float");
  Experiment experiment(kInFloatingPoint, {"aggregator.arithmetic=float"});
  CHECK(core::to_json(core::plan_facts(experiment.plan())).at("arithmetic") == "float");
}

TEST_CASE(
    "a program without the abilities is listed; which one is needed depends on what is summed",
    "[plan][privacy]") {
  struct Case {
    const char* backend;
    bool central, differences, scaled;  // whether it is listed
  };
  for (const Case& one : {Case{"plain", true, true, true}, Case{"rows", false, false, false},
                          Case{"clipping", false, true, true}}) {
    INFO(one.backend);
    const std::string backend = std::string("backend=") + one.backend;
    CHECK(causes({backend}).empty() != one.central);
    CHECK(causes(with(kDifferences, {backend})).empty() != one.differences);
    CHECK(causes({"clipping=adaclip", backend}).empty() != one.scaled);
  }
  const auto found = causes({"backend=plain"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].position == "--set backend");
  CHECK_THAT(found[0].why, ContainsSubstring("backend plain does not promise"));
}

TEST_CASE("a transform that is given all rows is listed beside what else there is",
          "[plan][privacy]") {
  const auto found =
      causes({"data.transforms=[flatten, all_at_once]", "aggregator.arithmetic=float"});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[1].why, ContainsSubstring("transform all_at_once does not promise"));
  CHECK(causes({"data.transforms=[flatten, {kind: pca, dimensions: 2}, standardize, "
                "{kind: scale_max_norm, to: 1}]"})
            .empty());
}

TEST_CASE("release mode refuses what does not cover bits, and says what helps", "[plan][privacy]") {
  std::string yaml = kInFloatingPoint;
  yaml.replace(yaml.find("seed: 1"), 7, "mode: release");
  const auto refusal = [&](const Overrides& set) -> std::string {
    try {
      Experiment(yaml, set, through_catalog()).plan();
    } catch (const PrivacyError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({"data.transforms=[flatten]"}).empty());
  CHECK(refusal({"aggregator.arithmetic=float"}) ==
        "--set aggregator.arithmetic: error: release mode refuses 'floating_point': "
        "aggregator.arithmetic is float, so that no proof is about the bits that are released; "
        "use aggregator.arithmetic: exact, or use mode: research");
  CHECK_THAT(refusal({"backend=plain"}),
             ContainsSubstring("--set backend: error: release mode refuses 'floating_point'") &&
                 ContainsSubstring("use another backend, whose sums are exact"));
  CHECK_THAT(refusal({"data.transforms=[all_at_once]"}),
             ContainsSubstring("release mode refuses 'floating_point': transform all_at_once"));
}

TEST_CASE("without noise there is nothing to cover", "[plan]") {
  Experiment experiment(kInFloatingPoint,
                        {"privacy.noise=off", "aggregator.arithmetic=float", "backend=plain"},
                        through_catalog());
  const core::Plan& plan = experiment.plan();
  CHECK(plan.unaccounted.front().what == "everything: noise is off");
  CHECK(std::none_of(plan.unaccounted.begin(), plan.unaccounted.end(),
                     [](const auto& item) { return item.what == "floating_point"; }));
  CHECK_FALSE(plan.covers_bits());
  CHECK(core::to_json(core::plan_facts(plan)).at("floating_point").is_null());
}

TEST_CASE("all owners of a federated run have the arithmetic of the manifest", "[plan]") {
  for (const char* aggregation :
       {"", ", aggregation: dp_fed_avg, client_clip_norm: 1, participation: full_batch"}) {
    const std::string federated =
        std::string("federated={clients: 4, rounds: 2, local_iterations: 1") + aggregation + "}";
    INFO(federated);
    CHECK(causes({federated}).empty());
    CHECK(causes({federated, "aggregator.arithmetic=float"}).size() == 1);
    CHECK(causes({federated, "backend=plain"}).size() == 1);
  }
}

TEST_CASE("summary, statement and prose say what is covered", "[run][privacy]") {
  const auto prose_of = [](const Json& statement) {
    std::string all;
    for (const Json& paragraph : statement.at("prose")) all += paragraph.get<std::string>() + "\n";
    return all;
  };
  Experiment exact(kInFloatingPoint);
  const core::RunResult covered = exact.run();
  CHECK(covered.summary.at("floating_point") == "exact");
  CHECK(covered.statement.at("floating_point") == "exact");
  CHECK(covered.statement.at("arithmetic") == "exact");
  CHECK_THAT(prose_of(covered.statement),
             ContainsSubstring("The bits that were released are covered") &&
                 ContainsSubstring("Sums of whole numbers have no rounding") &&
                 ContainsSubstring("rounding comes after the mechanism"));

  Experiment rounded(kInFloatingPoint, {"aggregator.arithmetic=float"});
  const core::RunResult open = rounded.run();
  CHECK(open.summary.at("floating_point").is_null());
  CHECK(open.statement.at("floating_point").is_null());
  CHECK(open.statement.at("arithmetic") == "floating_point");
  const Json& first = open.statement.at("unaccounted").front();
  CHECK(first == Json{{"what", "floating_point"},
                      {"reaches", "model"},
                      {"because", "aggregator.arithmetic is float"}});
  CHECK_THAT(open.statement.at("stain").get<std::string>(),
             ContainsSubstring("does not cover the bits that were released (floating_point): "
                               "aggregator.arithmetic is float."));
  CHECK_THAT(open.statement.at("short").get<std::string>(),
             ContainsSubstring("; not covered: floating_point and training metrics"));
  CHECK_THAT(prose_of(open.statement),
             ContainsSubstring("The bits that were released are not "
                               "covered: aggregator.arithmetic is float"));
}

TEST_CASE("a backend that compiles nothing is named before anything runs", "[plan]") {
  Experiment experiment(kInFloatingPoint, {"backend=compiles_nothing"}, through_catalog());
  CHECK_THROWS_AS(experiment.plan(), PluginError);
}
