#include "privgrad/manifest/removed_components.hpp"

#include <variant>

#include "privgrad/manifest/yaml.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr RemovedComponent kRemoved[] = {
    {"aggregator", "privgrad.discrete_gaussian", "discrete_gaussian", "aggregator", "gaussian",
     "whose sums and noise are whole numbers, too"},
};

}  // namespace

const RemovedComponent* removed_component(std::string_view kind, std::string_view id) {
  for (const RemovedComponent& one : kRemoved) {
    const std::string full = std::string(one.plugin) + ":" + std::string(one.name);
    if (kind == one.kind && (id == one.name || id == full)) return &one;
  }
  return nullptr;
}

std::vector<const RemovedComponent*> removed_components_of(std::string_view text) {
  std::vector<const RemovedComponent*> named;
  std::vector<Problem> problems;
  const std::optional<Value> manifest = parse_yaml(text, problems);
  if (!manifest || !std::holds_alternative<Value::Object>(manifest->data())) return named;
  for (const RemovedComponent& one : kRemoved) {
    const Value* use = manifest->find(one.key);
    if (use == nullptr || !std::holds_alternative<Value::Object>(use->data())) continue;
    const Value* name = use->find("kind");
    const auto* id = name == nullptr ? nullptr : std::get_if<std::string>(&name->data());
    if (id != nullptr && removed_component(one.kind, *id) == &one) named.push_back(&one);
  }
  return named;
}

std::string to_text(const RemovedComponent& removed) {
  return std::string(removed.name) + " was removed; use " + std::string(removed.successor) + ", " +
         std::string(removed.why);
}

}  // namespace privgrad::core
