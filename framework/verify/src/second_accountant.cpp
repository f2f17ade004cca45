#include "second_accountant.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "run_files.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

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

/// The proof of an accountant that the manifest does not name.
struct SecondAnswer {
  std::string name;
  PrivacyAnswer epsilon;
};

class Asking {
 public:
  Asking(const Manifest& manifest, const Catalog& catalog, bool must_be_filter,
         Verification& result)
      : manifest_(manifest), catalog_(catalog), must_be_filter_(must_be_filter), result_(result) {}

  void add(const std::string& name, const char* role, const PrivacyAnswer& answer) {
    result_.accountants[name] = {{"role", role},
                                 {"epsilon", json_number(answer.value)},
                                 {"lower", answer.lower ? json_number(*answer.lower) : Json()},
                                 {"bound", to_text(answer.bound)},
                                 {"note", answer.note}};
  }

  /// Asks other accountants for the cost of `charged`. Adds a problem for each proof that
  /// contradicts the named accountant, unless `charged.are_bounds`.
  /// \param only  the full name of the accountant to ask; nothing: asks all accountants except the
  ///   named accountant and its certifier.
  /// \returns the tightest proof; nothing, after adding a note, if there is no proof.
  std::optional<SecondAnswer> about(const Charged& charged,
                                    const std::optional<std::string>& only) {
    std::vector<SecondAnswer> answers = answers_about(charged.costs, only);
    for (const SecondAnswer& second : answers) {
      if (!second.epsilon.lower || charged.are_bounds) continue;
      if (*second.epsilon.lower > charged.named.value * (1.0 + 1e-9)) {
        result_.problems.push_back(
            "ledger: the accountants contradict each other: " + second.name +
            " proves that epsilon is at least " + format_number(*second.epsilon.lower) +
            ", the named one that it is at most " + format_number(charged.named.value));
      }
    }
    if (!answers.empty()) return std::move(answers.front());
    std::string why = "no second accountant has a proof about these events";
    for (const std::string& refusal : refusals_) why += "; " + first_line(refusal);
    result_.notes.push_back(why);
    return std::nullopt;
  }

 private:
  std::vector<SecondAnswer> answers_about(std::span<const Event> costs,
                                          const std::optional<std::string>& only) {
    std::vector<SecondAnswer> answers;
    for (const Component* offered : catalog_.components_of(Accountant::kKind)) {
      const Component& component = *offered;
      const ComponentUse& named = manifest_.accountant;
      if (offered == named.component || offered == named.certifier) continue;
      const std::string name = component.full_name();
      if (only && name != *only) continue;
      try {
        if (const Component* prover = certifier_of(component, catalog_)) {
          throw PrivacyError("proves nothing itself, " + prover->factory.info.name + " does");
        }
        const auto accountant = with_defaults(component);
        if (must_be_filter_ && !accountant->is_filter())
          throw PrivacyError("is not a privacy filter");
        PrivacyAnswer answer = ask(manifest_, *accountant, costs, name);
        if (answer.bound == BoundKind::estimate) throw PrivacyError("has an estimate only");
        if (!std::isfinite(answer.value)) throw PrivacyError("proves nothing finite");
        answers.push_back({name, std::move(answer)});
      } catch (const Error& problem) {
        refusals_.push_back(name + ": " + problem.what());
      }
    }
    std::ranges::stable_sort(
        answers, [](const auto& a, const auto& b) { return a.epsilon.value < b.epsilon.value; });
    return answers;
  }

  const Manifest& manifest_;
  const Catalog& catalog_;
  bool must_be_filter_;
  Verification& result_;
  std::vector<std::string> refusals_;
};

}  // namespace

void ask_accountants(const Manifest& manifest, const Catalog& catalog, bool must_be_filter,
                     const Charged& charged, std::size_t others,
                     const std::function<Charged(std::size_t)>& other, Verification& result) {
  if (std::isfinite(charged.named.value)) result.epsilon = charged.named.value;
  result.delta = manifest.target_delta;
  Asking asking(manifest, catalog, must_be_filter, result);
  asking.add(manifest.accountant.component->full_name(), "named", charged.named);
  std::optional<SecondAnswer> second = asking.about(charged, {});
  std::vector<std::vector<Event>> asked{charged.costs};
  for (std::size_t i = 0; second && i < others; ++i) {
    Charged one = other(i);
    if (std::ranges::find(asked, one.costs) != asked.end()) continue;
    auto of_other = asking.about(one, second->name);
    if (!of_other || of_other->epsilon.value > second->epsilon.value) second = std::move(of_other);
    asked.push_back(std::move(one.costs));
  }
  if (second) asking.add(second->name, "second", second->epsilon);
}

}  // namespace privgrad::core
