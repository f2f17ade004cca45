#include "privgrad/trust/checked_answer.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace

PrivacyAnswer checked(PrivacyAnswer answer, std::string_view name) {
  const auto broken = [&](const std::string& what) {
    return PluginError("the accountant " + std::string(name) + " broke its contract: " + what);
  };
  // Written so that a NaN fails too.
  if (!(answer.value >= 0.0)) throw broken("it answered " + format_number(answer.value));
  if (answer.lower && !(*answer.lower <= answer.value)) {
    throw broken("its lower bound " + format_number(*answer.lower) + " is above its answer " +
                 format_number(answer.value));
  }
  answer.note = as_utf8(answer.note);
  return answer;
}

PrivacyAnswer checked_guard(PrivacyAnswer answer, std::string_view name) {
  if (answer.bound == BoundKind::estimate) {
    throw PrivacyError(
        "the accountant " + std::string(name) +
        " gives an estimate, not a bound, and cannot guard a budget; put it under privacy.also");
  }
  return checked(std::move(answer), name);
}

PrivacyAnswer of_charges_that_are_bounds(PrivacyAnswer answer) {
  if (answer.bound == BoundKind::exact) answer.bound = BoundKind::upper;
  answer.lower.reset();
  answer.note += std::string(answer.note.empty() ? "" : "; ") + "of charges that are upper bounds";
  return answer;
}

}  // namespace privgrad::core
