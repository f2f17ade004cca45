// A manifest whose accountants can be checked by hand, for tests of what is charged.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fake_accountant.hpp"
#include "manifest_fixture.hpp"
#include "offer.hpp"
#include "privgrad/trust/ledger.hpp"

/// A CountingAccountant with one kind of answer, as a component.
template <privgrad::BoundKind kBound>
class Counting final : public CountingAccountant {
 public:
  explicit Counting(const privgrad::Params&) : CountingAccountant(kBound) {}
  bool is_filter() const override { return kBound == privgrad::BoundKind::exact; }
};

/// An accountant that proves `factor` times the count, as an upper and a lower bound.
template <int kFactor>
class Multiplying final : public CountingAccountant {
 public:
  explicit Multiplying(const privgrad::Params&) {}
  privgrad::PrivacyAnswer epsilon(double delta) const override {
    privgrad::PrivacyAnswer answer = CountingAccountant::epsilon(delta);
    answer.value *= kFactor > 0 ? kFactor : std::numeric_limits<double>::infinity();
    answer.lower = answer.value;
    return answer;
  }
};

/// Returns the catalog of manifest_fixture.hpp, with accountants: "counting" (an upper bound),
/// "exact" (a privacy filter), "guessing" (an estimate), "doubling", and "endless", which proves
/// nothing finite.
inline const privgrad::Catalog& counting_catalog() {
  using namespace privgrad;
  static const Catalog catalog = [] {
    Catalog made = make_catalog();
    made.add(std::make_shared<PluginIdentity>(
                 PluginIdentity{"counts", "1.0", "", "", "", "this program"}),
             nullptr,
             {offer<Accountant, Counting<BoundKind::upper>>("counting"),
              offer<Accountant, Counting<BoundKind::exact>>("exact"),
              offer<Accountant, Counting<BoundKind::estimate>>("guessing"),
              offer<Accountant, Multiplying<2>>("doubling"),
              offer<Accountant, Multiplying<0>>("endless")});
    return made;
  }();
  return catalog;
}

/// At this delta, 1/s^2 is an upper bound on the epsilon of a Gaussian release with noise s: with
/// mu = 1/s, delta(mu^2) = Phi(-mu/2) - exp(mu^2) Phi(-3 mu/2) is below Phi(0). The core refuses
/// answers that are too small.
inline constexpr double kCountedDelta = 0.5;

/// kGood with this delta, guarded by "counting": a Gaussian release with noise s costs 1/s^2.
/// \param overrides  as KEY=VALUE.
inline privgrad::core::Manifest counted(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"privacy.accountant=counting", "privacy.also=null",
                               "privacy.target_delta=0.5"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return privgrad::core::parse_manifest(kGood, "/nowhere/m.yaml", all, counting_catalog());
}

/// Returns a component of a test, as a manifest would request it.
/// \param where  the key in the manifest.
template <class Interface, class Impl>
privgrad::core::ComponentUse in_manifest(const std::string& name, std::string where) {
  static const privgrad::Component component{
      offer<Interface, Impl>(name),
      std::make_shared<privgrad::PluginIdentity>(
          privgrad::PluginIdentity{"test", "1", "", "", "", "this program"}),
      nullptr};
  privgrad::core::ComponentUse use;
  use.component = &component;
  use.where = std::move(where);
  use.position = "m.yaml:3:1";
  return use;
}

/// Returns the charges of steps that are charged in full for this noise.
inline std::vector<privgrad::core::Charge> full_steps(std::size_t count, double noise) {
  const privgrad::Event release = privgrad::Event::gaussian(noise);
  std::vector<privgrad::core::Charge> charges;
  for (std::size_t t = 0; t < count; ++t) charges.push_back({t, release, release});
  return charges;
}

/// Returns the charge of a release in addition to the steps.
inline privgrad::core::Charge beside_steps(std::uint64_t step, double noise, std::string what) {
  const privgrad::Event release = privgrad::Event::gaussian(noise);
  return {step, release, release, std::move(what)};
}
