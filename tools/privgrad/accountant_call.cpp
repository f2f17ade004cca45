#include "accountant_call.hpp"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "privgrad/manifest/yaml.hpp"
#include "privgrad/trust/certified_accountant.hpp"

namespace privgrad::tool {
namespace {

/// What --accountant holds: a name, or an object in YAML's flow style with the parameters.
Value accountant_value(const std::string& text) {
  std::vector<Problem> problems;
  std::optional<Value> value = core::parse_yaml(text, problems);
  if (!problems.empty() || !value) {
    throw UsageError("--accountant: " +
                     (problems.empty() ? "cannot be read" : problems.front().what));
  }
  if (std::holds_alternative<std::string>(value->data())) {
    Value object;
    object.set("kind", *value);
    return object;
  }
  const Value* kind = value->find("kind");
  if (kind == nullptr || !std::holds_alternative<std::string>(kind->data())) {
    throw UsageError("--accountant: write a name, or {kind: NAME, PARAMETER: VALUE}");
  }
  return *std::move(value);
}

const std::string& required_accountant(const Arguments& arguments) {
  if (!arguments.has("accountant")) throw UsageError("--accountant NAME is missing");
  return arguments.text("accountant");
}

}  // namespace

Option accountant_option() {
  return {.name = "accountant",
          .value = "NAME",
          .doc = "Who accounts: a name, or with parameters '{kind: zcdp, conversion: classic}'."};
}

Option adjacency_option() {
  return {.name = "adjacency",
          .value = "A",
          .doc = "add_or_remove_one (default), replace_one or zero_out."};
}

AccountantCall::AccountantCall(const Arguments& arguments, const Catalog& catalog)
    : AccountantCall(required_accountant(arguments),
                     arguments.has("adjacency") ? adjacency_from_text(arguments.text("adjacency"))
                                                : Adjacency::add_or_remove_one,
                     catalog) {}

AccountantCall::AccountantCall(const std::string& accountant, Adjacency adjacency,
                               const Catalog& catalog)
    : adjacency_(adjacency), catalog_(&catalog) {
  const Value value = accountant_value(accountant);
  component_ = &catalog.find<Accountant>(std::get<std::string>(value.find("kind")->data()));
  certifier_ = core::certifier_of(*component_, catalog);
  std::vector<Problem> problems;
  params_ = Params::check(component_->factory.info.params, value, problems, {"kind"});
  if (!problems.empty()) {
    throw UsageError("--accountant: " + problems.front().where + ": " + problems.front().what);
  }
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
    throw PrivacyError(name() + ": " +
                       core::with_alternatives(*why, event, adjacency_, *catalog_, *component_));
  }
  accountant->compose(event, count);
  return accountant;
}

double number_in(const std::string& option, const std::string& text, double low, double high,
                 bool include_low) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || !std::isfinite(value) || value >= high ||
      (include_low ? value < low : value <= low)) {
    throw UsageError("--" + option + " is '" + text + "', allowed is " + (include_low ? "[" : "(") +
                     format_number(low) + ", " + format_number(high) + ")");
  }
  return value;
}

}  // namespace privgrad::tool
