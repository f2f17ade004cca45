// Runs whose training rows change before the first step: the device must compute with the rows of
// the steps, whether it stores all rows or receives a pass's rows.
#include <atomic>
#include <nlohmann/json.hpp>

#include "device.hpp"
#include "on_gpu.hpp"
#include "resident_program.hpp"
#include "test_components.hpp"
#include "train.hpp"

namespace resident_runs_on_cuda {

using namespace privgrad;

namespace {

constexpr const char* kRun = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 12, test_is_public: true}
model: {kind: mlp, hidden: [9]}
sampler: {kind: poisson, sample_rate: 0.3}
optimizer: momentum
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 100, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
checkpoint: {every_steps: 3}
evaluate_every: 4
steps: 8
)";

/// \tparam kMostBytes  how much device memory the rows may occupy.
template <std::size_t kMostBytes>
struct OnDevice final : Backend {
  explicit OnDevice(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    return std::make_unique<cuda::ResidentProgram>(
        network, on_gpu() ? cuda::open_gpu(0) : cuda::make_host_twin(executor), executor,
        kMostBytes);
  }
};

const Catalog& parts() {
  static const Catalog catalog =
      house_with({offer<Backend, OnDevice<std::size_t{1} << 20>>("holds_rows"),
                  offer<Backend, OnDevice<0>>("gets_rows")});
  return catalog;
}

struct Ran {
  /// \param is_cut  whether the run is stopped before its statistics are released, and resumed.
  Ran(const std::string& backend, const Overrides& overrides, bool is_cut) {
    Experiment experiment(kRun, with(overrides, {"backend=" + backend}), parts());
    const TempDir state;
    std::atomic<bool> stop = is_cut;
    core::RunOptions options{};
    options.directory = experiment.run_dir();
    options.threads = 2;
    options.state = state.path();
    options.stop = &stop;
    if (is_cut) {
      CHECK(core::run(experiment.plan(), options).can_be_resumed);
      CHECK(experiment.ledger().releases.empty());
      stop = false;
      options.resume = true;
    }
    CHECK(core::run(experiment.plan(), options).status == core::RunStatus::completed);
    model = experiment.parameters();
    for (const auto& one : experiment.ledger().releases)
      ledger.push_back(one.event.dump() + " " + one.what);
    const auto summary = nlohmann::json::parse(read_file(experiment.run_dir() / "summary.json"));
    noise_by = summary.at("checks").value("noise_by", "");
  }

  std::vector<float> model;
  std::vector<std::string> ledger;
  std::string noise_by;
};

}  // namespace

TEST_CASE("cuda: a run whose rows are transformed after a release has the model of the backend cpu",
          "[cuda][privacy][resume]") {
  const std::string counted = "data.size={about: 50, statistic: private, noise_multiplier: 8}";
  const std::vector<Overrides> kinds{
      {counted, "data.transforms=[{kind: scale_max_norm, max_norm: 3, to: 1}]"},
      {"data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], share: 0.1}]"},
      // Transformed rows have a different size.
      {counted, "data.transforms=[{kind: pca, dimensions: 5}]"}};
  std::vector<std::vector<float>> models;
  for (const Overrides& kind : kinds) {
    CAPTURE(kind);
    const Ran cpu("cpu", kind, false);
    CHECK(cpu.ledger.size() == 9);
    for (const std::string backend : {"holds_rows", "gets_rows"}) {
      for (const bool is_cut : {false, true}) {
        CAPTURE(backend, is_cut);
        const Ran own(backend, kind, is_cut);
        CHECK(own.noise_by == "test:" + backend);
        CHECK(own.ledger == cpu.ledger);
        CHECK(own.model == cpu.model);
      }
    }
    models.push_back(cpu.model);
  }
  CHECK(models[0] != Ran("cpu", {counted}, false).model);
}

}  // namespace resident_runs_on_cuda
