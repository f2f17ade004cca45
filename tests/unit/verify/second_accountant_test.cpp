#include "second_accountant.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "counted_manifest.hpp"

using namespace privgrad;
using core::Charged;
using core::Verification;

namespace {

/// Returns the available accountants: "named" is the manifest's.
Catalog accountants(std::vector<Factory> others) {
  Catalog catalog;
  others.push_back(offer<Accountant, Counting<BoundKind::upper>>("named"));
  catalog.add(
      std::make_shared<PluginIdentity>(PluginIdentity{"seconds", "1", "", "", "", "this program"}),
      nullptr, std::move(others));
  return catalog;
}

/// Verifies two releases with noise 1, whose cost was `named` by the named accountant.
Verification asked(const Catalog& catalog, double named = 2.0, bool are_bounds = false,
                   bool must_be_filter = false, std::vector<Charged> others = {}) {
  core::Manifest manifest = counted();
  for (const Component* one : catalog.components_of(Accountant::kKind))
    if (one->factory.info.name == "named") manifest.accountant.component = one;
  const std::vector<Event> costs(2, Event::gaussian(1.0));
  Verification result;
  core::ask_accountants(
      manifest, catalog, must_be_filter, {{named, BoundKind::upper, {}, ""}, costs, are_bounds},
      others.size(), [&](std::size_t i) { return others[i]; }, result);
  return result;
}

const auto kExact = offer<Accountant, Counting<BoundKind::exact>>("exact");
const auto kGuessing = offer<Accountant, Counting<BoundKind::estimate>>("guessing");
const auto kDoubling = offer<Accountant, Multiplying<2>>("doubling");
const auto kEndless = offer<Accountant, Multiplying<0>>("endless");

}  // namespace

TEST_CASE("the second answer is the tightest finite proof of another accountant",
          "[second_accountant]") {
  // "guessing" only estimates, "endless" proves no finite bound, and "doubling" proves 4.
  const Verification result = asked(accountants({kGuessing, kEndless, kDoubling, kExact}), 4.0);
  CHECK(result.problems.empty());
  CHECK(result.notes.empty());
  REQUIRE(result.accountants.size() == 2);
  CHECK(result.accountants.at("seconds:exact").at("epsilon") == 2.0);
  CHECK(result.accountants.at("seconds:exact").at("role") == "second");
  CHECK(result.accountants.at("seconds:named").at("role") == "named");
  CHECK(result.epsilon == 4.0);
  CHECK(result.delta == kCountedDelta);
}

TEST_CASE("without a second proof there is a note with the reasons", "[second_accountant]") {
  const Verification result = asked(accountants({kGuessing, kEndless}));
  CHECK(result.accountants.size() == 1);
  REQUIRE(result.notes.size() == 1);
  CHECK_THAT(result.notes.front(), ContainsSubstring("guessing: has an estimate only") &&
                                       ContainsSubstring("endless: proves nothing finite"));
  // Noise that follows from releases needs a filter; "exact" is one.
  CHECK_FALSE(asked(accountants({kDoubling}), 4.0, false, true).notes.empty());
  CHECK(asked(accountants({kExact}), 2.0, false, true).notes.empty());
}

TEST_CASE("a lower bound above the named answer is a problem", "[second_accountant][privacy]") {
  // "doubling" proves that the releases cost at least 4.
  const Catalog catalog = accountants({kDoubling});
  CHECK(asked(catalog, 4.0).problems.empty());
  CHECK(asked(catalog, 4.0 * (1.0 - 1e-10)).problems.empty());
  const Verification result = asked(catalog, 3.9);
  REQUIRE(result.problems.size() == 1);
  CHECK_THAT(result.problems.front(),
             ContainsSubstring("seconds:doubling proves that epsilon is at least 4"));
  // Charges that may exceed the true cost contradict nothing.
  CHECK(asked(catalog, 3.9, true).problems.empty());
}

TEST_CASE("about several ledgers the second answer is the largest", "[second_accountant]") {
  const auto ledger = [](std::size_t releases) {
    return Charged{{double(releases), BoundKind::upper, {}, ""},
                   std::vector<Event>(releases, Event::gaussian(1.0)),
                   false};
  };
  const auto second = [&](std::vector<Charged> others) {
    return asked(accountants({kExact}), 2.0, false, false, std::move(others))
        .accountants.at("seconds:exact")
        .at("epsilon");
  };
  CHECK(second({ledger(1), ledger(2)}) == 2.0);
  CHECK(second({ledger(1), ledger(3), ledger(2)}) == 3.0);
}
