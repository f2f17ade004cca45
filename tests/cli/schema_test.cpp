// What an editor says of a typo: the messages of a validator that has nothing to do with this
// program, python3-jsonschema.
#include <cstdlib>

#include "cli.hpp"

namespace {

/// Prints each message of the document (the second file) under the schema (the first), one a line.
constexpr const char* kScript = R"(import json, sys
import jsonschema
schema, document = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
    print(".".join(str(part) for part in error.absolute_path) + ": " + error.message)
)";

/// The python3 that whoever runs the tests would start: its modules may be their own.
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

class Editor {
 public:
  explicit Editor(const Words& schema) {
    write_file(cli_.out("schema.json"), cli_(schema).out);
    write_file(cli_.out("check.py"), kScript);
  }

  /// What it says, sorted by the validator.
  std::string says(const Json& document) const {
    write_file(cli_.out("document.json"), document.dump());
    const Outcome outcome = python({"check.py", "schema.json", "document.json"}, cli_.dir());
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return outcome.out;
  }

  /// One message, at this place, that names the typo and what is allowed.
  void names(const Json& document, const std::string& place, const std::string& typo,
             const std::string& allowed) const {
    const std::string said = says(document);
    INFO(said);
    CHECK(line_count(said) == 1);
    CHECK(said.starts_with(place + ": "));
    CHECK_THAT(said, ContainsSubstring("'" + typo + "'") && ContainsSubstring(allowed));
  }

 private:
  Cli cli_;
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
  const Editor editor({"schema"});
  const Json good = good_manifest();
  CHECK(editor.says(good) == "");
  editor.names(spoilt(good, "/optimizer/kind", "momentun"), "optimizer.kind", "momentun",
               "'momentum'");
  editor.names(spoilt(good, "/optimizer/bta", 0.5), "optimizer", "bta", "unexpected");
  editor.names(spoilt(good, "/optimizer", "adamw"), "optimizer", "adamw", "'adam'");
  editor.names(spoilt(good, "/sampler", "ful_batch"), "sampler", "ful_batch", "'full_batch'");
  editor.names(spoilt(good, "/schedules/learning_rate/kind", "constnt"),
               "schedules.learning_rate.kind", "constnt", "'constant'");
  editor.names(spoilt(good, "/schedules/learning_rate/vale", 1), "schedules.learning_rate", "vale",
               "unexpected");
  editor.names(spoilt(good, "/data/transforms/0", "flaten"), "data.transforms.0", "flaten",
               "'flatten'");
  editor.names(spoilt(good, "/stesp", 3), "", "stesp", "unexpected");
  editor.names(spoilt(good, "/steps", "atuo"), "steps", "atuo", "'auto'");
  CHECK(editor.says(spoilt(good, "/steps", "auto")) == "");
  // A member that is missing, not the whole component.
  CHECK_THAT(editor.says(spoilt(good, "/optimizer", {{"beta", 0.5}})),
             ContainsSubstring("optimizer: 'kind' is a required property"));
}

TEST_CASE("an editor names a typo in a study, and in the manifest inside it") {
  if (!has_validator()) {
    WARN("SKIPPED: there is no python3-jsonschema");
    return;
  }
  const Editor editor({"schema", "--study"});
  const Json good = good_study();
  CHECK(editor.says(good) == "");
  editor.names(spoilt(good, "/sedes", 3), "", "sedes", "unexpected");
  editor.names(spoilt(good, "/metrics/0", "test_los"), "metrics.0", "test_los", "'test_loss'");
  editor.names(spoilt(good, "/metrics", "test_los"), "metrics", "test_los", "'test_loss'");
  editor.names(spoilt(good, "/axes/optimzer", {"sgd"}), "axes", "optimzer", "optimizer");
  editor.names(spoilt(good, "/arms/long", {{"stesp", 1}}), "arms.long", "stesp", "steps");
  editor.names(spoilt(good, "/base/optimizer/kind", "momentun"), "base.optimizer.kind", "momentun",
               "'momentum'");
  // What every arm sets may be missing in the base.
  Json lacking = good;
  lacking["base"].erase("optimizer");
  CHECK(editor.says(lacking) == "");
  CHECK(editor.says(spoilt(good, "/base", "m.yaml")) == "");
  CHECK(editor.says(spoilt(good, "/seeds", {1, 5, 7})) == "");
  CHECK_THAT(editor.says(spoilt(good, "/seeds", 0)), ContainsSubstring("seeds: 0 is less than"));
}

TEST_CASE("the schema of studies has the keys that are read") {
  const Cli cli;
  const Json schema = Json::parse(cli({"schema", "--study"}).out);
  // An unknown key is answered with all that there are.
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
