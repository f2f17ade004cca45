#include "privgrad/manifest/json_schema.hpp"

#include <nlohmann/json.hpp>

#include "manifest_fixture.hpp"

using namespace privgrad;
using namespace privgrad::core;
using Json = nlohmann::json;

namespace {

/// The part of a JSON Schema validator that manifests' schemas use, written from the specification
/// (draft 2020-12, Validation 6 and Core 10).
/// \throws for an unknown keyword, so that no part of a schema goes unchecked.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool accepts(const Json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, argument] : schema.items()) {
      if (!holds(schema, keyword, argument, value)) return false;
    }
    return true;
  }

  bool holds(const Json& schema, const std::string& keyword, const Json& argument,
             const Json& value) const {
    if (keyword == "type") return has_type(value, argument.get<std::string>());
    if (keyword == "enum")
      return std::find(argument.begin(), argument.end(), value) != argument.end();
    if (keyword == "$ref") {
      return accepts(root_.at(Json::json_pointer(argument.get<std::string>().substr(1))), value);
    }
    if (keyword == "anyOf") {
      return std::any_of(argument.begin(), argument.end(),
                         [&](const Json& one) { return accepts(one, value); });
    }
    if (keyword == "allOf") {
      return std::all_of(argument.begin(), argument.end(),
                         [&](const Json& one) { return accepts(one, value); });
    }
    if (keyword == "if") {
      const char* branch = accepts(argument, value) ? "then" : "else";
      return !schema.contains(branch) || accepts(schema[branch], value);
    }
    if (keyword == "then" || keyword == "else") return schema.contains("if");
    if (keyword == "minimum") return !value.is_number() || value >= argument;
    if (keyword == "maximum") return !value.is_number() || value <= argument;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > argument;
    if (keyword == "exclusiveMaximum") return !value.is_number() || value < argument;
    if (keyword == "minLength") {
      return !value.is_string() || value.get<std::string>().size() >= argument.get<std::size_t>();
    }
    if (keyword == "minItems")
      return !value.is_array() || value.size() >= argument.get<std::size_t>();
    if (keyword == "items") {
      return !value.is_array() || std::all_of(value.begin(), value.end(), [&](const Json& item) {
        return accepts(argument, item);
      });
    }
    if (keyword == "required") {
      return !value.is_object() ||
             std::all_of(argument.begin(), argument.end(),
                         [&](const Json& k) { return value.contains(k.get<std::string>()); });
    }
    if (keyword == "properties") {
      if (!value.is_object()) return true;
      for (const auto& [key, member] : value.items()) {
        if (argument.contains(key) && !accepts(argument[key], member)) return false;
      }
      return true;
    }
    if (keyword == "additionalProperties") {
      if (argument != false) throw std::logic_error("additionalProperties is not false");
      if (!value.is_object()) return true;
      for (const auto& [key, member] : value.items()) {
        if (!schema.at("properties").contains(key)) return false;
      }
      return true;
    }
    for (const char* annotation :
         {"$schema", "$defs", "title", "description", "default", "examples"}) {
      if (keyword == annotation) return true;
    }
    throw std::logic_error("a keyword that this validator does not know: " + keyword);
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_number_integer();
    throw std::logic_error("unknown type " + type);
  }

  const Json& root_;
};

Json as_json(const std::string& text) {
  std::vector<Problem> problems;
  return value_to_json(parse_yaml(text, problems).value());
}

}  // namespace

TEST_CASE("the schema says what the declarations say", "[json_schema]") {
  const Json schema = manifest_schema(fakes());
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema.at("additionalProperties") == false);
  const Json required = {"data",     "model",   "optimizer", "privacy",
                         "privgrad", "sampler", "schedules", "steps"};
  Json sorted = schema.at("required");
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == required);
  CHECK(schema.at("/properties/backend/default"_json_pointer) == "cpu");
  CHECK(schema.at("/properties/clipping/default"_json_pointer) == "flat");

  const Json& optimizer = schema.at("/$defs/optimizer"_json_pointer);
  const Json names = {"sgd", "test:sgd", "momentum", "test:momentum"};
  CHECK(optimizer.at("then") == Json{{"enum", names}});
  CHECK(optimizer.at("/else/properties/kind/enum"_json_pointer) == names);
  REQUIRE(optimizer.at("/else/allOf"_json_pointer).size() == 2);
  const Json& momentum = optimizer.at("/else/allOf/1/then"_json_pointer);
  CHECK(momentum.at("/properties/kind/enum"_json_pointer) == Json{"momentum", "test:momentum"});
  const Json& beta = momentum.at("/properties/beta"_json_pointer);
  CHECK(beta.at("type") == "number");
  CHECK(beta.at("minimum") == 0.0);
  CHECK(beta.at("exclusiveMaximum") == 1.0);
  CHECK(beta.at("default") == 0.9);
  CHECK(beta.at("description") == "Kept share.");
  CHECK_FALSE(beta.contains("maximum"));
  CHECK(momentum.at("required") == Json{"kind"});

  // shuffle cannot be given by its name alone, because its batch size is required.
  CHECK(schema.at("/$defs/sampler/then"_json_pointer) == Json{{"enum", {"all", "test:all"}}});
  // A bare number has the bounds of the value of `constant`.
  CHECK(schema.at("/properties/schedules/properties/clip_norm/then/minimum"_json_pointer) == 0.0);
  CHECK(param_schema(param::real("x", "Doc.").in_unit("nats")).at("description") ==
        "Doc. Unit: nats.");
}

TEST_CASE("a name that two plugins offer is completed in full only", "[json_schema]") {
  Catalog catalog = make_catalog();
  catalog.add(std::make_shared<PluginIdentity>(PluginIdentity{"acme", "1", "", "", ""}), nullptr,
              {declare<Optimizer>("sgd")});
  const Json schema = manifest_schema(catalog);
  CHECK(schema.at("/$defs/optimizer/then/enum"_json_pointer) ==
        Json{"test:sgd", "momentum", "test:momentum", "acme:sgd"});
  CHECK(manifest_schema(Catalog()).at("/$defs/optimizer"_json_pointer) == false);
}

TEST_CASE("schema and loader agree on good and bad manifests", "[json_schema]") {
  const Json schema = manifest_schema(fakes());
  const Validator validator(schema);
  const auto agree = [&](const std::string& text, bool good) {
    CAPTURE(text);
    CHECK(validator.accepts(as_json(text)) == good);
    if (good) {
      CHECK_NOTHROW(load(text));
    } else {
      CHECK_THROWS_AS(load(text), ManifestError);
    }
  };
  agree(kGood, true);
  agree(to_yaml(load(kGood).resolved), true);
  const std::pair<const char*, const char*> good[] = {
      {"optimizer:\n", "seed: 3\nmode: release\noptimizer:\n"},
      {"sampler: all", "sampler: {kind: test:shuffle, batch_size: 3}"},
      {"clip_norm: 4", "clip_norm: {kind: constant, value: 4}"},
      {"learning_rate: {kind: exponential, rate: 0.9}", "learning_rate: uniform"},
      {"  rows: 20\n", "  size: 4\n  test_is_public: true\n"},
      {"  rows: 20\n", "  size: {about: 4, statistic: private, share: 0.1}\n"},
      {"  rows: 20\n", "  size: {about: 4, statistic: private, noise_multiplier: 3}\n"},
      {"sampler: all\n", "sampler: all\naggregator: {kind: gaussian, arithmetic: exact}\n"},
      {"sampler: all\n", "sampler: all\naggregator: {arithmetic: float}\n"},
      {"  kind: memory\n  rows: 20\n  transforms: [flatten, {kind: scale, to: 10}]\n",
       "  kind: memory\n"},
  };
  for (const auto& [from, to] : good) {
    // (the loader refuses a seed in release mode, which no schema can express)
    const std::string text = replaced(kGood, from, to);
    CAPTURE(text);
    CHECK(validator.accepts(as_json(text)));
  }
  const std::pair<const char*, const char*> bad[] = {
      {"privgrad: 1\n", "privgrad: 2\n"},
      {"privgrad: 1\n", ""},
      {"name: good", "nmae: good"},
      {"name: good", "mode: debug"},
      {"name: good", "seed: -1"},
      {"  kind: memory", "  kind: memroy"},
      {"  kind: memory\n", ""},
      {"rows: 20", "rows: 0"},
      {"rows: 20", "rows: 1.5"},
      {"rows: 20", "rwos: 2"},
      {"rows: 20", "size: {about: 4, statistic: private}"},
      {"rows: 20", "size: {about: 4, statistic: private, share: 0.1, noise_multiplier: 3}"},
      {"rows: 20", "size: {about: 0, statistic: private, share: 0.1}"},
      {"rows: 20", "size: {about: 4, share: 0.1}"},
      {"rows: 20", "size: {about: 4, statistic: public, share: 0.1}"},
      {"to: 10", "to: 0"},
      {"[flatten,", "[flaten,"},
      {"hidden: [4, 2]", "hidden: []"},
      {"hidden: [4, 2]", "hidden: [4, 0]"},
      {"hidden: [4, 2]", "activation: gelu"},
      {"sampler: all\n", ""},
      {"sampler: all", "sampler: shuffle"},
      {"sampler: all\n", "sampler: all\naggregator: {kind: gaussian, arithmetic: double}\n"},
      {"sampler: all\n", "sampler: all\naggregator: {arithmetic: double}\n"},
      {"sampler: all\n", "sampler: all\naggregator: {}\n"},
      {"beta: 0.5", "beta: 1"},
      {"beta: 0.5", "nesterov: 1"},
      {"clip_norm: 4", "clip_norm: -4"},
      {"clip_norm: 4", "clip_norm: [4]"},
      {"  clip_norm: 4\n", ""},
      {"target_epsilon: 3", "target_epsilon: 0"},
      {"target_delta: 1e-5", "target_delta: 1"},
      {"  target_delta: 1e-5\n", ""},
      {"adjacency: zero_out", "adjacency: none"},
      {"also: [rdp]", "also: rdp"},
      {"steps: 100", "steps: 0"},
      {"steps: 100", "steps: '100'"},
  };
  for (const auto& [from, to] : bad) agree(replaced(kGood, from, to), false);
}
