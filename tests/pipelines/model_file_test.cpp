// A saved model describes how to apply it, and a false description is refused.
#include "privgrad/model/model_file.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/model/network_json.hpp"
#include "privgrad/verify/verify.hpp"
#include "train.hpp"

using namespace privgrad;
using Json = nlohmann::json;

namespace {

constexpr const char* kModelFile = R"(privgrad: 1
name: small
seed: 1
data:
  kind: synthetic
  rows: 60
  dimensions: 5
  test_rows: 20
  transforms: [standardize, {kind: pca, dimensions: 3}, {kind: scale_max_norm, to: 2}]
model: {kind: mlp, hidden: [4]}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 3
)";

/// The bytes of a file, in separate parts.
struct Parts {
  Json header;
  std::string data;

  explicit Parts(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = Json::parse(bytes.substr(sizeof length, length));
    data = bytes.substr(sizeof length + length);
  }
  std::string bytes() const { return with_header(header.dump()); }
  std::string with_header(const std::string& text) const {
    const std::uint64_t length = text.size();
    std::string all(sizeof length, '\0');
    std::memcpy(all.data(), &length, sizeof length);
    return all + text + data;
  }
  Json& meta(const char* key) { return header["__metadata__"][key]; }
};

const std::string& model_bytes() {
  static const std::string bytes = [] {
    Experiment experiment(kModelFile);
    experiment.run();
    return read_file(experiment.run_dir() / "model.safetensors");
  }();
  return bytes;
}

std::string file_refusal(const std::string& bytes) {
  try {
    core::parse_model_file(bytes, "m");
  } catch (const IoError& problem) {
    return problem.what();
  }
  return "";
}

std::string file_refusal(const std::function<void(Parts&)>& change) {
  Parts parts(model_bytes());
  change(parts);
  return file_refusal(parts.bytes());
}

void check_refused(const std::string& said, const std::string& expected) {
  INFO(said);
  CHECK(said.rfind("m: ", 0) == 0);
  CHECK(said.find(expected) != std::string::npos);
  CHECK(said.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("a saved model holds all that is between raw examples and outputs") {
  Experiment experiment(kModelFile);
  experiment.run();
  const core::ModelFile model = core::read_model_file(experiment.run_dir() / "model.safetensors");
  CHECK(model.parameters == experiment.parameters());
  CHECK(model.input.features == Shape{5});
  CHECK(model.input.classes == 2);
  CHECK(model.classes == std::vector<std::string>{"0", "1"});
  CHECK(model.network.input.features == Shape{3});
  CHECK(parameter_count(model.network) == experiment.plan().parameters);
  CHECK(model.model.name == "privgrad.mlp:mlp");
  CHECK(model.backend.name == "privgrad.cpu:cpu");
  REQUIRE(model.preprocessing.size() == 3);
  CHECK(model.preprocessing[0].component.name == "privgrad.standardize:standardize");
  REQUIRE(model.preprocessing[1].fitted.values.size() == 2);
  CHECK(model.preprocessing[1].fitted.values[0].name == "mean");
  CHECK(model.preprocessing[1].fitted.values[1].shape == Shape{3, 5});
  CHECK(model.metadata.at("date") == "2023-11-14T22:13:20Z");  // from SOURCE_DATE_EPOCH=1700000000
  CHECK(model.metadata.at("statement").find("epsilon") != std::string::npos);
}

TEST_CASE("a run with preprocessing verifies, and not with another date or another network") {
  Experiment experiment(kModelFile);
  experiment.run();
  const auto problems = [&] {
    return core::verify_run(core::RecordDirectory(experiment.run_dir()), house()).problems;
  };
  CHECK(problems().empty());
  for (const char* file : {"statement.json", "summary.json", "ledger.jsonl", "model.safetensors"})
    CHECK(read_file(experiment.run_dir() / file).find("2023-11-14T22:13:20Z") != std::string::npos);
  Parts parts(model_bytes());
  parts.meta("classes") = R"(["a","b"])";
  write_file(experiment.run_dir() / "model.safetensors", parts.bytes());
  const auto found = problems();
  REQUIRE(found.size() == 2);  // the hash, and the description
  CHECK(found[1].find("'classes'") != std::string::npos);
}

TEST_CASE(
    "a model of a table has the names of its features, and how other tables become the same") {
  Experiment experiment(R"(privgrad: 1
name: table
seed: 1
data:
  kind: csv
  train: t.csv
  target: y
  labels: [lost, won]
  columns: [{name: "n*", type: number, fill: 0}, {name: k, type: category, values: [a, b], other: true}]
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)");
  write_file(experiment.dir() / "t.csv", "n2,k,n1,y\n1,a,2,won\n3,b,4,lost\n5,c,6,won\n");
  experiment.run();
  const auto file = experiment.run_dir() / "model.safetensors";
  const core::ModelFile model = core::read_model_file(file);
  CHECK(model.features == std::vector<std::string>{"n1", "n2", "k=a", "k=b", "k=(other)"});
  CHECK(model.classes == std::vector<std::string>{"lost", "won"});
  REQUIRE(model.data);
  CHECK(model.data->name == "privgrad.csv:csv");
  CHECK(model.data->params.find("train") == nullptr);  // the file does not describe these rows
  const auto problems = [&] {
    return core::verify_run(core::RecordDirectory(experiment.run_dir()), house()).problems;
  };
  CHECK(problems().empty());
  Parts parts(read_file(file));
  parts.meta("features") = Json({"n2", "n1", "k=a", "k=b", "k=(other)"}).dump();
  write_file(file, parts.bytes());
  const auto found = problems();
  REQUIRE(found.size() == 2);  // the hash, and the description
  CHECK(found[1].find("'features'") != std::string::npos);

  const auto refused = [&](const char* key, const char* text, const std::string& expected) {
    Parts changed(read_file(file));
    changed.meta(key) = text;
    check_refused(file_refusal(changed.bytes()), expected);
  };
  refused("features", R"(["n1"])", "does not name the features");
  refused("features", R"([1, 2, 3, 4, 5])", "not a short text");
  refused("data", R"({"kind": 3, "params": {}})", "its metadata 'data' is not a component");
  refused("data", "{", "its metadata 'data' is not JSON");
}

TEST_CASE("a model file that is cut off anywhere is refused") {
  const std::string& whole = model_bytes();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    const std::string said = file_refusal(whole.substr(0, size));
    INFO(size);
    CHECK(said.rfind("m: ", 0) == 0);
  }
  check_refused(file_refusal(whole + "x"), "belong to no tensor");
}

TEST_CASE("a model file whose header lies is refused") {
  Parts whole(model_bytes());
  check_refused(file_refusal(std::string(8, '\xff') + whole.data), "is incomplete");
  check_refused(file_refusal(whole.with_header("[1,2]")), "not a JSON object");
  check_refused(file_refusal(whole.with_header("{\"a\":")), "not JSON");
  check_refused(file_refusal(whole.with_header(std::string(5000, '['))), "nested deeper than");
  check_refused(file_refusal(whole.with_header(R"({"a":{},"a":{}})")), "the key \"a\" twice");
  const char* weight = "layers.0.weight";
  const char* mean = "preprocessing.0.mean";
  check_refused(file_refusal([&](Parts& p) { p.header[weight]["dtype"] = "F16"; }), "need 24");
  check_refused(file_refusal([&](Parts& p) { p.header[weight]["dtype"] = "F64"; }), "need");
  check_refused(file_refusal([&](Parts& p) { p.header[weight]["shape"] = {3, 4}; }), "there");
  check_refused(file_refusal([&](Parts& p) {
                  p.header[weight]["shape"] = {12, 0};
                }),
                "12 x 0 of them need 0");
  check_refused(file_refusal([&](Parts& p) {
                  p.header[weight]["shape"] = {1u << 31, 1ull << 62};
                }),
                "too large");
  check_refused(file_refusal([&](Parts& p) {
                  p.header[weight]["shape"] = {-4, -3};
                }),
                "whole number");
  check_refused(file_refusal([&](Parts& p) {
                  p.header[weight]["data_offsets"] = {0, 1ull << 60};
                }),
                "outside");
  check_refused(file_refusal([&](Parts& p) { p.header["again"] = p.header[weight]; }), "overlap");
  check_refused(file_refusal([&](Parts& p) { p.header.erase(weight); }), "gap");
  check_refused(file_refusal([&](Parts& p) {
                  p.header["other"] = p.header[mean];
                  p.header.erase(mean);
                }),
                "'other'");
  check_refused(file_refusal([&](Parts& p) {
                  p.header["preprocessing.7.mean"] = p.header[mean];
                  p.header.erase(mean);
                }),
                "'preprocessing.7.mean'");
}

TEST_CASE("a model file with numbers that are not finite is refused by the tensor's name") {
  for (const char* name : {"layers.0.weight", "preprocessing.1.components"}) {
    const std::string said = file_refusal([&](Parts& p) {
      const auto begin = p.header[name]["data_offsets"][0].get<std::size_t>();
      const auto end = p.header[name]["data_offsets"][1].get<std::size_t>();
      for (std::size_t i = begin; i < end; ++i) p.data[i] = '\xff';
    });
    check_refused(said, std::string("'") + name + "' has a value that is not finite");
  }
}

TEST_CASE(
    "a model file that does not say what it is, or says what this version cannot, is refused") {
  check_refused(file_refusal([](Parts& p) { p.meta("model_format") = "3"; }), "version 3");
  check_refused(file_refusal([](Parts& p) { p.header["__metadata__"].erase("model_format"); }),
                "does not describe its application");
  check_refused(file_refusal([](Parts& p) { p.header.erase("__metadata__"); }),
                "not a model of PrivGrad");
  check_refused(file_refusal([](Parts& p) { p.meta("format") = "pt"; }), "not a model of PrivGrad");
  check_refused(file_refusal([](Parts& p) { p.meta("network") = "{}"; }), "network");
  check_refused(file_refusal([](Parts& p) { p.meta("classes") = R"(["one"])"; }), "'classes'");
  check_refused(file_refusal([](Parts& p) {
                  p.meta("input") = R"({"features":[4294967296,4294967296],"classes":2})";
                }),
                "'input'");
  check_refused(file_refusal([](Parts& p) { p.meta("preprocessing") = "[1]"; }), "'preprocessing'");
  check_refused(file_refusal([](Parts& p) { p.meta("preprocessing") = std::string(500, '['); }),
                "nested deeper than");
  const auto with_units = [](std::size_t units) {
    return [units](Parts& p) {
      Json network = Json::parse(p.meta("network").get<std::string>());
      network["layers"][0]["units"] = units;
      p.meta("network") = network.dump();
    };
  };
  check_refused(file_refusal(with_units(4294967295u)), "fewer than 2^31");
  check_refused(file_refusal(with_units(5)), "'layers.0.weight' is 4 x 3");
}

TEST_CASE("a described network comes back, and those of versions before can be read") {
  const Dense each{.units = 4, .per_place = true};
  const Network network{
      {{6, 5, 2}, 3},
      {each, Conv2d{.channels = 4, .kernel = 3, .stride = 1, .padding = 1}, Activation{}, Flatten{},
       GroupNorm{.groups = 2, .epsilon = 0.5}, Reshape{{6, 5, 4}},
       Pool{.kind = PoolKind::average, .window = 2, .stride = 1}, Dense{3}},
      Loss::squared,
      {}};
  const Json described = core::to_json(network);
  CHECK(core::to_json(core::network_from_json(described)) == described);
  CHECK(described["layers"][0] == Json({{"layer", "dense"}, {"units", 4}, {"per_place", true}}));
  // As in files of every version: a dense layer that flattens has no entry about places.
  CHECK(described["layers"][7] == Json({{"layer", "dense"}, {"units", 3}}));
  CHECK(described["layers"][4] == Json({{"layer", "group_norm"}, {"groups", 2}, {"epsilon", 0.5}}));
  Json wrong = described;
  wrong["layers"][0]["per_place"] = 1;
  CHECK_THROWS_WITH(core::network_from_json(wrong),
                    ContainsSubstring("network.layers.0.per_place is neither true nor false"));
  wrong = described;
  wrong["layers"][1]["per_place"] = true;
  CHECK_THROWS_WITH(core::network_from_json(wrong), ContainsSubstring("has unknown members"));
  Network weighted = network;
  weighted.class_weights = {0.1, 2.0, 1.0};
  CHECK(core::to_json(core::network_from_json(core::to_json(weighted)))["class_weights"] ==
        Json({0.1, 2.0, 1.0}));
  CHECK(core::model_format_of(weighted) == "2");
  // The file is small, but its layers would fill the memory of any machine.
  wrong = Json::parse(R"({"input": [67108864], "classes": 3, "loss": "squared", "layers": [
    {"layer": "scale", "factor": 2}, {"layer": "scale", "factor": 2},
    {"layer": "scale", "factor": 2}, {"layer": "scale", "factor": 2},
    {"layer": "dense", "units": 3}]})");
  CHECK_THROWS_WITH(core::network_from_json(wrong), ContainsSubstring("268435456 values"));
  for (const Json& value : {Json({1.0, 2.0}), Json({1.0, -2.0, 1.0}), Json({1.0, "2", 1.0}),
                            Json("balanced"), Json({1.0, nullptr, 1.0})}) {
    wrong = described;
    wrong["class_weights"] = value;
    CHECK_THROWS_WITH(core::network_from_json(wrong), ContainsSubstring("class"));
  }
  wrong = described;
  wrong["layers"][1]["layer"] = "batch_norm";
  CHECK_THROWS_WITH(core::network_from_json(wrong),
                    ContainsSubstring("network.layers.1 is of a kind that is unknown"));
}

TEST_CASE("what the date is said to be is the environment's, or an error") {
  ::setenv("SOURCE_DATE_EPOCH", "yesterday", 1);
  Experiment experiment(kModelFile);
  CHECK_THROWS_WITH(experiment.run(), ContainsSubstring("SOURCE_DATE_EPOCH"));
  CHECK(!std::filesystem::exists(experiment.run_dir()));
  ::setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
}
