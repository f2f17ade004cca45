#include "record.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/test_record.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using privgrad::testing::Finding;
using privgrad::testing::Verdict;

/// Returns today's date, or SOURCE_DATE_EPOCH for reproducible builds (reproducible-builds.org).
std::string date() {
  std::time_t now = std::time(nullptr);
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) now = std::strtoll(fixed, nullptr, 10);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json component_json(const Examined& examined) {
  Json passed = Json::array();
  Json skipped = Json::array();
  for (const Finding& finding : examined.findings) {
    if (finding.verdict == Verdict::passed) passed.push_back(finding.rule);
    if (finding.verdict == Verdict::skipped)
      skipped.push_back({{"rule", finding.rule}, {"because", finding.detail}});
  }
  Json json{{"kind", examined.component.kind},
            {"name", examined.component.name},
            {"conforms", is_examined(examined)},
            {"passed", std::move(passed)},
            {"skipped", std::move(skipped)}};
  if (!examined.params.empty()) json["params"] = examined.params;
  return json;
}

std::string record_text(const LoadedPlugin& plugin, const std::vector<Examined>& all) {
  Json components = Json::array();
  for (const Examined& examined : all) components.push_back(component_json(examined));
  const Json json{
      {"record", 1},
      {"plugin", plugin.name},
      {"version", plugin.version},
      {"sha256", plugin.sha256},
      {"abi", plugin.abi},
      {"privgrad", PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
                       PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH)},
      {"suite", host::kSuiteVersion},
      {"date", date()},
      {"components", std::move(components)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

bool is_examined(const Examined& examined) {
  const auto created = std::ranges::find_if(
      examined.findings, [](const Finding& one) { return one.rule == "is_created"; });
  return privgrad::testing::conforms(examined.findings) && created != examined.findings.end() &&
         created->verdict == Verdict::passed;
}

Recorded write_record(const LoadedPlugin& plugin, const std::vector<Examined>& all, bool is_whole) {
  const std::vector<fs::path> places = host::record_places(plugin.file, plugin.sha256);
  const bool broken = std::ranges::any_of(all, [](const Examined& examined) {
    return !privgrad::testing::conforms(examined.findings);
  });
  if (broken) {
    std::error_code absent;
    for (const fs::path& place : places) fs::remove(place, absent);
    return {{}, "a promise is broken"};
  }
  if (!is_whole) return {{}, "only some rules were checked"};
  for (const Examined& examined : all) {
    if (is_examined(examined)) continue;
    return {{}, examined.component.full_name + " was not examined; give it --params"};
  }
  // Like a plugin, a record does not count if other users may write to it.
  ::umask(S_IWGRP | S_IWOTH);
  const std::string text = record_text(plugin, all);
  std::string problem;
  for (const fs::path& place : places) {
    try {
      std::error_code exists;
      fs::create_directories(place.parent_path(), exists);
      core::write_atomically(place, text);
      return {place, ""};
    } catch (const IoError& failure) {
      problem += (problem.empty() ? "" : "; ") + std::string(failure.what());
    }
  }
  throw IoError("the record of the test: " + problem);
}

}  // namespace privgrad::tool
