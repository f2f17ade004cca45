#include "privgrad/api/accounting.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::api {
namespace {

/// Reads a name, or an object in YAML's flow style with the parameters.
Value accountant_value(const std::string& text, const std::string& called) {
  std::vector<Problem> problems;
  std::optional<Value> value = core::parse_yaml(text, problems);
  if (!problems.empty() || !value) {
    throw ConfigError(called + ": " +
                      (problems.empty() ? "cannot be read" : problems.front().what));
  }
  if (std::holds_alternative<std::string>(value->data())) {
    Value object;
    object.set("kind", *value);
    return object;
  }
  const Value* kind = value->find("kind");
  if (kind == nullptr || !std::holds_alternative<std::string>(kind->data())) {
    throw ConfigError(called + ": write a name, or {kind: NAME, PARAMETER: VALUE}");
  }
  return *std::move(value);
}

/// \throws ConfigError unless `low < value < high`, or `low <= value` if `include_low`, or
///   `value <= high` if `include_high`.
double checked_range(const char* name, double value, double low, double high,
                     bool include_low = false, bool include_high = false) {
  const bool fits = std::isfinite(value) && (include_low ? value >= low : value > low) &&
                    (include_high ? value <= high : value < high);
  if (fits) return value;
  throw ConfigError(std::string(name) + " is " + format_number(value) + ", allowed is " +
                    (include_low ? "[" : "(") + format_number(low) + ", " + format_number(high) +
                    (include_high ? "]" : ")"));
}

void check_question(const CalibrationQuestion& question) {
  checked_range("target_epsilon", question.target_epsilon, 0.0, HUGE_VAL);
  checked_range("target_delta", question.target_delta, 0.0, 1.0);
  if (question.sample_rate.has_value() == question.allocation.has_value())
    throw ConfigError("give one of sample_rate and allocation, the steps of an epoch");
  if (question.sample_rate)
    checked_range("sample_rate", *question.sample_rate, 0.0, 1.0, false, true);
  if (question.steps.has_value() == question.noise_multiplier.has_value())
    throw ConfigError("give one of steps and noise_multiplier; the other one is computed");
  constexpr std::uint64_t kMostSteps = std::numeric_limits<int>::max();
  const auto check_steps = [](const char* name, const std::optional<std::uint64_t>& steps) {
    if (!steps || (*steps > 0 && *steps <= kMostSteps)) return;
    throw ConfigError(std::string(name) + " is " + std::to_string(*steps) + ", allowed is [1, " +
                      std::to_string(kMostSteps) + "]");
  };
  check_steps("steps", question.steps);
  check_steps("allocation", question.allocation);
  if (question.noise_multiplier)
    checked_range("noise_multiplier", *question.noise_multiplier, 0.0, HUGE_VAL);
}

/// \param ask  returns an accountant's answer; throws PrivacyError if there is no proof.
/// \param is_better  returns whether the first answer is better than the second.
template <class Ask, class IsBetter>
auto best_of(Adjacency adjacency, const Catalog& catalog, Ask ask, IsBetter is_better) {
  using Answer = decltype(ask(std::declval<const AccountantCall&>()));
  std::optional<std::pair<AccountantCall, Answer>> best;
  std::string reasons;
  for (const AccountantCall& call : proving_accountants(adjacency, catalog)) {
    try {
      Answer answer = ask(call);
      if (!best || is_better(answer, best->second)) best.emplace(call, std::move(answer));
    } catch (const PrivacyError& refusal) {
      reasons += std::string("; ") + refusal.what();
    }
  }
  if (!best) throw PrivacyError("no accountant has a proof" + reasons);
  return *std::move(best);
}

nlohmann::json lower_json(const PrivacyAnswer& answer) {
  return answer.lower ? core::json_number(*answer.lower) : nlohmann::json(nullptr);
}

}  // namespace

AccountantCall::AccountantCall(const std::string& accountant, Adjacency adjacency,
                               const Catalog& catalog, const std::string& called)
    : adjacency_(adjacency), catalog_(&catalog) {
  const Value value = accountant_value(accountant, called);
  component_ = &catalog.find<Accountant>(std::get<std::string>(value.find("kind")->data()));
  certifier_ = core::certifier_of(*component_, catalog);
  std::vector<Problem> problems;
  params_ = Params::check(component_->factory.info.params, value, problems, {"kind"});
  if (!problems.empty())
    throw ConfigError(called + ": " + problems.front().where + ": " + problems.front().what);
}

std::optional<AccountantCall> AccountantCall::estimator() const {
  if (certifier_ != nullptr) {
    AccountantCall own = *this;
    own.certifier_ = nullptr;
    return own;
  }
  for (const Component& component : catalog_->components()) {
    if (component.factory.kind != Accountant::kKind ||
        component.factory.info.certified_by != component_->factory.info.name)
      continue;
    AccountantCall other(component.full_name(), adjacency_, *catalog_);
    other.certifier_ = nullptr;
    return other;
  }
  return {};
}

Value AccountantCall::resolved() const {
  Value resolved = params_.value();
  resolved.set("kind", component_->full_name());
  return resolved;
}

ComponentPtr<Accountant> AccountantCall::after(const Event& event, std::uint64_t count) const {
  auto accountant = core::make_accountant(*component_, params_, certifier_);
  accountant->start(adjacency_);
  if (const auto why = accountant->refuses(event)) {
    throw PrivacyError(
        name() + ": " +
        (names_others_ ? core::with_alternatives(*why, event, adjacency_, *catalog_, *component_)
                       : *why));
  }
  accountant->compose(event, count);
  return accountant;
}

std::vector<AccountantCall> proving_accountants(Adjacency adjacency, const Catalog& catalog) {
  std::vector<AccountantCall> all;
  for (const Component* component : catalog.components_of(Accountant::kKind)) {
    try {
      AccountantCall call(component->full_name(), adjacency, catalog);
      call.name_no_others();
      if (call.proves_itself()) all.push_back(std::move(call));
    } catch (const ConfigError&) {
      continue;  // a parameter has no default
    }
  }
  return all;
}

Account account(const AccountantCall& call, const Event& event, std::optional<double> delta,
                std::optional<double> epsilon) {
  if (delta.has_value() == epsilon.has_value())
    throw ConfigError("give one of delta and epsilon; the other one is computed");
  Account result;
  if (delta) {
    result.delta = checked_range("delta", *delta, 0.0, 1.0);
    result.answer = call.after(event)->epsilon(result.delta);
    result.epsilon = result.answer.value;
  } else {
    result.epsilon = checked_range("epsilon", *epsilon, 0.0, HUGE_VAL, true);
    result.answer = call.after(event)->delta(result.epsilon);
    result.delta = result.answer.value;
  }
  result.answer = core::checked(std::move(result.answer), call.name());
  return result;
}

std::pair<AccountantCall, Account> tightest_account(Adjacency adjacency, const Catalog& catalog,
                                                    const Event& event, std::optional<double> delta,
                                                    std::optional<double> epsilon) {
  const auto ask = [&](const AccountantCall& call) {
    Account made = account(call, event, delta, epsilon);
    core::checked_guard(made.answer, call.name());
    return made;
  };
  return best_of(adjacency, catalog, ask, [](const Account& a, const Account& b) {
    return a.answer.value < b.answer.value;
  });
}

nlohmann::json to_json(const AccountantCall& call, const Account& account) {
  return {{"accountant", call.name()},
          {"adjacency", to_text(call.adjacency())},
          {"epsilon", core::json_number(account.epsilon)},
          {"delta", core::json_number(account.delta)},
          {"bound", to_text(account.answer.bound)},
          {"lower", lower_json(account.answer)},
          {"note", account.answer.note}};
}

namespace {

/// Returns the event to charge. Sample rate 1 gives an event without sampling, because some
/// accountants do not support sampling.
Event charged(const CalibrationQuestion& question, Event noise) {
  if (question.allocation)
    return Event::random_allocation(static_cast<std::int64_t>(*question.allocation),
                                    std::move(noise));
  if (*question.sample_rate == 1.0) return noise;
  return Event::poisson_sampled(*question.sample_rate, std::move(noise));
}

template <class Number>
nlohmann::json or_null(const std::optional<Number>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

}  // namespace

namespace {

bool takes(const AccountantCall& call, const Event& event) try {
  call.after(event);
  return true;
} catch (const PrivacyError&) {
  return false;
}

/// \param charge  the event to charge at noise multiplier 1; the estimator is used if it accepts
///   this event.
/// \param answer_of  returns an accountant's answer at a noise multiplier.
template <class AnswerOf>
double smallest_noise(const AccountantCall& call, const Event& charge, const AnswerOf& answer_of,
                      const CalibrationQuestion& question) {
  const double least = core::exposing_noise(question.target_epsilon);
  const auto proved_at = [&](double noise) {
    return core::checked_guard(answer_of(call, noise), call.name()).value;
  };
  const std::optional<AccountantCall> estimator = call.estimator();
  if (estimator && takes(*estimator, charge)) {
    try {
      return core::proved_scale([&](double noise) { return answer_of(*estimator, noise).value; },
                                proved_at, question.target_epsilon, least);
    } catch (const NumericError&) {  // the estimator may support fewer noise multipliers
    }
  }
  return core::smallest_scale(proved_at, question.target_epsilon, least);
}

}  // namespace

Calibration calibrate(const AccountantCall& call, const CalibrationQuestion& question) {
  check_question(question);
  // The number of steps that are charged together: 1, or a whole epoch.
  const std::uint64_t charged_steps = question.allocation.value_or(1);
  const auto answer_of = [&](const AccountantCall& by, double noise_multiplier,
                             std::uint64_t steps) {
    const std::uint64_t charges = (steps + charged_steps - 1) / charged_steps;
    const Event charge = charged(question, Event::gaussian(noise_multiplier));
    return core::checked(by.after(charge, charges)->epsilon(question.target_delta), by.name());
  };
  const auto answer = [&](double noise_multiplier, std::uint64_t steps) {
    return core::checked_guard(answer_of(call, noise_multiplier, steps), call.name());
  };
  Calibration made{
      question, question.noise_multiplier.value_or(0.0), question.steps.value_or(0), {}};
  if (question.steps) {
    made.noise_multiplier = smallest_noise(
        call, charged(question, Event::gaussian(1.0)),
        [&](const AccountantCall& by, double noise) { return answer_of(by, noise, made.steps); },
        question);
    if (made.noise_multiplier <= core::exposing_noise(question.target_epsilon))
      core::refuse_delta_that_pays(question.target_delta);
  } else {
    made.steps =
        charged_steps * core::largest_count(
                            [&](std::uint64_t candidate) {
                              return answer(made.noise_multiplier, charged_steps * candidate).value;
                            },
                            question.target_epsilon);
  }
  made.result = answer(made.noise_multiplier, made.steps);
  if (made.steps == 0) {
    made.result.note = "the budget does not allow a single step, which costs epsilon " +
                       core::short_bound(answer(made.noise_multiplier, 1).value);
  }
  return made;
}

std::pair<AccountantCall, Calibration> tightest_calibration(Adjacency adjacency,
                                                            const Catalog& catalog,
                                                            const CalibrationQuestion& question) {
  return best_of(
      adjacency, catalog, [&](const AccountantCall& call) { return calibrate(call, question); },
      [&](const Calibration& a, const Calibration& b) {
        return question.steps ? a.noise_multiplier < b.noise_multiplier : a.steps > b.steps;
      });
}

nlohmann::json to_json(const AccountantCall& call, const Calibration& calibration) {
  const CalibrationQuestion& question = calibration.question;
  return {{"noise_multiplier", calibration.noise_multiplier},
          {"steps", calibration.steps},
          {"sample_rate", or_null(question.sample_rate)},
          {"allocation", or_null(question.allocation)},
          {"epsilon", core::json_number(calibration.result.value)},
          {"delta", question.target_delta},
          {"target_epsilon", question.target_epsilon},
          {"bound", to_text(calibration.result.bound)},
          {"lower", lower_json(calibration.result)},
          {"accountant", call.name()},
          {"adjacency", to_text(call.adjacency())},
          {"note", calibration.result.note}};
}

}  // namespace privgrad::api
