#include "privgrad/manifest/component_use.hpp"

#include <utility>

#include "privgrad/trust/certified_accountant.hpp"

namespace privgrad::core {
namespace {

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

ManifestError::ManifestError(std::vector<std::string> lines)
    : ConfigError(join_lines(lines)), lines_(std::move(lines)) {}

std::string ComponentUse::place(std::string_view what) const {
  // During the calibration of one component's schedule, a different component may fail, and its
  // error already names the right place.
  if (what.find(": error: ") != what.npos) return std::string(what);
  return position + ": error: " + where + ": " + std::string(what);
}

ComponentPtr<Accountant> make_accountant(const ComponentUse& use) {
  return use.with_position(
      [&] { return make_accountant(*use.component, use.params, use.certifier); });
}

ComponentPtr<Accountant> make_guard(const ComponentUse& use) {
  return use.with_position([&] { return make_guard(*use.component, use.params, use.certifier); });
}

const std::string& name_of_prover(const ComponentUse& use) {
  return (use.certifier != nullptr ? use.certifier : use.component)->factory.info.name;
}

}  // namespace privgrad::core
