// Requirements on every component of any kind, tested on a schedule.
#include <functional>
#include <stdexcept>

#include "broken.hpp"
#include "privgrad/error.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/schedule.hpp"

namespace declaration_test {

using namespace privgrad;
using privgrad::testing::Verdict;

namespace {

class One : public Schedule {
 public:
  explicit One(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
};

ComponentInfo info(std::vector<ParamSpec> params = {}) {
  return {.name = "fixture",
          .summary = "A component made for a test.",
          .reference = "none: a definition",
          .params = std::move(params)};
}

Findings declared(const std::function<void(ComponentInfo&)>& change) {
  ComponentInfo changed = info();
  change(changed);
  return findings_on<Schedule, One>(std::move(changed));
}

Findings with_factory(const std::function<void(Factory&)>& change) {
  Registrar registrar;
  registrar.add<Schedule, One>(info());
  std::vector<Factory> factories = registrar.factories();
  change(factories.front());
  Catalog catalog;
  catalog.add(std::make_shared<PluginIdentity>(), nullptr, factories);
  return testing::check_component(catalog.components().front(), test_setup());
}

Findings with_param(ParamSpec spec) { return findings_on<Schedule, One>({std::move(spec)}); }

}  // namespace

TEST_CASE("a well-declared component passes every rule") {
  const Findings findings = findings_on<Schedule, One>(
      {param::real("rate", "A rate.").at_least(0).below(1).defaults_to(0.5),
       param::integer("count", "A count.").at_least(1).example(3),
       param::text("how", "A way.").one_of({"slow", "fast"}).defaults_to("slow"),
       param::list("stops", "Stops.", param::integer("", "A stop.").at_least(1))
           .example(Value::List{1}),
       param::object("inner", "More.", {param::boolean("on", "A switch.").example(true)})});
  CHECK(findings_text(findings, Verdict::failed) == "");
  CHECK(findings_text(findings, Verdict::skipped) == "");
  CHECK(testing::conforms(findings));
}

TEST_CASE("an interface that is not the one it was written for is refused") {
  const auto caught = [](const std::string& text, const std::function<void(Factory&)>& change) {
    const Findings findings = with_factory(change);
    CHECK(not_caught(findings, "implements_a_known_interface", text) == "");
    // Otherwise its code would run as another type.
    CHECK(find_rule(findings, "is_created") == nullptr);
    CHECK(!testing::conforms(findings));
  };
  caught("no kind 'sheduler'", [](Factory& factory) { factory.kind = "sheduler"; });
  caught("version 99", [](Factory& factory) { factory.interface_version = 99; });
  caught("sees 'everything'", [](Factory& factory) { factory.sees = "everything"; });
  caught("lacks create", [](Factory& factory) { factory.create = nullptr; });
}

TEST_CASE("a poor declaration is found") {
  const auto caught = [](const std::string& rule, const std::string& text,
                         const Findings& findings) {
    CHECK(not_caught(findings, rule, text) == "");
  };
  caught("declares_itself", "lower_snake_case", declared([](auto& it) { it.name = "My-Decay"; }));
  caught("declares_itself", "summary is empty", declared([](auto& it) { it.summary = ""; }));
  caught("declares_itself", "one line", declared([](auto& it) { it.summary = "a\nb"; }));
  caught("declares_itself", "reference", declared([](auto& it) { it.reference = ""; }));
  caught("declares_known_traits", "lacks; did you mean 'correlated'?", declared([](auto& it) {
           it.traits = {"adaptive_noise", "corelated"};
         }));
  caught("declares_parameter_names", "'Beta'",
         with_param(param::real("Beta", "A share.").example(1)));
  caught("declares_parameter_names", "'kind' is a key",
         with_param(param::text("kind", "A kind.").defaults_to("a")));
  caught("declares_parameter_names", "twice", declared([](auto& it) {
           it.params = {param::real("a", "One.").example(1), param::real("a", "Two.").example(1)};
         }));
  caught("documents_parameters", "'inner.x' has no doc",
         with_param(param::object("inner", "More.", {param::real("x", "").defaults_to(1)})));
  caught("declares_possible_ranges", "empty range",
         with_param(param::real("x", "X.").above(1).at_most(1).optional()));
  caught("declares_possible_ranges", "not a number",
         with_param(param::text("x", "X.").at_least(1).optional()));
  caught("declares_possible_ranges", "not text",
         with_param(param::real("x", "X.").one_of({"a"}).optional()));
  caught("declares_legal_defaults", "allowed is [0, 1]",
         with_param(param::real("x", "X.").at_least(0).at_most(1).defaults_to(2)));
  caught("declares_legal_defaults", "allowed are a, b",
         with_param(param::text("x", "X.").one_of({"a", "b"}).defaults_to("c")));
  caught("declares_legal_examples", "expected an integer",
         with_param(param::integer("x", "X.").example(0.5)));
  caught("declares_examples", "'x'", with_param(param::real("x", "X.")));
}

TEST_CASE("what cannot be made without files is skipped, never passed") {
  const Findings findings = with_param(
      param::object("train", "Files.", {param::path("rows", "A file.").example("rows.bin")}));
  const auto* created = find_rule(findings, "is_created");
  REQUIRE(created != nullptr);
  CHECK(created->verdict == Verdict::skipped);
  CHECK(created->detail.find("'train.rows'") == std::string::npos);
  CHECK(created->detail.find("needs data: give the file(s) of train.rows") == 0);
  CHECK(find_rule(findings, "accepts_a_horizon") == nullptr);
}

namespace {

template <class Problem>
class Throwing final : public One {
 public:
  explicit Throwing(const Params& params) : One(params) { throw Problem("cannot"); }
};

/// Correct unless its parameter is at the end of its range.
class WeakAtZero final : public One {
 public:
  explicit WeakAtZero(const Params& params) : One(params), rate_(params.real("rate")) {
    if (rate_ == 1.0) throw std::runtime_error("cannot");
  }
  double value(std::uint64_t step) const override {
    return std::pow(rate_, -static_cast<double>(step));
  }

 private:
  double rate_;
};

class OneOfTwo final : public One {
 public:
  explicit OneOfTwo(const Params& params) : One(params) {
    if (params.has("a") == params.has("b")) throw ConfigError("give exactly one of a and b");
  }
};

}  // namespace

TEST_CASE("a component that cannot be made from its own examples is found") {
  CHECK(not_caught(findings_on<Schedule, Throwing<ConfigError>>(), "is_created",
                   "made from its own examples and defaults, it is refused: cannot") == "");
  CHECK(not_caught(findings_on<Schedule, Throwing<IoError>>(), "is_created", "IoError") == "");
  CHECK(not_caught(findings_on<Schedule, Throwing<std::logic_error>>(), "is_created",
                   "not a privgrad::Error") == "");
  CHECK(not_caught(with_factory([](Factory& factory) {
                     factory.create = [](const Params&) -> void* { return nullptr; };
                   }),
                   "is_created", "create returned nothing") == "");
  CHECK(not_caught(with_factory([](Factory& factory) {
                     factory.create = [](const Params&) -> void* {
                       static One shared{Params()};
                       return static_cast<Schedule*>(&shared);
                     };
                     factory.destroy = [](void*) noexcept {};
                   }),
                   "is_created", "the same object") == "");
}

TEST_CASE("a component that wants one of two optional parameters is made from an example") {
  const Findings findings =
      findings_on<Schedule, OneOfTwo>({param::real("a", "A.").optional().example(1.0),
                                       param::real("b", "B.").optional().example(1.0)});
  CHECK(findings_text(findings, Verdict::failed) == "");
}

TEST_CASE("a component that breaks at the ends of its ranges is found") {
  const auto rate = [] { return param::real("rate", "A rate.").at_least(0).example(0.5); };
  CHECK(not_caught(findings_on<Schedule, WeakAtZero>({rate()}), "works_at_the_ends_of_its_ranges",
                   "with rate = 0: the value is inf at step 1") == "");
  CHECK(not_caught(findings_on<Schedule, WeakAtZero>({rate().above(0.4).at_most(1)}),
                   "works_at_the_ends_of_its_ranges",
                   "with rate = 1: an exception that is no") == "");
}

namespace {

/// Can be created often enough for the check, and then no longer.
class SoonTired final : public Model {
 public:
  explicit SoonTired(const Params&) {
    if (++made_ % 3 == 0) throw std::runtime_error("tired");
  }
  Network network(const ExampleShape&) const override { return {}; }
  void initialise(const Network&, RandomStream&, std::span<float>) const override {}

 private:
  inline static int made_ = 0;
};

}  // namespace

TEST_CASE("nothing that a component throws gets through") {
  CHECK(not_caught(findings_on<Model, SoonTired>(), "survives_the_suite", "tired") == "");
}

TEST_CASE("the kinds of verdict have names") {
  CHECK(to_text(Verdict::passed) == "passed");
  CHECK(to_text(Verdict::failed) == "failed");
  CHECK(to_text(Verdict::skipped) == "skipped");
}

}  // namespace declaration_test
