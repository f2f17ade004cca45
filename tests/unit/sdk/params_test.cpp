#include "privgrad/params.hpp"

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

std::vector<ParamSpec> specs() {
  return {
      param::real("beta", "A share.").at_least(0).below(1).defaults_to(0.9),
      param::integer("batch_size", "A count.").at_least(1).in_unit("examples").example(10),
      param::text("variant", "Which one.")
          .one_of({"nesterov", "heavy_ball"})
          .defaults_to("heavy_ball"),
      param::list("hidden", "Units.", param::integer("", "").at_least(1))
          .at_least_items(1)
          .optional(),
      param::object("train", "Files.",
                    {param::path("images", "Pixels."), param::boolean("gz", "x").defaults_to(true)})
          .optional()};
}

std::vector<Problem> problems_of(const Value& given) {
  std::vector<Problem> problems;
  Params::check(specs(), given, problems);
  return problems;
}

Value object(Value::Object members) { return Value(std::move(members)); }

}  // namespace

TEST_CASE("defaults are filled in and types are read back", "[params]") {
  const Params params = Params::make(
      "c", specs(), object({{"batch_size", 5, {}}, {"hidden", Value::List{1, 2}, {}}}));
  CHECK(params.real("beta") == 0.9);
  CHECK(params.integer("batch_size") == 5);
  CHECK(params.text("variant") == "heavy_ball");
  CHECK(params.integers("hidden") == std::vector<std::int64_t>{1, 2});
  CHECK_FALSE(params.has("train"));
  CHECK(params.value().find("beta") != nullptr);  // the resolved manifest shows defaults
}

TEST_CASE("an integer is a fine real, nothing else converts", "[params]") {
  CHECK(Params::make("c", specs(), object({{"batch_size", 5, {}}, {"beta", 0, {}}})).real("beta") ==
        0.0);
  CHECK(problems_of(object({{"batch_size", 5.0, {}}})).size() == 1);
  CHECK(problems_of(object({{"batch_size", "5", {}}})).size() == 1);
  CHECK(problems_of(object({{"batch_size", true, {}}})).size() == 1);
}

TEST_CASE("every problem is found at once, with its place and what is allowed", "[params]") {
  Value beta(1.0);
  beta.mark = {.line = 4, .column = 7};
  const auto problems = problems_of(object({{"beta", beta, {}},
                                            {"variant", "heavy_bal", {}},
                                            {"hidden", Value::List{1, 0}, {}},
                                            {"bacth_size", 5, {.line = 9, .column = 1}},
                                            {"train", object({{"gz", 1, {}}}), {}}}));
  REQUIRE(problems.size() == 7);
  CHECK(problems[0].where == "beta");
  CHECK(problems[0].what == "is 1, allowed is [0, 1)");
  CHECK(problems[0].mark.line == 4);
  CHECK(problems[1].where == "batch_size");
  CHECK_THAT(problems[1].what, ContainsSubstring("is missing"));
  CHECK_THAT(problems[2].what, ContainsSubstring("did you mean 'heavy_ball'?"));
  CHECK(problems[3].where == "hidden.1");
  CHECK(problems[4].where == "train.images");
  CHECK(problems[5].where == "train.gz");
  CHECK(problems[6].mark.line == 9);
  CHECK_THAT(problems[6].what, ContainsSubstring("did you mean 'batch_size'?"));
}

TEST_CASE("a range given to a list holds for its elements, however it is written", "[params]") {
  for (const ParamSpec& spec : {param::list("sizes", "x", param::integer("", "").at_least(1)),
                                param::list("sizes", "x", param::integer("", "")).at_least(1)}) {
    std::vector<Problem> problems;
    Params::check({spec}, object({{"sizes", Value::List{1, 0}, {}}}), problems);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].where == "sizes.1");
  }
}

TEST_CASE("ranges keep NaN and infinities out", "[params]") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1e-300, 1.0}) {
    CHECK(problems_of(object({{"batch_size", 1, {}}, {"beta", bad, {}}})).size() == 1);
  }
}

TEST_CASE("the wrong shape of the whole is one problem, not a crash", "[params]") {
  CHECK(problems_of(Value(3)).front().what == "is an integer, expected an object");
  CHECK(problems_of(object({{"batch_size", 1, {}}, {"hidden", Value::List{}, {}}})).size() == 1);
  CHECK(problems_of(object({{"batch_size", 1, {}}, {"hidden", Value::List{Value::List{}}, {}}}))
            .size() == 1);
}

TEST_CASE("make() lists every problem in one line", "[params]") {
  CHECK_THROWS_WITH(
      Params::make("momentum", specs(), object({{"beta", 2, {}}})),
      ContainsSubstring("momentum: beta: is 2") && ContainsSubstring("; batch_size: is missing"));
}

TEST_CASE("a component that asks for what it did not declare is at fault itself", "[params]") {
  const Params params = Params::make("c", specs(), object({{"batch_size", 5, {}}}));
  CHECK_THROWS_AS(params.real("gamma"), PluginError);
  CHECK_THROWS_AS(params.text("beta"), PluginError);
}

TEST_CASE("the nearest name is near, or there is none", "[params]") {
  const std::vector<std::string> names{"momentum", "sgd", "adam"};
  CHECK(nearest_name("momentun", names) == "momentum");
  CHECK(nearest_name("sdg", names) == "sgd");
  // A transposition counts as one edit.
  CHECK(nearest_name("zdcp", {"gdp", "rdp", "zcdp"}) == "zcdp");
  CHECK(nearest_name("pdl", {"gdp", "pld", "rdp"}) == "pld");
  CHECK(nearest_name("completely_different", names).empty());
  CHECK(nearest_name(std::string(100000, 'x'), names).empty());
}

TEST_CASE("numbers are written so that they read back", "[value]") {
  CHECK(format_number(0.1) == "0.1");
  CHECK(format_number(1e-8) == "1e-08");
  CHECK(format_number(HUGE_VAL) == "inf");
}
