#include "manifest_values.hpp"

#include <utility>

namespace privgrad::core {

std::string dotted(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
}

Value empty_object(Mark mark) {
  Value node{Value::Object{}};
  node.mark = mark;
  return node;
}

Value marked(Value value, const Value* given) {
  if (given != nullptr) value.mark = given->mark;
  return value;
}

Value without(Value object, std::string_view key) {
  std::erase_if(std::get<Value::Object>(object.data()),
                [&](const Value::Member& member) { return member.key == key; });
  return object;
}

void keep(Value& resolved, const std::vector<ParamSpec>& declared, const Value& values) {
  for (const ParamSpec& spec : declared)
    if (const Value* value = values.find(spec.name)) resolved.set(spec.name, *value);
}

}  // namespace privgrad::core
