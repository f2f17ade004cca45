// Initial weights from a file, frozen layers, and the average of the parameters.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/model/safetensors.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/train/run_estimate.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/data_account.hpp"
#include "tensor_file.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

/// 3 x 4 and 4 numbers, then 2 x 4 and 2: layers.0 and layers.2.
constexpr const char* kBegunElsewhere = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 3, test_is_public: true}
model: {kind: mlp, hidden: [4], activation: tanh, loss: cross_entropy}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

const std::vector<std::string> kNoNoise{"privacy.noise=off", "schedules.clip_norm=1e6",
                                        "schedules.noise_multiplier=null"};

std::vector<float> ramp(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + 0.07f * static_cast<float>(i);
  return values;
}

std::vector<Tensor> trained_tensors() {
  return {{"layers.0.weight", {4, 3}, ramp(12, -0.4f)},
          {"layers.0.bias", {4}, ramp(4, 0.1f)},
          {"layers.2.weight", {2, 4}, ramp(8, -0.2f)},
          {"layers.2.bias", {2}, ramp(2, 0.3f)}};
}

std::vector<float> joined(const std::vector<Tensor>& tensors) {
  std::vector<float> all;
  for (const Tensor& tensor : tensors)
    all.insert(all.end(), tensor.values.begin(), tensor.values.end());
  return all;
}

/// An experiment with a file of weights next to its manifest.
struct Begun : Experiment {
  explicit Begun(const std::vector<std::string>& overrides,
                 const std::string& file = safetensors_of(trained_tensors()))
      : Experiment(kBegunElsewhere, overrides) {
    write_file(dir() / "base.safetensors", file);
  }
};

const std::string kWeights = "model.weights={file: base.safetensors}";
const std::string kPublicWeights = "model.weights={file: base.safetensors, public: true}";

/// Returns the parameters before the first step, from a run of one step that learns nothing.
std::vector<float> beginning(Experiment& experiment) {
  return core::initial_parameters(experiment.plan(), core::RandomKey::from_seed(1));
}

std::string refusal_of(const std::vector<std::string>& overrides,
                       const std::string& file = safetensors_of(trained_tensors())) {
  Begun experiment(overrides, file);
  try {
    experiment.plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "it was planned";
}

std::vector<std::string> unaccounted(const core::Plan& plan) {
  return core::unaccounted_names(plan.unaccounted);
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

// ---- initial values of a model

TEST_CASE("a model begins from the tensors of a file that have its names", "[weights]") {
  Begun all({kWeights});
  CHECK(beginning(all) == joined(trained_tensors()));

  // Tensors missing from the file have the model's own initial values; unknown tensors in the file
  // are not used.
  std::vector<Tensor> some = trained_tensors();
  some[3].name = "somewhere_else";
  Begun part({kWeights}, safetensors_of(some));
  Experiment fresh(kBegunElsewhere);
  std::vector<float> expected = joined(trained_tensors());
  const std::vector<float> anew = beginning(fresh);
  std::copy(anew.end() - 2, anew.end(), expected.end() - 2);
  CHECK(beginning(part) == expected);
  const auto& facts = part.plan().setting->weights;
  CHECK(facts->begun_anew == std::vector<std::string>{"layers.2.bias"});
  CHECK(facts->unused == 1);
  CHECK(facts->loaded.size() == 3);
}

TEST_CASE("only what the model uses has to be numbers that it can use", "[weights]") {
  // Every PyTorch model with BatchNorm counts its batches in whole numbers.
  std::vector<Tensor> tensors = trained_tensors();
  tensors.push_back({"bn.num_batches_tracked", {1}, {1.0f}, "I32"});
  tensors.push_back({"mask", {1}, {std::numeric_limits<float>::infinity()}});
  Begun experiment({kWeights}, safetensors_of(tensors));
  CHECK(beginning(experiment) == joined(trained_tensors()));
  CHECK(experiment.plan().setting->weights->unused == 2);
  tensors[0].type = "I32";
  CHECK_THAT(refusal_of({kWeights}, safetensors_of(tensors)),
             ContainsSubstring("base.safetensors: its tensor 'layers.0.weight' has numbers of the "
                               "type 'I32', allowed are F32, F16 and BF16"));
  tensors[0].type = "F32";
  tensors[0].values[2] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(
      refusal_of({kWeights}, safetensors_of(tensors)),
      ContainsSubstring("'layers.0.weight' contains a number that is not finite, at place 2"));
}

TEST_CASE("a map names what the file calls otherwise, and what begins anew", "[weights]") {
  std::vector<Tensor> tensors = trained_tensors();
  tensors[0].name = "fc1.weight";
  tensors[2].shape = {4, 2};  // would not fit
  Begun experiment({"model.weights={file: base.safetensors, map: {layers.0.weight: fc1.weight, "
                    "layers.2.weight: null}}"},
                   safetensors_of(tensors));
  Experiment fresh(kBegunElsewhere);
  const std::vector<float> anew = beginning(fresh), found = beginning(experiment);
  CHECK(std::equal(found.begin(), found.begin() + 16, joined(trained_tensors()).begin()));
  CHECK(std::equal(found.begin() + 16, found.begin() + 24, anew.begin() + 16));
  // The resolved manifest gives the same run.
  experiment.run();
  const core::Manifest again =
      core::load_manifest(experiment.run_dir() / "manifest.yaml", {}, house());
  CHECK(again.weights->names == experiment.plan().manifest->weights->names);
  CHECK(again.weights->file == experiment.plan().manifest->weights->file);
}

TEST_CASE("weights that do not fit are refused with a table of all of them", "[weights]") {
  std::vector<Tensor> tensors = trained_tensors();
  tensors[0].shape = {3, 4};
  tensors[1].name = "ba\x1bse";
  const std::string table = refusal_of({kWeights}, safetensors_of(tensors));
  CHECK_THAT(table, ContainsSubstring("model.weights: 1 tensor(s) of the file do not fit"));
  CHECK_THAT(table, ContainsSubstring(
                        "layers.0.weight, 4 x 3: 'layers.0.weight', 3 x 4, which does not fit"));
  CHECK_THAT(table, ContainsSubstring("layers.0.bias, 4: begins anew"));
  CHECK_THAT(table, ContainsSubstring("layers.2.weight, 2 x 4: 'layers.2.weight', 2 x 4"));
  CHECK_THAT(table, ContainsSubstring("not used: 'ba\\x1bse', 4"));

  tensors = trained_tensors();
  for (Tensor& tensor : tensors) tensor.name = "other." + tensor.name;
  CHECK_THAT(refusal_of({kWeights}, safetensors_of(tensors)),
             ContainsSubstring("no tensor of the file has a name"));
  CHECK_THAT(refusal_of({"model.weights={file: base.safetensors, map: {layers.0.wieght: a}}"}),
             ContainsSubstring("did you mean 'layers.0.weight'?"));
  CHECK_THAT(refusal_of({"model.weights={file: base.safetensors, map: {layers.0.bias: "
                         "layers.2.bais}}"}),
             ContainsSubstring("does not contain; did you mean 'layers.2.bias'?"));
  CHECK_THAT(refusal_of({kWeights}, "no such format"),
             ContainsSubstring("base.safetensors: is incomplete, or not a model"));
  for (const char* const magic : {"PK\x03\x04", "\x80\x02"}) {
    CHECK_THAT(refusal_of({kWeights}, magic + std::string("of PyTorch")),
               ContainsSubstring("base.safetensors: is a file of torch.save (.pt, .pth)") &&
                   ContainsSubstring("safetensors.torch.save_file"));
  }
  CHECK_THAT(refusal_of({"model.weights={public: true}"}), ContainsSubstring("model.weights.file"));
  CHECK_THAT(refusal_of({"model.weights={file: absent.safetensors}"}),
             ContainsSubstring("there is no such file"));
}

// ---- who vouches for the weights

TEST_CASE("weights that nobody declares public are listed, and refused in release mode",
          "[weights][privacy]") {
  Begun listed({kWeights});
  CHECK(has(unaccounted(listed.plan()), "initial_weights"));
  Begun declared({kPublicWeights});
  CHECK_FALSE(has(unaccounted(declared.plan()), "initial_weights"));

  const std::vector<std::string> release{"mode=release", "seed=null"};
  const std::string why = refusal_of(with({kWeights}, release));
  CHECK_THAT(why, ContainsSubstring("release mode refuses 'initial_weights'"));
  CHECK_THAT(why, ContainsSubstring("declare them public"));
  CHECK(refusal_of(with({kPublicWeights}, release)) == "it was planned");

  const core::RunResult run = listed.run();
  CHECK(run.statement.at("initial_weights").at("is") == "unaccounted");
  CHECK(run.statement.at("initial_weights").at("sha256") ==
        core::sha256_hex(safetensors_of(trained_tensors())));
  CHECK_THAT(run.statement.at("stain").get<std::string>(), ContainsSubstring("initial_weights"));
  CHECK(declared.run().statement.at("initial_weights").at("is") == "declared_public");
}

TEST_CASE(
    "a model of PrivGrad's own brings its epsilon along, and counts as charged only in its own "
    "account",
    "[weights][account][privacy]") {
  const TempDir dir;
  const auto open = [&](const std::string& name) {
    const auto file = dir.path() / name;
    core::DataAccount::open(file, {.name = "data",
                                   .adjacency = Adjacency::zero_out,
                                   .unit = PrivacyUnit::example,
                                   .target_epsilon = 8.0,
                                   .target_delta = 1e-5,
                                   .accountant = "kind: zcdp"});
    return "privacy.account=" + file.string();
  };
  const std::string ours = open("ours.jsonl"), others = open("others.jsonl");
  const std::vector<std::string> release{"mode=release", "seed=null", "data.size=60"};
  Experiment first(kBegunElsewhere, with(release, {ours}));
  first.run();
  const std::string file = read_file(first.run_dir() / "model.safetensors");

  Begun same(with(release, {kWeights, ours}), file);
  CHECK_FALSE(has(unaccounted(same.plan()), "initial_weights"));
  CHECK(same.run().statement.at("initial_weights").at("is") == "charged_in_account");

  const std::string epsilon = core::read_safetensors(file).metadata.at("epsilon");
  const std::vector<std::vector<std::string>> uncharged{{kWeights, others}, {kWeights}};
  Begun without({kWeights}, file);
  CHECK(has(unaccounted(without.plan()), "initial_weights"));
  for (const auto& overrides : uncharged) {
    const std::string why = refusal_of(with(overrides, release), file);
    CHECK_THAT(why, ContainsSubstring("the run 'base' with epsilon " + epsilon));
    CHECK_THAT(why, ContainsSubstring("pay for both runs from one account"));
  }
  // A model from uncharged private rows stays uncharged, whatever account it names.
  auto metadata = core::read_safetensors(file).metadata;
  metadata["unaccounted"] = R"(["pca"])";
  const auto refused = [&] {
    return refusal_of(with(release, {kWeights, ours}), safetensors_of(trained_tensors(), metadata));
  };
  CHECK_THAT(refused(), ContainsSubstring("'initial_weights'"));
  metadata["unaccounted"] = "nothing";
  CHECK_THAT(refused(), ContainsSubstring("'initial_weights'"));
}

TEST_CASE("what a private run has left is not public because a manifest says so",
          "[weights][account][privacy]") {
  Experiment first(kBegunElsewhere);
  first.run();
  const std::string file = read_file(first.run_dir() / "model.safetensors");
  const std::vector<std::string> release{"mode=release", "seed=null"};

  Begun declared({kPublicWeights}, file);
  CHECK(has(unaccounted(declared.plan()), "initial_weights"));
  const core::RunResult run = declared.run();
  CHECK(run.statement.at("initial_weights").at("is") == "unaccounted");
  CHECK_THAT(run.statement.at("stain").get<std::string>(), ContainsSubstring("initial_weights"));
  const std::string why = refusal_of(with({kPublicWeights}, release), file);
  CHECK_THAT(why, ContainsSubstring("release mode refuses 'initial_weights'"));
  CHECK_THAT(why, ContainsSubstring("the manifest declares them public does not make them so"));
  CHECK_THAT(why, !ContainsSubstring("or declare them public"));

  // The same holds for models made from it, with or without noise.
  Begun laundered(with(kNoNoise, {kPublicWeights}), file);
  laundered.run();
  const std::string second = read_file(laundered.run_dir() / "model.safetensors");
  CHECK(core::read_safetensors(second).metadata.at("epsilon") == "inf");
  CHECK(has(unaccounted(Begun({kPublicWeights}, second).plan()), "initial_weights"));

  // The file of a model trained without noise states no guarantee for its rows.
  Experiment open(kBegunElsewhere, kNoNoise);
  open.run();
  const std::string nothing_said = read_file(open.run_dir() / "model.safetensors");
  CHECK(refusal_of(with({kPublicWeights}, release), nothing_said) == "it was planned");
  // A file that states no epsilon is not mistaken for such a model.
  auto metadata = core::read_safetensors(nothing_said).metadata;
  metadata.erase("epsilon");
  CHECK(
      has(unaccounted(Begun({kPublicWeights}, safetensors_of(trained_tensors(), metadata)).plan()),
          "initial_weights"));
}

TEST_CASE("a run from weights is verified without the file, and bound to its hash",
          "[weights][verify]") {
  Begun experiment({kPublicWeights, "model.train=[last]"});
  experiment.run();
  std::filesystem::remove(experiment.dir() / "base.safetensors");
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");

  const auto file = experiment.run_dir() / "facts.json";
  nlohmann::json facts = nlohmann::json::parse(read_file(file));
  facts["weights"]["sha256"] = std::string(64, '0');
  write_file(file, facts.dump() + "\n");
  const std::string problems = verify::all_of(verify::check(experiment.run_dir()).problems);
  CHECK_THAT(problems, ContainsSubstring("facts.json"));
  CHECK_THAT(problems, ContainsSubstring("initial_weights"));
  facts.erase("weights");
  write_file(file, facts.dump() + "\n");
  CHECK_THAT(verify::all_of(verify::check(experiment.run_dir()).problems),
             ContainsSubstring("contradict each other"));
}

// ---- frozen layers

TEST_CASE("frozen layers stay as they were, and the others learn as in the whole model",
          "[weights][frozen]") {
  // One step without noise or clipping from the same parameters: the gradient of the last layer
  // does not depend on whether the first one is trained. In exact arithmetic the two are equal; in
  // float32 the sums of the two networks are equal up to the order of summation.
  const std::vector<std::string> one = with(kNoNoise, {kPublicWeights, "steps=1"});
  Begun whole(one);
  Begun head(with(one, {"model.train=[last]"}));
  whole.run();
  head.run();
  const std::vector<float> before = joined(trained_tensors());
  const std::vector<float> all = whole.parameters(), last = head.parameters();
  REQUIRE(last.size() == all.size());
  CHECK(std::equal(last.begin(), last.begin() + 16, before.begin()));
  CHECK_FALSE(std::equal(all.begin(), all.begin() + 16, before.begin()));
  for (std::size_t i = 16; i < all.size(); ++i) {
    CHECK(last[i] != before[i]);
    CHECK_THAT(last[i], WithinAbs(all[i], 1e-6));
  }
}

TEST_CASE("layers behind what is trained can be frozen, too", "[weights][frozen]") {
  // The gradient of the first layer does not depend on whether the last one is trained. The single
  // backward pass of the whole model (ExactClipping) makes products smaller by 2^-11, and rounds
  // their factors to 13 bits; the rows here are rounded once.
  const std::vector<std::string> one = with(kNoNoise, {kPublicWeights, "steps=1"});
  Begun whole(one);
  Begun body(with(one, {"model.train=[layers.0]"}));
  whole.run();
  body.run();
  const std::vector<float> before = joined(trained_tensors());
  const std::vector<float> all = whole.parameters(), first = body.parameters();
  REQUIRE(first.size() == all.size());
  double farthest = 0.0;
  for (std::size_t i = 0; i < 16; ++i)
    farthest = std::max(farthest, std::fabs(static_cast<double>(all[i] - before[i])));
  CHECK(farthest > 1e-3);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(first[i] != before[i]);
    CHECK_THAT(first[i], WithinAbs(all[i], 0x1p-10 * farthest));
  }
  CHECK(std::equal(first.begin() + 16, first.end(), before.begin() + 16));
}

TEST_CASE("layers that are frozen behind others have no norms, no noise and no cost",
          "[weights][frozen][privacy]") {
  Begun body({kPublicWeights, "model.train=[layers.0]"});
  const core::Plan& plan = body.plan();
  CHECK(plan.parameters == 16);
  CHECK(plan.setting->frozen_parameters == 0);
  REQUIRE(plan.setting->groups.size() == 1);
  CHECK(plan.setting->groups[0].name == "layers.0");
  CHECK(plan.setting->groups[0].size == 16);
  CHECK(plan.covers_bits());
  const core::RunResult run = body.run();
  CHECK(run.status == core::RunStatus::completed);
  CHECK(run.statement.at("floating_point") == "exact");
  CHECK_FALSE(run.statement.contains("lora"));
  const auto& weights = run.statement.at("initial_weights");
  CHECK(weights.at("frozen").empty());
  CHECK(weights.at("frozen_behind") == nlohmann::json{"layers.2.weight", "layers.2.bias"});
  CHECK_THAT(run.statement.at("prose").dump(),
             ContainsSubstring("Behind what was trained, layers.2.weight and layers.2.bias are as "
                               "they were"));
}

TEST_CASE("frozen layers cost nothing: noise and norms are of what is trained",
          "[weights][frozen][privacy]") {
  Begun head({kPublicWeights, "model.train=[layers.2.*]"});
  Experiment whole(kBegunElsewhere);
  const core::Plan& plan = head.plan();
  CHECK(plan.parameters == 10);
  CHECK(plan.setting->frozen_parameters == 16);
  REQUIRE(plan.setting->groups.size() == 1);
  CHECK(plan.setting->groups[0].size == 10);
  CHECK(plan.epsilon().value == whole.plan().epsilon().value);
  CHECK(plan.covers_bits());
  const core::RunResult run = head.run();
  CHECK(run.status == core::RunStatus::completed);
  CHECK(run.statement.at("floating_point") == "exact");
  CHECK(run.statement.at("initial_weights").at("frozen") ==
        nlohmann::json{"layers.0.weight", "layers.0.bias"});
}

TEST_CASE("what an example becomes in frozen layers depends on no other one",
          "[weights][frozen][privacy]") {
  // A data set and its neighbour, with a different last example: all other features keep their
  // bits. Values for the first are computed by hand: tanh(W x + b).
  const auto features_of = [](const std::string& last) {
    Experiment experiment(R"(privgrad: 1
seed: 1
data: {kind: csv, train: rows.csv, target: y, classes: 2}
model: {kind: mlp, hidden: [4], activation: tanh, weights: {file: base.safetensors}, train: [last]}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)");
    std::string rows = "a,b,c,y\n";
    for (int i = 0; i < 299; ++i)
      rows += std::to_string(0.01 * i) + ",0.5,-1," + std::to_string(i % 2) + "\n";
    write_file(experiment.dir() / "rows.csv", rows + last + "\n");
    write_file(experiment.dir() / "base.safetensors", safetensors_of(trained_tensors()));
    const core::Plan& plan = experiment.plan();
    core::RunData data = core::read_data(*plan.manifest, *plan.setting);
    const auto features = data.train.features();
    return std::vector<float>(features.begin(), features.end());
  };
  const std::vector<float> a = features_of("1,2,3,0"), b = features_of("1e30,-1e30,7,1");
  REQUIRE(a.size() == 300 * 4);
  CHECK(std::memcmp(a.data(), b.data(), 299 * 4 * sizeof(float)) == 0);
  CHECK_FALSE(std::equal(a.end() - 4, a.end(), b.end() - 4));
  const std::vector<float> w = ramp(12, -0.4f), bias = ramp(4, 0.1f);
  for (std::size_t unit = 0; unit < 4; ++unit) {
    const double sum = bias[unit] + 0.0 * w[3 * unit] + 0.5 * w[3 * unit + 1] - w[3 * unit + 2];
    CHECK_THAT(a[unit], WithinAbs(std::tanh(sum), 1e-6));
  }
}

TEST_CASE("what cannot be frozen is refused", "[weights][frozen]") {
  const auto why = [](const std::string& train) {
    return refusal_of({kPublicWeights, "model.train=[" + train + "]"});
  };
  CHECK(why("layers.0") == "it was planned");
  CHECK_THAT(why("layers.2.weight"), ContainsSubstring("a part of layers.2"));
  CHECK_THAT(why("head"), ContainsSubstring("there are layers.0, layers.2, and last"));
  CHECK(why("'*'") == "it was planned");
  CHECK(why("layers.0.*, last") == "it was planned");
  CHECK_THAT(refusal_of({"model.train=[last]"}),
             ContainsSubstring("freezes layers.0.weight, whose weights are untrained"));
  std::vector<Tensor> tensors = trained_tensors();
  tensors.erase(tensors.begin());
  CHECK_THAT(refusal_of({kPublicWeights, "model.train=[last]"}, safetensors_of(tensors)),
             ContainsSubstring("model.weights does not have it"));
  CHECK_THAT(refusal_of({"model.train=[]"}), ContainsSubstring("model.train"));
}

TEST_CASE("federated runs freeze layers as well", "[weights][frozen][federated]") {
  Begun experiment({kPublicWeights, "model.train=[last]",
                    "federated={clients: 3, rounds: 2, local_iterations: 1}"});
  experiment.run();
  const std::vector<float> before = joined(trained_tensors()), after = experiment.parameters();
  REQUIRE(after.size() == before.size());
  CHECK(std::equal(after.begin(), after.begin() + 16, before.begin()));
  CHECK_FALSE(std::equal(after.begin() + 16, after.end(), before.begin() + 16));
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

// ---- the moving average

TEST_CASE("the moving average is that of the parameters after each step", "[average]") {
  // Runs of 1, 2 and 3 steps with one seed have the same steps; the average is computed by its
  // definition.
  constexpr double kDecay = 0.25;
  const std::vector<std::string> base = with(kNoNoise, {kPublicWeights});
  std::vector<double> average;
  for (const float value : joined(trained_tensors())) average.push_back(value);
  for (int t = 1; t <= 3; ++t) {
    Begun last(with(base, {"steps=" + std::to_string(t)}));
    last.run();
    const std::vector<float> w = last.parameters();
    const double d = std::min(kDecay, (1.0 + t) / (10.0 + t));  // 2/11, 1/4 and 1/4
    for (std::size_t i = 0; i < w.size(); ++i) average[i] = d * average[i] + (1.0 - d) * w[i];
  }
  Begun kept(with(base, {"steps=3", "ema_decay=0.25", "output=ema"}));
  const core::RunResult run = kept.run();
  const std::vector<float> found = kept.parameters();
  REQUIRE(found.size() == average.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK_THAT(found[i], WithinAbs(average[i], 1e-7));
  CHECK(run.summary.at("output") == "ema");
  CHECK(run.summary.at("ema_decay") == kDecay);
}

TEST_CASE("last parameters and average are measured side by side, and training does not notice",
          "[average]") {
  Experiment plain(kBegunElsewhere), averaged(kBegunElsewhere, {"ema_decay=0.9"}),
      kept(kBegunElsewhere, {"ema_decay=0.9", "output=ema"});
  plain.run();
  averaged.run();
  const core::RunResult run = kept.run();
  CHECK(plain.parameters() == averaged.parameters());
  const auto lines = [](const Experiment& experiment) {
    std::vector<nlohmann::json> all;
    for (const std::string& line : verify::lines_of(experiment.run_dir() / "metrics.jsonl"))
      all.push_back(nlohmann::json::parse(line));
    return all;
  };
  const auto one = lines(plain), two = lines(averaged), three = lines(kept);
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].at("test_loss") == two[i].at("test_loss"));
    CHECK(two[i].at("ema").at("test_loss") == three[i].at("ema").at("test_loss"));
  }
  CHECK(two.back().at("ema").at("test_loss") != two.back().at("test_loss"));
  // The summary describes the model that is kept.
  CHECK(three.size() == one.size() + 1);
  CHECK(run.summary.at("metrics").at("test_loss") == two.back().at("ema").at("test_loss"));
  CHECK(verify::all_of(verify::check(kept.run_dir()).problems) == "");
}

TEST_CASE("an average that is not kept cannot be the output", "[average]") {
  CHECK_THAT(refusal_of({"output=ema"}), ContainsSubstring("give ema_decay"));
  CHECK_THAT(refusal_of({"ema_decay=1"}), ContainsSubstring("ema_decay"));
}

TEST_CASE("the moving average of a federated run is that of the model after each round",
          "[average][federated]") {
  constexpr double kDecay = 0.25;
  for (const std::string aggregation : {"fed_avg", "dp_fed_avg, client_clip_norm: 1"}) {
    INFO(aggregation);
    const auto rounds = [&](int count, const std::vector<std::string>& more) {
      return with(with(kNoNoise, more),
                  {kPublicWeights, "steps=6",
                   "federated={clients: 3, rounds: " + std::to_string(count) +
                       ", local_iterations: 1, aggregation: " + aggregation + "}"});
    };
    std::vector<double> average;
    for (const float value : joined(trained_tensors())) average.push_back(value);
    std::vector<float> w;
    for (int t = 1; t <= 3; ++t) {
      Begun last(rounds(t, {}));
      last.run();
      w = last.parameters();
      const double d = std::min(kDecay, (1.0 + t) / (10.0 + t));
      for (std::size_t i = 0; i < w.size(); ++i) average[i] = d * average[i] + (1.0 - d) * w[i];
    }
    Begun beside(rounds(3, {"ema_decay=0.25"})), kept(rounds(3, {"ema_decay=0.25", "output=ema"}));
    const core::RunResult last = beside.run(), run = kept.run();
    CHECK(beside.parameters() == w);
    CHECK(last.summary.at("output") == "last");
    const std::vector<float> found = kept.parameters();
    REQUIRE(found.size() == average.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK_THAT(found[i], WithinAbs(average[i], 1e-7));
    CHECK(found != w);
    CHECK(run.summary.at("output") == "ema");
    CHECK(run.summary.at("ema_decay") == kDecay);
    const auto measured =
        nlohmann::json::parse(verify::lines_of(beside.run_dir() / "metrics.jsonl").back());
    CHECK(run.summary.at("metrics").at("test_loss") == measured.at("ema").at("test_loss"));
  }
}

// ---- plans without the values

TEST_CASE("no training begins from a study's plan, which has no values of the weights",
          "[weights][study]") {
  const TempDir dir;
  write_file(dir.path() / "base.safetensors", safetensors_of(trained_tensors()));
  std::string base = kBegunElsewhere;
  base.erase(base.find("seed: 1\n"), std::string("seed: 1\n").size());
  for (std::size_t line = base.find('\n'); line + 1 < base.size(); line = base.find('\n', line + 1))
    base.insert(line + 1, "  ");
  const core::StudyPlan study = core::plan_study(
      core::parse_study("study: 1\nseeds: 2\nbase:\n  " + base + "set: {model.weights: {file: " +
                            (dir.path() / "base.safetensors").string() +
                            ", public: true}, model.train: [last]}\n"
                            "equal_privacy: false\naxes: {optimizer: [sgd, adam]}\n",
                        dir.path() / "study.yaml"),
      {}, house());
  const std::string words = "model.weights: this plan no longer has the values of the weights";
  for (const core::PlannedArm& arm : study.arms) {
    CHECK(arm.plan.setting->weights->loaded.size() == 4);
    CHECK_THROWS_WITH(core::initial_parameters(arm.plan, core::RandomKey::from_seed(1)),
                      ContainsSubstring(words));
    CHECK_THROWS_WITH(core::read_data(*arm.manifest, *arm.plan.setting), ContainsSubstring(words));
    CHECK_THROWS_WITH(core::whole_parameters(*arm.plan.setting, std::vector<float>(10)),
                      ContainsSubstring(words));
    CHECK(core::estimated_seconds(arm.plan) > 0.0);
  }
}
