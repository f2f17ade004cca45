#include "privgrad/memory_tables.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

struct Tables {
  std::mutex mutex;
  std::map<std::string, MemoryTable, std::less<>> by_name;
};

/// Never destroyed, because the owner of the rows may be destroyed after this library's statics.
Tables& tables() {
  static auto* const all = new Tables;
  return *all;
}

}  // namespace

void lend_memory_table(const std::string& name, MemoryTable table) {
  Tables& all = tables();
  const std::lock_guard hold(all.mutex);
  if (!all.by_name.emplace(name, std::move(table)).second) {
    throw ConfigError("the table '" + name +
                      "' is lent already, to another call; give this one another name");
  }
}

bool take_memory_table(std::string_view name) {
  Tables& all = tables();
  MemoryTable taken;  // released without the lock
  const std::lock_guard hold(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) return false;
  taken = std::move(found->second);
  all.by_name.erase(found);
  return true;
}

std::optional<MemoryTable> find_memory_table(std::string_view name) {
  Tables& all = tables();
  const std::lock_guard hold(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) return std::nullopt;
  return found->second;
}

}  // namespace privgrad
