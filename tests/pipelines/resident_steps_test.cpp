// Steps that stay on the program's device: the run has the same bits as with steps made by the
// core, and ends if its program makes any mistake.
#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "host_resident.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/record/checkpoint_folder.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "small_images.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "wrapped_backend.hpp"

using namespace privgrad;

namespace {

// 2082 parameters: three chunks of noise, the last with 34 elements. 300 steps: in one or two of
// them an example is checked.
constexpr const char* kResident = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 40, test_is_public: true}
model: {kind: mlp, hidden: [48]}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: sgd
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 100, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
evaluate_every: 4
steps: 12
)";

using Resident = HostResident<Wrapped>;

struct NoiseOfAnotherKey final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    return Resident::release(memory,
                             core::noise_order_for_testing(3, order.sigma(), order.shift()));
  }
};
struct LessNoise final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Vectors& own = of(memory);
    for (std::size_t i = 0; i < own.sum.size(); ++i) own.released[i] = own.sum[i] >> order.shift();
    return {};
  }
};
struct OneWrongElement final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    of(memory).released.back() += 1;
    return {};
  }
};
struct OpenChunkOfNothing final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    return {3};
  }
};
/// Every sum is off by one cell, as if an example had been rounded differently.
struct SumOffByACell final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    for (std::int64_t& cell : of(memory).sum) cell += 1;
  }
};
/// The last example of a pass is added twice.
struct AddsTheLastTwice final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    std::vector<std::uint8_t> last(taken.size(), 0);
    last.back() = 1;
    Resident::add_to_sum(pass, last, memory);
  }
};
/// The noise is in the sum before it was charged: from a key that the program stores for this
/// purpose.
struct NoiseBeforeTheReceipt final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    Vectors& own = of(memory);
    core::release_for_testing(core::noise_order_for_testing(4, 0x1p28, 0), 0, own.sum, own.sum);
  }
};
/// The same, but the sum is reported correctly: then the release has other noise.
struct NoiseBesideTheSum final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    Vectors& own = of(memory);
    core::release_for_testing(core::noise_order_for_testing(4, 0x1p28, 19), 0, own.sum,
                              own.released);
  }
  std::vector<std::uint64_t> release(Memory&, const NoiseOrder&) const override { return {}; }
};
/// Checkpoints, evaluations and the end get the model of the previous step.
struct StaleParameters final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    before_ = own_;
    return Resident::update(memory, rule, width);
  }
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override {
    Resident::numbers(memory, what, out);
    if (what == Numbers::parameters && !before_.empty())
      std::copy(before_.begin(), before_.end(), out.begin());
  }
  std::vector<float> before_;
};
struct StaleState final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    before_ = of(memory).state;
    return Resident::update(memory, rule, width);
  }
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override {
    Resident::numbers(memory, what, out);
    if (what == Numbers::first_state && !before_.empty())
      std::copy(before_[0].begin(), before_[0].end(), out.begin());
  }
  std::vector<std::vector<float>> before_;
};
struct TwiceTheRate final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    StepRule other = rule;
    other.rate *= 2.0;
    return Resident::update(memory, other, width);
  }
};
/// A parameter changes between two steps, before it is used.
struct Forgets final : Resident {
  using Resident::Resident;
  void clear_sum(Memory& memory) const override {
    Resident::clear_sum(memory);
    const_cast<Forgets*>(this)->own_.front() += 1.0f;
  }
};
struct NoMemory final : Resident {
  using Resident::Resident;
  std::unique_ptr<Memory> make_memory(std::size_t) const override { return nullptr; }
};

/// Correct, with noise that it sometimes leaves undecided, and with invalid cells there.
struct LeavesNoiseOpen final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    of(memory).released[1024] = 12345;
    of(memory).released.back() = 54321;
    return {1, 2};
  }
};
/// Correct; checks that each order comes after its charge: the ledger of the running run has a line
/// for it on the disk.
struct LooksAtTheLedger final : Resident {
  using Resident::Resident;
  static inline std::filesystem::path ledger;
  static inline std::size_t orders;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    const auto paid = core::read_ledger(ledger).releases.size();
    if (++orders > paid) throw std::logic_error("an order of noise that nobody paid for");
    return Resident::release(memory, order);
  }
};

const Catalog& parts() {
  static const Catalog catalog = house_with(
      {offer<Backend, BackendOf<Wrapped>>("wrapped"), offer<Backend, BackendOf<Resident>>("right"),
       offer<Backend, BackendOf<LeavesNoiseOpen>>("open"),
       offer<Backend, BackendOf<LooksAtTheLedger>>("looks"),
       offer<Backend, BackendOf<NoiseOfAnotherKey>>("another_key"),
       offer<Backend, BackendOf<LessNoise>>("less_noise"),
       offer<Backend, BackendOf<OneWrongElement>>("wrong_element"),
       offer<Backend, BackendOf<OpenChunkOfNothing>>("open_chunk"),
       offer<Backend, BackendOf<SumOffByACell>>("off_by_a_cell"),
       offer<Backend, BackendOf<AddsTheLastTwice>>("adds_twice"),
       offer<Backend, BackendOf<NoiseBeforeTheReceipt>>("noise_before"),
       offer<Backend, BackendOf<NoiseBesideTheSum>>("noise_beside"),
       offer<Backend, BackendOf<StaleParameters>>("stale"),
       offer<Backend, BackendOf<StaleState>>("stale_state"),
       offer<Backend, BackendOf<TwiceTheRate>>("twice_the_rate"),
       offer<Backend, BackendOf<Forgets>>("forgets"),
       offer<Backend, BackendOf<NoMemory>>("no_memory")});
  return catalog;
}

std::vector<float> model_of(const std::vector<std::string>& overrides, bool stays,
                            const std::string& backend = "right") {
  std::vector<std::string> all = overrides;
  all.push_back("backend=" + (stays ? backend : "wrapped"));
  Experiment experiment(kResident, all, parts());
  CHECK(experiment.run(stays ? 2 : 1).status == core::RunStatus::completed);
  const auto checks = checks_of(experiment);
  CHECK(checks.contains("noise_by") == stays);
  if (stays) CHECK(checks.at("noise_by") == "test:" + backend);
  return experiment.parameters();
}

/// The part of a checkpoint about the parameters, and, after the ledger's position (which names a
/// hash of the manifest and thereby the backend), the optimizer, the used budget, and the checks.
std::string checkpoint_of(const std::filesystem::path& run, const std::filesystem::path& state,
                          std::size_t parameters) {
  const std::string name = nlohmann::json::parse(read_file(run / "resume.json")).at("state");
  const auto found = core::CheckpointFolder::open(state, name).read(false);
  const std::string& content = found.value().content;
  const std::string tag = "trainer";
  const std::size_t at = content.find(tag);
  REQUIRE(at != content.npos);
  constexpr std::size_t kWord = 8, kHash = 64;
  const std::size_t bytes = parameters * sizeof(float);
  return content.substr(at - kWord - bytes, bytes) +
         content.substr(at + tag.size() + 3 * kWord + kHash);
}

/// A run that is stopped after its 8th step, and resumed.
struct CutAndResumed {
  CutAndResumed(const std::vector<std::string>& overrides, const std::string& backend) {
    std::vector<std::string> all = overrides;
    all.push_back("backend=" + backend);
    Experiment experiment(kResident, all, parts());
    const TempDir state;
    std::atomic<bool> stop = false;
    core::RunOptions options{};
    options.directory = experiment.run_dir();
    options.threads = 2;
    options.state = state.path();
    options.on_progress = [&](const core::Progress& now) { stop = now.step == 8; };
    options.stop = &stop;
    CHECK(core::run(experiment.plan(), options).can_be_resumed);
    checkpoint = checkpoint_of(experiment.run_dir(), state.path(), experiment.plan().parameters);
    stop = false;
    options.resume = true;
    CHECK(core::run(experiment.plan(), options).status == core::RunStatus::completed);
    model = experiment.parameters();
    for (const auto& one : experiment.ledger().releases) {
      ledger.push_back(nlohmann::json{one.step, one.event, one.epsilon, one.what, one.release,
                                      one.delta, one.bound}
                           .dump());
    }
    noise_by = checks_of(experiment).value("noise_by", "");
  }

  std::string checkpoint, noise_by;
  std::vector<float> model;
  std::vector<std::string> ledger;
};

/// The run ends, gives the reason in one line, and writes no model.
void is_ended(const std::string& backend, const std::string& words,
              const std::vector<std::string>& more = {}) {
  INFO(backend);
  std::vector<std::string> all = more;
  all.push_back("backend=" + backend);
  Experiment experiment(kResident, all, parts());
  const TempDir state;
  std::string said;
  try {
    core::run(experiment.plan(), {.directory = experiment.run_dir(),
                                  .lock = "",
                                  .threads = 1,
                                  .state = state.path(),
                                  .on_progress = {}});
  } catch (const PluginError& error) {
    said = error.what();
  }
  CHECK_THAT(said, ContainsSubstring("test:" + backend) && ContainsSubstring(words) &&
                       !ContainsSubstring("\n"));
  CHECK_FALSE(std::filesystem::exists(experiment.run_dir() / "model.safetensors"));
}

}  // namespace

TEST_CASE("steps that stay with the program leave the model of steps that do not",
          "[resident][privacy]") {
  for (const std::string& optimizer : std::vector<std::string>{
           "sgd", "{kind: momentum, variant: heavy_ball}", "{kind: momentum}", "adam"}) {
    INFO(optimizer);
    const std::vector<std::string> with = {"optimizer=" + optimizer, "steps=300",
                                           "evaluate_every=100"};
    CHECK(model_of(with, true) == model_of(with, false));
  }
}

TEST_CASE("a run on the twin of a GPU has the model, ledger and checkpoint of one on the processor",
          "[resident][privacy][resume]") {
  const std::vector<std::vector<std::string>> kinds{
      {"optimizer=sgd"},
      {"optimizer=momentum"},
      {"optimizer=adam"},
      {"optimizer=momentum", "model.class_weights=balanced",
       "report.class_counts={noise_multiplier: 5, largest_weight: 4}"}};
  for (const std::vector<std::string>& kind : kinds) {
    CAPTURE(kind);
    std::vector<std::string> with = kind;
    with.emplace_back("checkpoint={every_steps: 3}");
    const CutAndResumed cpu(with, "cpu"), twin(with, "{kind: cuda, host_twin: true}");
    const CutAndResumed host(with, "{kind: cuda, host_twin: true, steps: host}");
    CHECK(twin.noise_by == "privgrad.cuda:cuda");
    CHECK(cpu.noise_by == "");
    CHECK(host.noise_by == "");
    for (const CutAndResumed* other : {&twin, &host}) {
      CHECK((other->checkpoint == cpu.checkpoint));  // bytes that a message should not print
      CHECK(other->ledger == cpu.ledger);
      CHECK(other->model == cpu.model);
    }
    CHECK(cpu.model == model_of(kind, false));  // as if it was not cut off
  }
}

TEST_CASE("a run on the twin of a GPU scales coordinates as one on the processor does, or says not",
          "[resident][privacy]") {
  const std::vector<std::string> with = {"clipping=adaclip", "checkpoint={every_steps: 3}"};
  const CutAndResumed cpu(with, "cpu"), twin(with, "{kind: cuda, host_twin: true}");
  CHECK(cpu.noise_by == "");
  CHECK(twin.noise_by == "");
  CHECK(twin.ledger == cpu.ledger);
  CHECK(twin.model == cpu.model);
  CHECK(cpu.model == model_of({"clipping=adaclip"}, false));
}

TEST_CASE("a residual network has the same run on a GPU's twin, cut off and resumed or not",
          "[resident][privacy][resume]") {
  // Blocks as in wrn_16_4: one that keeps its shape and one that changes it.
  const auto conv = [](int channels, int stride) {
    return "{kind: conv2d, channels: " + std::to_string(channels) +
           ", kernel: 3, padding: 1, stride: " + std::to_string(stride) + "}, ";
  };
  const std::string norm = "{kind: group_norm, groups: 2}, {kind: activation, function: relu}, ";
  const TempDir files;
  small_images::write(files.path());
  const auto split = [&](const std::string& name) {
    return name + ": {images: " + (files.path() / "images").string() +
           ", labels: " + (files.path() / "labels").string() + "}";
  };
  const std::vector<std::string> with = {
      "data={kind: idx, " + split("train") + ", " + split("test") + "}",
      "model={kind: cnn, layers: [" + conv(4, 1) + norm + conv(4, 1) + norm + conv(4, 1) +
          "{kind: shortcut, over: 6}, " + norm + conv(6, 2) + norm + conv(6, 1) +
          "{kind: shortcut, over: 4, stride: 2}, " + norm + "{kind: avg_pool, window: 4}]}",
      "optimizer=momentum"};
  std::vector<std::string> kept = with;
  kept.emplace_back("checkpoint={every_steps: 3}");
  const CutAndResumed cpu(kept, "cpu"), twin(kept, "{kind: cuda, host_twin: true}");
  CHECK(twin.noise_by == "privgrad.cuda:cuda");
  CHECK((twin.checkpoint == cpu.checkpoint));  // bytes that a message should not print
  CHECK(twin.ledger == cpu.ledger);
  CHECK(twin.model == cpu.model);
  Experiment uncut(kResident, with, parts());
  CHECK(uncut.run(2).status == core::RunStatus::completed);
  CHECK(uncut.parameters() == cpu.model);
}

TEST_CASE("so do those of which chunks of noise are left open, and made by the core",
          "[resident][privacy]") {
  CHECK(model_of({}, true, "open") == model_of({}, false));
}

TEST_CASE("models that are looked at between steps are those that steps left", "[resident]") {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"ema_decay=0.9", "output=ema"}, {"output=random_iterate"}, {"microbatch_size=3"}}) {
    INFO(more.front());
    CHECK(model_of(more, true) == model_of(more, false));
  }
}

TEST_CASE("an order of noise comes behind its charge", "[resident][privacy]") {
  Experiment experiment(kResident, {"backend=looks"}, parts());
  LooksAtTheLedger::ledger = experiment.run_dir() / "ledger.jsonl";
  LooksAtTheLedger::orders = 0;
  experiment.run();
  CHECK(LooksAtTheLedger::orders == 12);
}

TEST_CASE("a program whose noise is not the one that was paid for ends the run",
          "[resident][privacy]") {
  const std::string words = "does not have the noise that was paid for";
  is_ended("another_key", words);
  is_ended("less_noise", words);
  is_ended("wrong_element", words);
  is_ended("noise_beside", words);
  is_ended("open_chunk", "leaves open a chunk of noise that does not exist");
}

TEST_CASE("a program whose sum is not that of its cells ends the run", "[resident][privacy]") {
  const std::string words = "a sum of cells is not that of its examples' cells";
  is_ended("off_by_a_cell", words);
  is_ended("adds_twice", words);
  is_ended("noise_before", words);
}

TEST_CASE("a program that leaves other parameters than a step made ends the run", "[resident]") {
  is_ended("stale", "gave other parameters than the last step left");
  is_ended("twice_the_rate", "moved parameters against the optimizer's rule");
  is_ended("forgets", "has other parameters than the last step left");
  // From a checkpoint, which is written after every second step.
  const std::vector<std::string> often = {"evaluate_every=12", "checkpoint={every_steps: 2}"};
  is_ended("stale", "gave other parameters than the last step left", often);
  is_ended("stale_state", "gave another state of the optimizer than the last step left",
           {often[0], often[1], "optimizer=momentum"});
  is_ended("no_memory", "makes no memory for steps");
}

TEST_CASE("the model of a report on private rows was looked at before the report is paid for",
          "[resident][privacy]") {
  // No line of progress is due at the report, so only the report asks for the parameters.
  const std::vector<std::string> with = {
      "data.size=60", "evaluate_every=12",
      "report={train_accuracy: {noise_multiplier: 8, every: 5}}"};
  const auto reports_of = [&](const std::string& backend, bool ends) {
    std::vector<std::string> all = with;
    all.push_back("backend=" + backend);
    Experiment experiment(kResident, all, parts());
    experiment.plan();
    if (ends) {
      CHECK_THROWS_WITH(experiment.run(),
                        ContainsSubstring("gave other parameters than the last step left"));
    } else {
      CHECK(experiment.run().status == core::RunStatus::completed);
    }
    std::vector<std::uint64_t> steps;
    for (const auto& release : experiment.ledger().releases)
      if (!release.what.empty()) steps.push_back(release.step);
    return steps;
  };
  CHECK(reports_of("right", false).size() == 3);
  CHECK(reports_of("stale", true).empty());
}

TEST_CASE("noise that diverges ends a run as it does where steps are made by the core",
          "[resident]") {
  const std::vector<std::string> wild = {"schedules.learning_rate=1e38"};
  std::vector<std::vector<float>> models;
  for (const char* backend : {"backend=right", "backend=wrapped"}) {
    Experiment experiment(kResident, {wild.front(), backend}, parts());
    CHECK(experiment.run().status == core::RunStatus::diverged);
    models.push_back(experiment.parameters());
  }
  CHECK(models[0] == models[1]);
}

TEST_CASE("steps of other kinds are made by the core, whoever could make them", "[resident]") {
  for (const std::vector<std::string>& other :
       std::vector<std::vector<std::string>>{{"optimizer={kind: normalized_sgd}"},
                                             {"privacy.noise=off"},
                                             {"clipping=adaclip"},
                                             {"aggregator={kind: gaussian, arithmetic: float}"}}) {
    INFO(other.front());
    std::vector<std::string> all = other;
    all.emplace_back("backend=right");
    Experiment experiment(kResident, all, parts());
    experiment.run();
    CHECK_FALSE(checks_of(experiment).contains("noise_by"));
  }
}
