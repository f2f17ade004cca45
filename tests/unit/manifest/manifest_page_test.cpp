// Checks that docs/manifest.md has a row for each declared key, with its default.

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "manifest_fixture.hpp"
#include "manifest_keys.hpp"
#include "privgrad/manifest/component_docs.hpp"

using namespace privgrad;
using namespace privgrad::core;

namespace {

/// Returns the defaults in the first table after the heading, by key.
std::map<std::string, std::string> table_behind(const std::string& heading) {
  const std::string page = read_file(kSource / "docs/manifest.md");
  const std::size_t begin = page.find("\n### " + heading + "\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(page.substr(page.find("\n| key |", begin) + 1));
  std::string line, cell;
  std::getline(lines, line);
  const bool has_types = line.starts_with("| key | type |");
  std::getline(lines, line);
  std::map<std::string, std::string> rows;
  while (std::getline(lines, line) && line.starts_with("| ")) {
    std::istringstream cells(line.substr(2));
    std::vector<std::string> row;
    while (std::getline(cells, cell, '|')) row.push_back(cell.substr(cell.find_first_not_of(' ')));
    for (std::string& one : row) {
      std::erase(one, '`');
      one.erase(one.find_last_not_of(' ') + 1);
    }
    rows.emplace(row[0], row[has_types ? 2 : 1]);
  }
  return rows;
}

/// Returns a default as a page writes it: 'off' is off, and 1.0 is 1.
std::string default_of(const ParamSpec& spec) {
  std::string text = default_text(spec);
  std::erase(text, '\'');
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

void check_table(const std::string& heading, const Section& section,
                 const std::set<std::string>& sections = {}) {
  INFO(heading);
  const auto rows = table_behind(heading);
  std::set<std::string> declared = sections, shown;
  for (const std::string_view name : section_names(section)) declared.emplace(name);
  for (const auto& [key, value] : rows) shown.insert(key);
  CHECK(shown == declared);
  for (const ParamSpec& spec : section.params) {
    INFO(spec.name);
    if (spec.default_value || spec.required) CHECK(rows.at(spec.name) == default_of(spec));
  }
  for (const Slot& slot : section.slots) {
    INFO(slot.key);
    if (!slot.default_name.empty()) CHECK(rows.at(std::string(slot.key)) == slot.default_name);
  }
}

}  // namespace

TEST_CASE("the page of manifests has every key, with its default", "[manifest_docs]") {
  check_table("At the top", root_section(),
              {"schedules", "privacy", "federated", "allow", "checkpoint"});
  check_table("`data`", data_section());
  check_table("`model`: weights and frozen layers", model_section());
  check_table("`aggregator`: arithmetic", aggregator_section());
  check_table("`schedules`", schedules_section());
  check_table("`privacy`", privacy_section());
  check_table("`federated`", federated_section());
  check_table("`allow`", allow_section());
}
