#include "privgrad/record/facts.hpp"

#include <limits>

#include "privgrad/record/study_facts.hpp"
#include "support.hpp"

namespace {

using namespace privgrad;
using core::Nullable;
using core::Text;
using core::Texts;
using core::UnlessEmpty;
using Json = nlohmann::json;

struct Inner {
  PRIVGRAD_FACTS((std::uint64_t, steps))
};

struct Base {
  PRIVGRAD_FACTS((double, epsilon), (Nullable<double>, lower))
};

struct Outer : Base {
  PRIVGRAD_FACTS_BESIDE(Base, (bool, noise), (Text, short_), (std::optional<double>, mu),
                        (UnlessEmpty<Texts>, remarks), (std::vector<Inner>, list),
                        (Nullable<Inner>, inner), (std::optional<Nullable<Inner>>, maybe),
                        (std::optional<core::Tested>, tested))
};

/// Reads the members of a whole object, of which one is different.
std::string problem_with(const char* name, const Json& value) {
  try {
    core::facts_in<Outer>(Json{{name, value}}, "a.json");
  } catch (const IoError& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("facts are written under their names; what has no value is null or absent", "[facts]") {
  Outer facts;
  CHECK(core::to_json(facts) == Json{{"epsilon", 0.0},
                                     {"lower", nullptr},
                                     {"noise", false},
                                     {"short", ""},
                                     {"list", Json::array()},
                                     {"inner", nullptr}});
  facts.epsilon = std::numeric_limits<double>::infinity();
  facts.lower = 0.5;
  facts.mu = 2.0;
  facts.remarks = Texts{"one"};
  facts.list = {{3}};
  facts.inner = Inner{4};
  facts.maybe.emplace();
  facts.tested = "allowed";
  const Json whole{{"epsilon", nullptr},
                   {"lower", 0.5},
                   {"noise", false},
                   {"short", ""},
                   {"mu", 2.0},
                   {"remarks", {"one"}},
                   {"list", Json::array({{{"steps", 3}}})},
                   {"inner", {{"steps", 4}}},
                   {"maybe", nullptr},
                   {"tested", "allowed"}};
  CHECK(core::to_json(facts) == whole);
  Json with_epsilon = whole;
  with_epsilon["epsilon"] = 1.5;
  CHECK(core::to_json(core::facts_in<Outer>(with_epsilon, "a.json")) == with_epsilon);
  facts.tested = true;
  CHECK(core::to_json(facts)["tested"] == true);
  CHECK(core::facts_in<Outer>(core::to_json(facts), "").tested == core::Tested(true));
}

TEST_CASE("a fact of the wrong type is refused with its file and its name", "[facts]") {
  CHECK(problem_with("epsilon", "1") == "a.json: 'epsilon' is not a number");
  CHECK(problem_with("lower", Json::array()) == "a.json: 'lower' is not a number");
  CHECK(problem_with("noise", 1) == "a.json: 'noise' is not true or false");
  CHECK(problem_with("short", 7) == "a.json: 'short' is not text");
  CHECK(problem_with("remarks", "one") == "a.json: 'remarks' is not a list");
  CHECK(problem_with("remarks", {7}) == "a.json: 'remarks' holds something that is not text");
  CHECK(problem_with("list", {7}) == "a.json: 'list' holds something that is not an object");
  CHECK(problem_with("inner", 7) == "a.json: 'inner' is not an object");
  CHECK(problem_with("inner", {{"steps", -1}}) ==
        "a.json: 'steps' is not a whole number of at least 0");
  CHECK(problem_with("inner", {{"steps", 1.5}}) ==
        "a.json: 'steps' is not a whole number of at least 0");
  CHECK(problem_with("tested", 7) == "a.json: 'tested' is not true or false");
}

namespace {

struct Collections {
  PRIVGRAD_FACTS((core::Named<Inner>, by_name), (core::Interval, pair),
                 (std::vector<Nullable<double>>, holes), (core::Named<Nullable<Inner>>, maybe))
};

}  // namespace

TEST_CASE("maps, pairs and lists with holes are written and read", "[facts]") {
  const Json whole{{"by_name", {{"a", {{"steps", 3}}}}},
                   {"pair", {0.5, 1.5}},
                   {"holes", {1.0, nullptr}},
                   {"maybe", {{"b", nullptr}, {"c", {{"steps", 4}}}}}};
  const auto facts = core::facts_in<Collections>(whole, "a.json");
  CHECK(facts.by_name.at("a").steps == 3);
  CHECK(facts.holes == std::vector<Nullable<double>>{1.0, {}});
  CHECK(!facts.maybe.at("b"));
  CHECK(core::to_json(facts) == whole);

  const auto problem = [](const char* name, const Json& value) -> std::string {
    try {
      core::facts_in<Collections>(Json{{name, value}}, "a.json");
    } catch (const IoError& refused) {
      return refused.what();
    }
    return "";
  };
  CHECK(problem("pair", {1.0}) == "a.json: 'pair' is not a list of 2");
  CHECK(problem("pair", {1.0, "2"}) == "a.json: 'pair' holds something that is not a number");
  CHECK(problem("by_name", {1}) == "a.json: 'by_name' is not an object");
  CHECK(problem("by_name", {{"a", 1}}) == "a.json: 'a' is not an object");
}

TEST_CASE("missing and unknown facts leave a struct as it is", "[facts]") {
  const auto facts = core::facts_in<Outer>({{"lower", nullptr}, {"unknown", 1}}, "a.json");
  CHECK(core::to_json(facts) == core::to_json(Outer{}));
}

TEST_CASE("a statement that is written and read is the same", "[facts][statement]") {
  core::Statement statement{{1.0, 0.5, "upper", "order 3"}};
  statement.also = {{{2.0, {}, "upper", ""}, "rdp", 12}};
  statement.mechanism.clip_norm = core::Range<double>{1.0, 2.0};
  statement.statistics = {{.name = "data.size", .value = core::Count{398}},
                          {.transform = 1, .value = std::vector<double>{201.5}}};
  statement.initial_weights =
      core::WeightsStated{{{.sha256 = "ab", .origin = core::WeightsOrigin{}}, {}}};
  statement.versions.plugins = {{"a", "1", "cd", true}, {"b", "1", "ef", "built_in"}, {"c"}};
  const Json json = core::to_json(statement);
  CHECK(core::to_json(core::facts_in<core::Statement>(json, "")) == json);
  CHECK(json["statistics"][0]["value"] == 398);
  CHECK(json["statistics"][1]["value"] == Json{201.5});
  CHECK(json["versions"]["plugins"][2].contains("tested") == false);
}

TEST_CASE("the results of every study beside the pages are read and written again whole",
          "[facts][studies]") {
  std::size_t studies = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(kSource / "docs/experiments/studies")) {
    if (entry.path().extension() != ".json") continue;
    Json results = Json::parse(read_file(entry.path()));
    if (!results.contains("choice")) continue;  // an estimate of influence
    CAPTURE(entry.path());
    results.erase("study_sha256");  // only in these copies
    const Json places = results.flatten();
    const Json again =
        core::to_json(core::facts_in<core::StudyResults>(results, "results.json")).flatten();
    // Results of earlier versions have fewer members.
    Json kept = Json::object();
    for (const auto& [place, value] : places.items())
      if (again.contains(place)) kept[place] = again[place];
    CHECK(kept == places);
    ++studies;
  }
  CHECK(studies > 20);
}
