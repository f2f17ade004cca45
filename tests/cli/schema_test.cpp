// An editor's messages about typing errors, from an independent validator, python3-jsonschema.
#include <cstdlib>

#include "cli.hpp"

namespace {

/// Prints the messages about each document (the second file contains a list of documents) under the
/// schema (the first file): one list of messages each.
constexpr const char* kScript = R"(import json, sys
import jsonschema
schema, documents = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
print(json.dumps([[".".join(map(str, error.absolute_path)) + ": " + error.message
                   for error in validator.iter_errors(document)] for document in documents]))
)";

/// Runs the python3 that the caller of the tests would start, with the caller's own modules.
Outcome python(Words words, const std::filesystem::path& directory = {}) {
  words.insert(words.begin(), {"/usr/bin/env", "python3"});
  Call what{.words = words, .directory = directory};
  for (const char* name : {"PATH", "HOME"}) {
    if (const char* value = std::getenv(name)) what.environment[name] = value;
  }
  return call(what);
}

bool has_validator() { return python({"-c", "import jsonschema"}).exit_code == 0; }

Json good_manifest() {
  return Json::parse(R"({"privgrad": 1, "name": "small",
    "data": {"kind": "synthetic", "rows": 60, "transforms": ["flatten"]},
    "model": {"kind": "mlp", "hidden": [8]}, "sampler": "full_batch",
    "optimizer": {"kind": "momentum", "beta": 0.5},
    "schedules": {"noise_multiplier": "uniform", "clip_norm": 1,
                  "learning_rate": {"kind": "constant", "value": 0.5}},
    "privacy": {"target_epsilon": 1, "target_delta": 1e-5, "adjacency": "zero_out",
                "accountant": "zcdp"},
    "steps": 12})");
}

Json good_study() {
  Json study = Json::parse(R"({"study": 1, "set": {"steps": 10},
    "axes": {"optimizer": ["sgd", {"kind": "momentum", "beta": 0.5}],
             "schedules.clip_norm": {"small": 1, "large": 4}},
    "arms": {"long": {"steps": 100}}, "skip": [{"optimizer": "sgd"}], "seeds": 3,
    "metrics": ["test_loss"],
    "baseline": {"optimizer": "sgd", "schedules.clip_norm": "small"}})");
  study["base"] = good_manifest();
  return study;
}

/// Collects documents, and checks all of them at once, because starting python takes a second.
class Editor {
 public:
  /// Expects no message about the document.
  void accepts(const Json& document) { add(document, "", {}); }

  /// Expects one message at this place, with these words.
  void names(const Json& document, const std::string& place, const Words& words) {
    add(document, place, words);
  }

  /// \param schema  the call that prints the schema.
  void check(const Words& schema) const {
    const Cli cli;
    write_file(cli.out("schema.json"), cli(schema).out);
    write_file(cli.out("check.py"), kScript);
    write_file(cli.out("documents.json"), documents_.dump());
    const Outcome outcome = python({"check.py", "schema.json", "documents.json"}, cli.dir());
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const Json said = Json::parse(outcome.out);
    REQUIRE(said.size() == expected_.size());
    for (std::size_t i = 0; i < said.size(); ++i) {
      const auto& [place, words] = expected_[i];
      INFO(documents_[i].dump() << "\n" << said[i].dump());
      REQUIRE(said[i].size() == (words.empty() ? 0 : 1));
      if (words.empty()) continue;
      const auto message = said[i][0].get<std::string>();
      CHECK(message.starts_with(place + ": "));
      for (const std::string& word : words) CHECK_THAT(message, ContainsSubstring(word));
    }
  }

 private:
  void add(const Json& document, const std::string& place, const Words& words) {
    documents_.push_back(document);
    expected_.emplace_back(place, words);
  }

  Json documents_ = Json::array();
  std::vector<std::pair<std::string, Words>> expected_;
};

Json spoilt(Json document, const std::string& pointer, Json value) {
  document[Json::json_pointer(pointer)] = std::move(value);
  return document;
}

}  // namespace

TEST_CASE("an editor names a typo in a manifest, and what is allowed there") {
  if (!has_validator()) {
    WARN("SKIPPED: there is no python3-jsonschema");
    return;
  }
  Editor editor;
  const Json good = good_manifest();
  const auto with = [&](const char* pointer, Json value) {
    return spoilt(good, pointer, std::move(value));
  };
  editor.accepts(good);
  editor.accepts(with("/steps", "auto"));
  editor.names(with("/optimizer/kind", "momentun"), "optimizer.kind", {"'momentun'", "'momentum'"});
  editor.names(with("/optimizer/bta", 0.5), "optimizer", {"'bta' was unexpected"});
  editor.names(with("/optimizer", "adamw"), "optimizer", {"'adamw'", "'adam'"});
  editor.names(with("/sampler", "ful_batch"), "sampler", {"'ful_batch'", "'full_batch'"});
  editor.names(with("/schedules/learning_rate/kind", "constnt"), "schedules.learning_rate.kind",
               {"'constnt'", "'constant'"});
  editor.names(with("/schedules/learning_rate/vale", 1), "schedules.learning_rate",
               {"'vale' was unexpected"});
  editor.names(with("/data/transforms/0", "flaten"), "data.transforms.0",
               {"'flaten'", "'flatten'"});
  editor.names(with("/stesp", 3), "", {"'stesp' was unexpected"});
  for (const Json& weights : {Json("balanced"), Json{1, 2.5}})
    editor.accepts(with("/model/class_weights", weights));
  editor.names(with("/model/class_weights", "blanced"), "model.class_weights",
               {"'blanced'", "'balanced'"});
  editor.names(with("/model/class_weights/0", 0), "model.class_weights.0", {"0 is less than"});
  editor.names(with("/steps", "atuo"), "steps", {"'atuo'", "'auto'"});
  // The message is about a missing member, not about the whole component.
  editor.names(with("/optimizer", {{"beta", 0.5}}), "optimizer", {"'kind' is a required property"});
  editor.check({"schema"});
}

TEST_CASE("an editor names a typo in a study, and in the manifest inside it") {
  if (!has_validator()) {
    WARN("SKIPPED: there is no python3-jsonschema");
    return;
  }
  Editor editor;
  const Json good = good_study();
  const auto with = [&](const char* pointer, Json value) {
    return spoilt(good, pointer, std::move(value));
  };
  editor.accepts(good);
  editor.names(with("/sedes", 3), "", {"'sedes' was unexpected"});
  editor.names(with("/metrics/0", "test_los"), "metrics.0", {"'test_los'", "'test_loss'"});
  editor.names(with("/metrics", "test_los"), "metrics", {"'test_los'", "'test_loss'"});
  editor.names(with("/axes/optimzer", {"sgd"}), "axes", {"'optimzer'", "optimizer"});
  editor.names(with("/arms/long", {{"stesp", 1}}), "arms.long", {"'stesp'", "steps"});
  editor.names(with("/base/optimizer/kind", "momentun"), "base.optimizer.kind",
               {"'momentun'", "'momentum'"});
  editor.names(with("/seeds", 0), "seeds", {"0 is less than"});
  // Keys that every arm sets may be missing in the base.
  Json lacking = good;
  lacking["base"].erase("optimizer");
  editor.accepts(lacking);
  editor.accepts(with("/base", "m.yaml"));
  editor.accepts(with("/seeds", {1, 5, 7}));
  editor.check({"schema", "--study"});
}

TEST_CASE("the schema of studies has the keys that are read") {
  const Cli cli;
  const Json schema = Json::parse(cli({"schema", "--study"}).out);
  // The message about an unknown key lists all known keys.
  write_file(cli.dir() / "s.yaml", "study: 1\nbase: small.yaml\nseeds: 2\nzzzzzzzzz: 1\n");
  const Outcome outcome = cli({"ablate", "s.yaml"});
  std::string keys = outcome.err.substr(outcome.err.find("; there are ") + 12);
  keys.resize(keys.find('\n'));
  std::size_t read = 0;
  for (std::size_t begin = 0; begin < keys.size(); ++read) {
    const std::size_t end = std::min(keys.find(", ", begin), keys.size());
    CHECK(schema.at("properties").contains(keys.substr(begin, end - begin)));
    begin = end + 2;
  }
  CHECK(schema.at("properties").size() == read);
}
