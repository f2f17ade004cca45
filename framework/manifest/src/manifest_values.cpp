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

void keep(Value& resolved, const Params& params, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const Value* value = params.value().find(name)) resolved.set(name, *value);
  }
}

}  // namespace privgrad::core
