#include "privgrad/api/suggestion.hpp"

#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::api {

Draft with_suggestions(Value section, const std::string& kind, DataSource& source) {
  const std::optional<Value> suggested = source.suggest();
  if (!suggested) {
    throw ConfigError("data source " + kind +
                      " has no declarations; only tables (csv, memory) have suggestions");
  }
  for (const Value::Member& member : std::get<Value::Object>(suggested->data()))
    section.set(member.key, member.value);
  section.set("read_off_rows",
              Value::List{std::string("types, ranges, values and labels of columns")});
  return {std::move(section), source.notes()};
}

}  // namespace privgrad::api
