#include "privgrad/testing/conformance.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "parameters.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

struct InterfaceRules {
  std::string_view kind;
  int version;
  std::string_view sees;
  void (*check)(Checker&);
  void (*make)(const Checker&);
  /// Whether a new component can be used at all; some components refuse only in start().
  bool (*usable)(const Checker&);
};

bool always_usable(const Checker&) { return true; }

template <class Interface>
constexpr InterfaceRules rules_of(void (*check)(Checker&),
                                  bool (*usable)(const Checker&) = always_usable) {
  return {Interface::kKind,
          Interface::kInterfaceVersion,
          Interface::kSees,
          check,
          [](const Checker& checker) {
            // Makes both at once, because making a component twice must not return the same object.
            const auto first = checker.make<Interface>();
            const auto second = checker.make<Interface>();
            require(first.get() != second.get(), "created twice, it is the same object");
          },
          usable};
}

constexpr std::array kInterfaces{rules_of<Accountant>(check_accountant),
                                 rules_of<Aggregator>(check_aggregator),
                                 rules_of<Backend>(check_backend),
                                 rules_of<Clipping>(check_clipping),
                                 rules_of<Cluster>(check_cluster),
                                 rules_of<DataSource>(check_data_source),
                                 rules_of<Model>(check_model),
                                 rules_of<Optimizer>(check_optimizer),
                                 rules_of<Sampler>(check_sampler, starts_somewhere),
                                 rules_of<Schedule>(check_schedule),
                                 rules_of<Transform>(check_transform)};

const InterfaceRules* find_rules(std::string_view kind) {
  const auto* found = std::ranges::find_if(
      kInterfaces, [&](const InterfaceRules& rules) { return rules.kind == kind; });
  return found == kInterfaces.end() ? nullptr : found;
}

bool check_interface(Checker& checker, const InterfaceRules* rules) {
  const Factory& factory = checker.component().factory;
  return checker.rule("implements_a_known_interface", [&] {
    require(rules != nullptr, "there is no kind '" + factory.kind + "'");
    require(factory.interface_version == rules->version,
            "it was built for version " + std::to_string(factory.interface_version) + " of " +
                factory.kind + ", this is version " + std::to_string(rules->version));
    require(factory.sees == rules->sees, "it says that it sees '" + factory.sees + "', but a " +
                                             factory.kind + " sees " + std::string(rules->sees));
    require(factory.create != nullptr && factory.destroy != nullptr,
            "its factory lacks create or destroy");
  });
}

/// Chooses the parameters, and checks that the component can be made from them.
/// \returns whether it can.
bool check_creation(Checker& checker, const InterfaceRules& rules) {
  const ExampleParams examples = example_params(checker.specs(), checker.setup().params);
  if (!examples.files.empty()) {
    checker.skip("is_created", "needs data: give the file(s) of " + examples.files.front() +
                                   " in the parameters; nothing more was checked");
    return false;
  }
  if (!examples.undeclared.empty()) {
    checker.skip("is_created", "parameter '" + examples.undeclared.front() +
                                   "' has no example; nothing more was checked");
    return false;
  }
  return checker.prepare("is_created", [&] {
    // Components may need one of several optional parameters, which a declaration cannot express.
    // Then the first optional example with which the component can be made serves as a default.
    std::string first_refusal;
    std::optional<Params> made;
    for (const Value& candidate : with_each_optional(checker.specs(), examples.params)) {
      std::string message;
      const Thrown thrown = outcome_of(
          [&] {
            checker.use(
                Params::make(checker.component().factory.info.name, checker.specs(), candidate));
            rules.make(checker);
          },
          &message);
      if (thrown == Thrown::nothing) {
        if (rules.usable(checker)) return;
        if (!made) made = checker.params();
        continue;
      }
      require(thrown == Thrown::config,
              "creating it threw " + std::string(to_text(thrown)) + ": " + message);
      if (first_refusal.empty()) first_refusal = message;
    }
    if (!made) broken("made from its own examples and defaults, it is refused: " + first_refusal);
    checker.use(*made);
  });
}

void check_all_rules(Checker& checker) {
  const InterfaceRules* rules = find_rules(checker.component().factory.kind);
  const bool known = check_interface(checker, rules);
  check_declaration(checker);
  if (known && check_creation(checker, *rules))
    checker.all_rules(kWholeSuite, [&] { rules->check(checker); });
}

}  // namespace

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

std::vector<Finding> check_component(const Component& component, const Setup& setup) {
  Checker checker(component, setup);
  check_all_rules(checker);
  return checker.take();
}

bool check_next_rule(const Component& component, const Setup& setup,
                     const std::vector<Finding>& done,
                     const std::function<void(const std::string& rule)>& begins,
                     const std::function<void(const Finding& finding)>& ends) {
  const NextRule next{done, begins, ends};
  Checker checker(component, setup, &next);
  try {
    check_all_rules(checker);
    return false;
  } catch (const RuleDone&) {
    return true;
  } catch (const Broken& promise) {  // an earlier preparation failed this time
    ends({std::string(kWholeSuite), Verdict::failed, promise.detail});
    return true;
  }
}

bool conforms(const std::vector<Finding>& findings) {
  return std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.verdict == Verdict::failed; });
}

}  // namespace privgrad::testing
