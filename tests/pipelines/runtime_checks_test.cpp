// The checks during a run: faulty plugins end it, and correct plugins are not disturbed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "privgrad/backend.hpp"
#include "privgrad/sampler.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "wrapped_backend.hpp"

using namespace privgrad;

namespace {

// 512 steps: two of them are checked.
constexpr const char* kChecked = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 400, test_rows: 50, dimensions: 3, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.1}
optimizer: sgd
schedules: {noise_multiplier: 8, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 30, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
evaluate_every: 512
steps: 512
)";

// ---- backends: the built-in one, and a fault

/// Adds the cells twice, but certifies their length once.
struct AddsTwice final : Wrapped {
  using Wrapped::Wrapped;
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    Wrapped::add_cells(pass, taken, sum);
    Wrapped::add_cells(pass, taken, sum);
  }
};
/// The gradient of an example depends on how many examples there are.
struct MindsNeighbours final : Wrapped {
  using Wrapped::Wrapped;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    Wrapped::backward(batch, pass, squared_norms);
    if (batch.rows() > 1)
      for (double& square : squared_norms) square *= 1.0 + 1e-9;
  }
};
/// Like MindsNeighbours, for programs whose rows are added up.
struct RowsMindNeighbours final : Program, ReproducibleRows {
  explicit RowsMindNeighbours(std::unique_ptr<Program> of) : program(std::move(of)) {}
  std::size_t parameter_count() const override { return program->parameter_count(); }
  void load_parameters(std::span<const float> values) override { program->load_parameters(values); }
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    program->gradient_rows(batch, rows);
    if (batch.rows() > 1)
      for (float& value : rows) value *= 1.0f + 1e-6f;
  }
  Evaluation evaluate(const Batch& batch) const override { return program->evaluate(batch); }
  std::unique_ptr<Program> program;
};
/// A step with the wrong sign: within its bound, but not the gradient.
struct Ascends final : Wrapped {
  using Wrapped::Wrapped;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    Wrapped::gradient_rows(batch, rows);
    for (float& value : rows) value = -value;
  }
};

// ---- samplers that are charged like `poisson`

class Coins : public Sampler {
 public:
  explicit Coins(const Params&) {}
  void start(const SamplingPlan& plan) override { rows_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override {
    return 0.1 * static_cast<double>(rows_);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged;
    for (const Event& release : releases) charged.push_back(Event::poisson_sampled(0.1, release));
    return charged;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    const auto stream = random.stream(step);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row)
      if (stream->uniform() < rate(row)) batch.push_back(row);
  }

 protected:
  virtual double rate(std::uint32_t) const { return 0.1; }
  std::uint64_t rows_ = 0;
};
struct DrawsTwice final : Coins {
  using Coins::Coins;
  double rate(std::uint32_t) const override { return 0.2; }
};
struct FavoursARow final : Coins {
  using Coins::Coins;
  double rate(std::uint32_t row) const override { return row == 123 ? 1.0 : 0.1; }
};
/// The steps of an epoch, charged as if each row had its own coin.
struct Shuffles final : Coins {
  using Coins::Coins;
  void sample(std::uint64_t step, std::size_t, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.clear();
    for (std::uint32_t i = 0; i < 40; ++i)
      batch.push_back(static_cast<std::uint32_t>((step % 10) * 40 + i));
  }
};

const Catalog& checked_parts() {
  static const Catalog catalog = house_with(
      {offer<Backend, BackendOf<Wrapped>>("wrapped"),
       offer<Backend, BackendOf<AddsTwice>>("adds_twice"),
       offer<Backend, BackendOf<MindsNeighbours>>("minds_neighbours"),
       offer<Backend, BackendOf<RowsMindNeighbours>>("rows_mind_neighbours"),
       offer<Backend, BackendOf<Ascends>>("ascends"), offer<Sampler, Coins>("coins"),
       offer<Sampler, DrawsTwice>("draws_twice"), offer<Sampler, FavoursARow>("favours_a_row"),
       offer<Sampler, Shuffles>("shuffles")});
  return catalog;
}

/// Checks that the run ends, gives the reason in one line, and writes no model.
void is_ended_by(const std::vector<std::string>& overrides, const std::string& who,
                 const std::string& words) {
  INFO(who);
  Experiment experiment(kChecked, overrides, checked_parts());
  std::string said;
  try {
    experiment.run();
  } catch (const PluginError& error) {
    said = error.what();
  }
  CHECK_THAT(said,
             ContainsSubstring(who + ": ") && ContainsSubstring(words) && !ContainsSubstring("\n"));
  CHECK_FALSE(std::filesystem::exists(experiment.run_dir() / "model.safetensors"));
}

}  // namespace

TEST_CASE("a backend whose contributions break their bound, or depend on others, ends the run",
          "[checks][privacy]") {
  is_ended_by({"backend=adds_twice"}, "test:adds_twice", "certified");
  is_ended_by({"backend=minds_neighbours"}, "test:minds_neighbours", "in a pass of its own");
  is_ended_by({"backend=rows_mind_neighbours"}, "test:rows_mind_neighbours", "gradient row alone");
  is_ended_by({"backend=rows_mind_neighbours", "aggregator={kind: gaussian, arithmetic: float}"},
              "test:rows_mind_neighbours", "gradient row alone");
}

TEST_CASE("a sampler that draws otherwise than it is charged ends the run", "[checks][privacy]") {
  const std::string words = "what was charged for them allows";
  is_ended_by({"sampler=draws_twice"}, "test:draws_twice", words);
  is_ended_by({"sampler=favours_a_row"}, "test:favours_a_row", words);
  is_ended_by({"sampler=shuffles"}, "test:shuffles", words);
}

TEST_CASE("what is looked at is counted, and changes nothing", "[checks]") {
  Experiment plain(kChecked),
      wrapped(kChecked, {"backend=wrapped", "sampler=coins"}, checked_parts());
  plain.run();
  wrapped.run(2);
  for (const Experiment* experiment : {&plain, &wrapped}) {
    CHECK(checks_of(*experiment) ==
          nlohmann::json({{"contributions", 16}, {"batches", 512}, {"reported_differences", 0}}));
  }
  // Without noise there is no claim to check.
  Experiment no_noise(kChecked, {"privacy.noise=off"});
  no_noise.run();
  CHECK(checks_of(no_noise) ==
        nlohmann::json({{"contributions", 0}, {"batches", 0}, {"reported_differences", 0}}));
}

TEST_CASE("contributions that are far from the gradient are said, in research mode alone",
          "[checks]") {
  Experiment research(kChecked, {"backend=ascends", "schedules.clip_norm=0.01"}, checked_parts());
  research.run();
  CHECK(checks_of(research).at("reported_differences") == 16);
  Experiment release(
      kChecked,
      {"backend=ascends", "schedules.clip_norm=0.01", "mode=release", "seed=null", "data.size=400"},
      checked_parts());
  release.run();
  CHECK(checks_of(release) == nlohmann::json({{"contributions", 16}, {"batches", 512}}));
}

TEST_CASE("every built-in way to draw and to sum passes the checks of its run", "[checks]") {
  const std::vector<std::vector<std::string>> ways = {
      {"sampler={kind: shuffle, batch_size: 40}", "privacy.adjacency=zero_out"},
      {"sampler={kind: sequential, batch_size: 40}", "privacy.adjacency=zero_out"},
      {"sampler={kind: poisson, sample_rate: 0.1, amplification: false}"},
      {"sampler={kind: fixed_size, batch_size: 40}", "privacy.adjacency=replace_one"},
      {"sampler={kind: poisson}",
       "schedules.batch_size={kind: exponential, initial: 20, rate: -0.002}"},
      {"aggregator={kind: gaussian, arithmetic: float}"},
      {"sampler={kind: shuffle, batch_size: 40}", "privacy.adjacency=zero_out", "aggregator=tree",
       "privacy.accountant=zcdp", "privacy.target_epsilon=1000"}};
  for (const std::vector<std::string>& way : ways) {
    INFO(way.front());
    INFO(way.back());
    Experiment experiment(kChecked, way);
    CHECK(experiment.run().status == core::RunStatus::completed);
    CHECK(checks_of(experiment).at("contributions") == 16);
    CHECK(checks_of(experiment).at("reported_differences") == 0);
  }
}
