#include "manifest_reader.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "manifest_values.hpp"
#include "privgrad/names.hpp"

namespace privgrad::core {
namespace {

Value stand_ins(const Section& section, Value given, const std::vector<Problem>& found) {
  for (const Problem& problem : found) {
    const std::string key = problem.where.substr(0, problem.where.find('.'));
    std::erase_if(std::get<Value::Object>(given.data()),
                  [&](const Value::Member& member) { return member.key == key; });
  }
  for (const ParamSpec& spec : section.params) {
    if (!spec.required || given.find(spec.name) != nullptr) continue;
    if (spec.type == ParamType::text) given.set(spec.name, spec.choices.front());
    if (spec.type == ParamType::integer) given.set(spec.name, 1);
    if (spec.type == ParamType::real) given.set(spec.name, 0.5);
  }
  return given;
}

}  // namespace

Value ManifestReader::section_node(const Section& section) {
  const Value* given = root_.find(section.key);
  if (given == nullptr) {
    // In an empty object, each required key is reported as missing, at the manifest's beginning.
    return empty_object(root_.mark);
  }
  if (std::holds_alternative<Value::Object>(given->data())) return *given;
  problems_.add(given->mark, section.key,
                "is " + std::string(given->type_name()) + ", expected an object");
  return empty_object(given->mark);
}

namespace {

/// Returns why the number of steps has a limit, if the number exceeds it; otherwise "".
std::string reason(const Section& section, const Value& given, const Problem& problem) {
  if (!section.key.empty() || problem.where != "steps") return "";
  const Value* steps = given.find("steps");
  const auto* count = steps != nullptr ? std::get_if<std::int64_t>(&steps->data()) : nullptr;
  if (count == nullptr || *count < 1) return "";
  return ", because a plan keeps some 300 bytes for each step";
}

}  // namespace

Params ManifestReader::own_params(const Section& section, const Value& node) {
  const auto& members = std::get<Value::Object>(node.data());
  Value::Object own;
  for (const Value::Member& member : members) {
    const auto is_own = [&](const ParamSpec& spec) { return spec.name == member.key; };
    if (std::ranges::any_of(section.params, is_own)) own.push_back(member);
  }
  Value given(std::move(own));
  given.mark = node.mark;
  std::vector<Problem> found;
  Params params = Params::check(section.params, given, found);
  if (found.empty()) return params;
  for (const Problem& problem : found) {
    problems_.add(problem.mark, dotted(section.key, problem.where),
                  problem.what + reason(section, given, problem));
  }
  return Params::make("stand-ins", section.params, stand_ins(section, given, found));
}

void ManifestReader::check_unknown(const Section& section, const Value& node,
                                   std::initializer_list<std::string_view> more) {
  std::vector<std::string> known(more.begin(), more.end());
  for (const std::string_view name : section_names(section)) known.emplace_back(name);
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const Value::Member& member : std::get<Value::Object>(node.data())) {
    if (std::ranges::binary_search(known, member.key)) continue;
    std::string hint = unknown_hint(member.key, section.key);
    if (hint.empty()) hint = nearest_or_all(member.key, known);
    problems_.add(member.key_mark, dotted(section.key, member.key), "is unknown" + hint);
  }
}

}  // namespace privgrad::core
