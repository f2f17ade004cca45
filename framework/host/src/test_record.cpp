#include "privgrad/host/test_record.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "data_home.hpp"
#include "open_file.hpp"
#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/error.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestRecord = 1 << 20;  // in bytes

Json parse(const fs::path& record) {
  const OpenFile opened(record);
  if (opened.size() > kLargestRecord) {
    throw PluginError("holds " + std::to_string(opened.size()) + " bytes; a record has at most " +
                      std::to_string(kLargestRecord));
  }
  std::string text(opened.size(), '\0');
  opened.read(0, text.data(), text.size());
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw PluginError("is not a record: not a JSON object");
  return json;
}

/// \throws PluginError if the record is of another version, file or suite, or lacks a component.
void check(const Json& json, const PluginIdentity& plugin, const std::vector<Factory>& offered) {
  if (json.value("record", 0) != 1) throw PluginError("is of another version than 1");
  if (const int suite = json.value("suite", 0); suite != kSuiteVersion) {
    throw PluginError("was made by version " + std::to_string(suite) +
                      " of the test suite, this is version " + std::to_string(kSuiteVersion));
  }
  if (json.value("sha256", std::string()) != plugin.sha256) {
    throw PluginError("is about another file: one whose sha256 is '" +
                      json.value("sha256", std::string()) + "'");
  }
  std::set<std::pair<std::string, std::string>> passed;
  for (const Json& component : json.at("components")) {
    if (component.at("conforms") == true)
      passed.emplace(component.at("kind"), component.at("name"));
  }
  for (const Factory& factory : offered) {
    if (passed.contains({factory.kind, factory.info.name})) continue;
    throw PluginError("does not say that " + factory.kind + " " + factory.info.name + " passed");
  }
}

}  // namespace

std::vector<fs::path> record_places(const fs::path& plugin, const std::string& sha256) {
  std::vector<fs::path> places{plugin.string() + ".tested.json"};
  if (const fs::path home = data_home(); !home.empty())
    places.push_back(home / "privgrad/tested" / (sha256 + ".json"));
  return places;
}

TestRecord find_test_record(const PluginIdentity& plugin, const std::vector<Factory>& offered) {
  TestRecord found;
  for (const fs::path& place : record_places(plugin.file, plugin.sha256)) {
    std::error_code failure;
    if (!fs::exists(fs::symlink_status(place, failure))) continue;
    std::string why;
    try {
      check(parse(core::resolve_trusted(place)), plugin, offered);
      return {place, ""};
    } catch (const PluginError& problem) {
      why = problem.what();
    } catch (const Json::exception&) {
      why = "is not a record of this version";
    } catch (const fs::filesystem_error& problem) {
      why = problem.code().message();
    }
    found.problem += (found.problem.empty() ? "" : "; ") + one_line(place.string() + ": " + why);
  }
  return found;
}

}  // namespace privgrad::host
