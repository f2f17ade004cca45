// Whether components' public answers follow from releases: verify repeats the questions in a
// process that has seen no row.
#include <cstring>

#include "../faults/right_statistic.hpp"
#include "privgrad/model/safetensors.hpp"
#include "test_components.hpp"
#include "verify.hpp"

namespace verify {
namespace {

const char* const kLearns =
    "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], share: 0.1}, "
    "{kind: center, statistic: private, max_norm: 2, noise_multiplier: 30}]";

/// Replaces a file of a finished run, and binds it again, as anyone with this program could.
std::string problems_with(const fs::path& run, const std::string& file, const std::string& text) {
  write_file(run / file, text);
  std::vector<Json> lines = json_lines(run / "ledger.jsonl");
  lines.back()["files"][file] = core::sha256_hex(text);
  write_chain(run / "ledger.jsonl", lines);
  return all_of(check(run).problems);
}

/// Adds a row that it has seen, by way of a file, to the learnt numbers.
class ByFile final : public RightStatistic {
 public:
  using RightStatistic::RightStatistic;
  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    RightStatistic::contribution(shape, features, out);
    if (!fs::exists(kept)) write_file(kept, format_number(static_cast<double>(features[0])));
  }
  std::vector<FittedTensor> fitted_values() const override {
    std::vector<FittedTensor> values = RightStatistic::fitted_values();
    if (fs::exists(kept)) values.front().values.front() += 1.0 + std::stod(read_file(kept));
    return values;
  }
  static inline fs::path kept;
};

}  // namespace

TEST_CASE(
    "a row that reached the model by a file, past the run's second process, is found by verify",
    "[verify][statistics][privacy]") {
  Registrar registrar;
  registrar.add<Transform, ByFile>({.name = "by_file",
                                    .summary = "Of this test.",
                                    .reference = "none",
                                    .params = private_statistic_params(),
                                    .traits = {}});
  const Catalog catalog = house_with({registrar.factories().front()});
  Experiment experiment(
      kCentral, {"data.transforms=[{kind: by_file, statistic: private, noise_multiplier: 30}]"},
      catalog);
  ByFile::kept = experiment.dir() / "kept";
  CHECK(experiment.run().status == core::RunStatus::completed);
  REQUIRE(fs::exists(ByFile::kept));
  fs::remove(ByFile::kept);  // as on another machine
  const core::RecordDirectory run(experiment.run_dir());
  CHECK_THAT(all_of(core::verify_run(run, catalog).problems),
             ContainsSubstring("model.safetensors: transform 0 (by_file) has learnt other values"));
}

TEST_CASE("what transforms learnt is learnt again of the recorded releases by verify",
          "[verify][statistics][privacy]") {
  Experiment experiment(kCentral, {kLearns});
  experiment.run();
  const fs::path run = experiment.run_dir();
  CHECK(check(run).verified());
  const std::string before = read_file(run / "summary.json");
  const Json summary = Json::parse(before);
  const Json& recorded = summary.at("reported").at("statistics");
  REQUIRE(recorded.size() == 2);
  CHECK(recorded[0].at("value").size() == 10);  // means, and means of squares
  CHECK(recorded[1].at("value").size() == 5);
  const auto with = [&](const std::string& place, const Json& value) {
    Json forged = summary;
    forged[Json::json_pointer("/reported/statistics" + place)] = value;
    return problems_with(run, "summary.json", forged.dump(2) + "\n");
  };
  CHECK(with("", recorded) == "");
  CHECK_THAT(
      with("/0/value/3", recorded[0]["value"][3].get<double>() + 1e-3),
      ContainsSubstring("model.safetensors: transform 0 (standardize) has learnt other values"));
  CHECK_THAT(with("/1/value/0", 0.5),
             ContainsSubstring("model.safetensors: transform 1 (center) has learnt other values"));
  CHECK_THAT(with("/0/noise_stddev", 1e-3), ContainsSubstring("other noise than the plan"));
  CHECK_THAT(with("", Json::array({recorded[0]})),
             ContainsSubstring("summary.json: has no reported.statistics[1]"));
  CHECK_THAT(with("/0/transform", 1), ContainsSubstring("reported.statistics[0] that is not"));
  CHECK(problems_with(run, "summary.json", before) == "");

  // A row in the model, instead of the numbers learnt from the release.
  std::string model = read_file(run / "model.safetensors");
  const core::TensorHeader header = core::parse_tensor_header(model, model.size());
  const auto tensor =
      std::find_if(header.tensors.begin(), header.tensors.end(),
                   [](const auto& one) { return one.first.starts_with(core::fitted_name(0, "")); });
  REQUIRE(tensor != header.tensors.end());
  const double row = 1.25;
  std::memcpy(model.data() + header.data_begin + tensor->second.begin, &row, sizeof row);
  CHECK_THAT(problems_with(run, "model.safetensors", model),
             ContainsSubstring("model.safetensors: transform 0 (standardize) has learnt other "
                               "values than follow from the release"));

  Experiment plain(kCentral, {});
  plain.run();
  CHECK_THAT(
      problems_with(run, "model.safetensors", read_file(plain.run_dir() / "model.safetensors")),
      ContainsSubstring("model.safetensors: lacks transform 0 (standardize), which the plan has"));
}

TEST_CASE("statistics beside a released number of rows are learnt again with that number's noise",
          "[verify][statistics]") {
  Experiment whole(kCentral, {kLearns, "data.size={about: 200, statistic: private, share: 0.1}"});
  whole.run();
  const core::Verification verified = check(whole.run_dir());
  INFO(all_of(verified.problems));
  CHECK(verified.verified());
}

TEST_CASE("clip norms that adapt are made again where each step is measured", "[verify][privacy]") {
  Experiment experiment(kCentral, {"clipping={kind: adaptive}", "evaluate_every=1"});
  experiment.run();
  const fs::path run = experiment.run_dir();
  CHECK(check(run).verified());
  const std::vector<std::string> before = lines_of(run / "metrics.jsonl");
  std::vector<std::string> lines = before;
  REQUIRE(lines.size() == 20);
  Json line = Json::parse(lines[6]);
  REQUIRE(line.at("step") == 7);
  // reveals a little of a row
  line["clip_norm"] = line.at("clip_norm").get<double>() * (1.0 + 1e-6);
  lines[6] = line.dump();
  CHECK_THAT(problems_with(run, "metrics.jsonl", all_of(lines)),
             ContainsSubstring("metrics.jsonl: the clip norm behind step 7 does not follow from "
                               "what was released"));
  CHECK(problems_with(run, "metrics.jsonl", all_of(before)) == "");
  Json summary = Json::parse(read_file(run / "summary.json"));
  summary["clip_norm"] = summary.at("clip_norm").get<double>() * (1.0 + 1e-6);
  CHECK_THAT(problems_with(run, "summary.json", summary.dump(2) + "\n"),
             ContainsSubstring("summary.json: has another 'clip_norm' than the last line"));
}

}  // namespace verify
