#include "second_accountant.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"

namespace privgrad::core {
namespace {

ComponentPtr<Accountant> with_defaults(const Component& component) {
  std::vector<Problem> problems;
  const Params params =
      Params::check(component.factory.info.params, Value{Value::Object{}}, problems);
  if (!problems.empty()) throw ConfigError("it has parameters without a default");
  return make_accountant(component, params, nullptr);
}

PrivacyAnswer ask(const Manifest& manifest, Accountant& accountant, std::span<const Event> costs,
                  const std::string& name) {
  accountant.start(manifest.adjacency);
  for (std::size_t i = 0; i < costs.size();) {
    std::size_t end = i + 1;
    while (end < costs.size() && costs[end] == costs[i]) ++end;
    if (!(costs[i] == Event::nothing())) accountant.compose(costs[i], end - i);
    i = end;
  }
  return checked(accountant.epsilon(manifest.target_delta), name);
}

}  // namespace

std::vector<SecondAnswer> second_answers(const Manifest& manifest, const Catalog& catalog,
                                         std::span<const Event> costs, bool must_be_filter,
                                         std::vector<std::string>& refusals,
                                         const std::optional<std::string>& only) {
  std::vector<SecondAnswer> answers;
  for (const Component* offered : catalog.components_of(Accountant::kKind)) {
    const Component& component = *offered;
    const ComponentUse& named = manifest.accountant;
    if (offered == named.component || offered == named.certifier) continue;
    const std::string name = component.full_name();
    if (only && name != *only) continue;
    try {
      if (const Component* prover = certifier_of(component, catalog)) {
        throw PrivacyError("proves nothing itself, " + prover->factory.info.name + " does");
      }
      const auto accountant = with_defaults(component);
      if (must_be_filter && dynamic_cast<const ComposesAdaptively*>(accountant.get()) == nullptr)
        throw PrivacyError("is no privacy filter");
      PrivacyAnswer answer = ask(manifest, *accountant, costs, name);
      if (answer.bound == BoundKind::estimate) throw PrivacyError("has an estimate only");
      if (!std::isfinite(answer.value)) throw PrivacyError("proves nothing finite");
      answers.push_back({name, std::move(answer)});
    } catch (const Error& problem) {
      refusals.push_back(name + ": " + problem.what());
    }
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return a.epsilon.value < b.epsilon.value; });
  return answers;
}

}  // namespace privgrad::core
