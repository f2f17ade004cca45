#include "guard.hpp"

#include <utility>
#include <variant>

#include "privgrad/error.hpp"
#include "privgrad/trust/checked_answer.hpp"

namespace privgrad::core {
namespace {

bool is_nothing(const Event& event) {
  const auto* composed = std::get_if<ComposedEvent>(&event.kind());
  return composed != nullptr && composed->of.empty();
}

ComponentPtr<Accountant> accountant_after(const ComponentUse& use, Adjacency adjacency,
                                          std::span<const Charge> beside,
                                          std::span<const Charge> charges) {
  auto accountant = make_accountant(use);
  const auto compose = [&](const Charge& charge) {
    if (is_nothing(charge.cost)) return;
    if (const auto why = accountant->refuses(charge.cost)) throw PrivacyError(*why);
    accountant->compose(charge.cost, 1);
  };
  use.with_position([&] {
    accountant->start(adjacency);
    for (const Charge& charge : beside) compose(charge);
    for (const Charge& charge : charges) compose(charge);
  });
  return accountant;
}

}  // namespace

std::vector<Charge> sampled_charges(const Manifest& manifest, const Sampler& sampler,
                                    std::span<const Event> releases, const std::string& what) {
  std::vector<Event> costs =
      manifest.sampler.with_position([&] { return sampler.charges(releases); });
  if (costs.size() != releases.size()) {
    throw PluginError(manifest.sampler.component->full_name() + ": gave " +
                      std::to_string(costs.size()) + " charges for " +
                      std::to_string(releases.size()) + " steps");
  }
  std::vector<Charge> charges;
  charges.reserve(costs.size());
  for (std::uint64_t i = 0; i < costs.size(); ++i)
    charges.push_back({i, releases[i], std::move(costs[i]), what});
  return charges;
}

PrivacyAnswer answer_of(const ComponentUse& accountant, const Manifest& manifest,
                        std::span<const Charge> beside, std::span<const Charge> charges) {
  const auto made = accountant_after(accountant, manifest.adjacency, beside, charges);
  return checked(made->epsilon(manifest.target_delta), accountant.name());
}

PrivacyAnswer guard_answer(const Manifest& manifest, std::span<const Charge> beside,
                           std::span<const Charge> charges) {
  const ComponentUse& use = manifest.accountant;
  const auto accountant = accountant_after(use, manifest.adjacency, beside, charges);
  return use.with_position(
      [&] { return checked_guard(accountant->epsilon(manifest.target_delta), use.name()); });
}

PrivacyAnswer guard_answer(const Manifest& manifest, const std::vector<Charge>& charges) {
  return guard_answer(manifest, {}, charges);
}

}  // namespace privgrad::core
