// Steps that stay on the program's device: the run has the same bits as with steps made by the
// core, and ends if its program makes any mistake.
#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "faulty_resident.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/checkpoint_folder.hpp"
#include "privgrad/train/workbench.hpp"
#include "privgrad/trust/resident_run.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "small_images.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "wrapped_backend.hpp"

using namespace privgrad;

namespace {

// 2082 parameters: three chunks of noise, the last with 34 elements. Of 300 steps, one or two check
// an example.
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

using namespace faulty_resident;

const Catalog& parts() {
  static const Catalog catalog =
      house_with({offer<Backend, BackendOf<Wrapped>>("wrapped"),
                  offer<Backend, BackendOf<Resident>>("right"),
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
                  offer<Backend, BackendOf<NoMemory>>("no_memory"),
                  offer<Backend, BackendOf<TakesARowTwice>>("takes_twice"),
                  offer<Backend, BackendOf<ClipsOneLess>>("clips_less"),
                  offer<Backend, BackendOf<TakesTooLong>>("takes_too_long"),
                  offer<Backend, BackendOf<LeavesOneOut>>("leaves_out"),
                  offer<Backend, BackendOf<ForgetsState>>("forgets_state"),
                  offer<Backend, BackendOf<CountsWaits>>("counts"),
                  offer<Clipping, WithoutRule>("without_rule"),
                  offer<Clipping, OtherRule>("other_rule"),
                  offer<Clipping, ThreeBounds>("three_bounds"),
                  offer<Clipping, NegativeBound>("negative_bound")});
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
  if (stays)
    CHECK(checks.at("noise_by") ==
          (backend.starts_with("{") ? "privgrad.cuda:cuda" : "test:" + backend));
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

/// Checks that the run ends, gives the reason in one line, and writes no model.
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
    CHECK(cpu.model == model_of(kind, false));  // the same model as without the interruption
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

TEST_CASE("parameters that moved by a release that was not checked are not given",
          "[resident][privacy]") {
  Experiment experiment(kResident, {"backend=wrong_element"}, parts());
  const core::Plan& plan = experiment.plan();
  const auto executor = core::make_executor(1);
  core::Workbench bench = core::make_workbench(plan, *executor);
  bench.load(core::initial_parameters(plan, core::RandomKey::from_seed(1)));
  const Dataset data = core::read_data(*plan.manifest, *plan.setting).train;
  core::ResidentRun run(*bench.program, data, StepRule::Kind::momentum,
                        core::RandomKey::from_seed(2), "test", *executor);
  const auto clipping = house().create<Clipping>("flat", Value::Object{});
  const std::vector<std::uint32_t> batch{0, 3, 4};
  const core::Clip clip{.rule = *clipping, .groups = plan.setting->groups, .clip_norm = 1.0};
  core::ResidentSum sum = run.sum(0, {batch, clip}, bench.memory, nullptr);
  core::StateWriter out;  // noise as if it were paid for
  out.begin("paid noise");
  out.put(core::RandomKey::from_seed(7));
  out.put(std::uint64_t{0}, core::kExactLevels, 10u, 0x1.8p26, 1.0, 0x1p-20, 1.0);
  out.put(std::uint64_t{0});
  const core::PaidNoise noise = core::PaidNoise::of(out.text());
  CHECK_THROWS_WITH(
      run.move(std::move(sum), noise,
               {.kind = StepRule::Kind::momentum, .rate = 0.1, .keep = 0.9, .take = 1.0}),
      ContainsSubstring("does not have the noise that was paid for"));
  std::vector<float> found(plan.parameters);
  CHECK_THROWS_WITH(run.bring_parameters(found), "test: its last step did not pass its checks");
  CHECK_THROWS_WITH(run.bring_state(0, found), "test: its last step did not pass its checks");
  CHECK_THROWS_WITH(run.sum(1, {batch, clip}, bench.memory, nullptr),
                    "test: its last step did not pass its checks");
}

TEST_CASE("a program that clips otherwise, or other examples, ends the run",
          "[resident][privacy]") {
  is_ended("takes_twice", "computes with other examples than those of the batch");
  // One row of some fifty, in a single step.
  is_ended("takes_twice", "computes with other examples than those of the batch",
           {"sampler.sample_rate=0.9", "steps=1"});
  is_ended("clips_less", "the scales of an example are not those of the clipping's rule");
  is_ended("takes_too_long", "an example is taken, or left out, against the length of its cells");
  is_ended("leaves_out", "a sum of cells is not that of its examples' cells");
}

TEST_CASE("steps stay with the program for every built-in clipping to a planned norm",
          "[resident][privacy]") {
  for (const std::string& clipping : std::vector<std::string>{
           "flat", "{kind: per_layer, weights: [1, 3]}", "normalized", "{kind: automatic}"}) {
    INFO(clipping);
    const std::vector<std::string> with = {"clipping=" + clipping};
    CHECK(model_of(with, true) == model_of(with, false));
    CHECK(model_of(with, true, "{kind: cuda, host_twin: true}") == model_of(with, false));
  }
}

TEST_CASE("whether a run ends does not depend on how a clipping's rule differs from its factors",
          "[resident][privacy]") {
  // Of 300 steps, some check an example.
  const std::vector<std::string> long_run{"steps=300", "evaluate_every=100"};
  const auto clipped_by = [&](const std::string& clipping) {
    return model_of(with(long_run, {"clipping=" + clipping}), true);
  };
  CHECK(clipped_by("other_rule") == clipped_by("normalized"));
  is_ended("right", "has 3 bounds, expected 1 or 2", {"clipping=three_bounds"});
  is_ended("right", "is negative or not finite", {"clipping=negative_bound"});
}

TEST_CASE("the trust base waits three times in a step of one pass", "[resident]") {
  CountsWaits::waits = 0;
  // 16 of the steps have a check, which looks at more.
  CHECK(model_of({"steps=48"}, true, "counts") == model_of({"steps=48"}, false));
  CHECK(CountsWaits::waits >= 3 * 48);
  CHECK(CountsWaits::waits <= 3 * 48 + 16);
}

TEST_CASE("a program that leaves other parameters than a step made ends the run", "[resident]") {
  is_ended("stale", "gave other parameters than the last step left");
  is_ended("twice_the_rate", "other parameters than the last step left");
  is_ended("forgets_state", "has another state of the optimizer than the last step left",
           {"optimizer=momentum"});
  is_ended("forgets", "has other parameters than the last step left");
  // From a checkpoint, which is written after every second step.
  const std::vector<std::string> often = {"evaluate_every=12", "checkpoint={every_steps: 2}"};
  is_ended("stale", "gave other parameters than the last step left", often);
  is_ended("stale_state", "gave another state of the optimizer than the last step left",
           {often[0], often[1], "optimizer=momentum"});
  is_ended("no_memory", "makes no memory for steps");
  // After each step, other parameters are loaded to be measured, and then these again.
  const std::vector<std::string> measured = {"ema_decay=0.9", "evaluate_every=1",
                                             "optimizer=momentum"};
  is_ended("forgets", "has other parameters than the last step left", measured);
  is_ended("forgets_state", "has another state of the optimizer than the last step left", measured);
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
                                             {"clipping=without_rule"},
                                             {"aggregator={kind: gaussian, arithmetic: float}"}}) {
    INFO(other.front());
    std::vector<std::string> all = other;
    all.emplace_back("backend=right");
    Experiment experiment(kResident, all, parts());
    experiment.run();
    CHECK_FALSE(checks_of(experiment).contains("noise_by"));
  }
}
