// Reads the reference values in tests/golden.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "support.hpp"

/// Replaces texts, which are numbers with 25 digits, by the nearest double.
inline nlohmann::json as_doubles(const nlohmann::json& value) {
  if (value.is_string()) return std::strtod(value.get<std::string>().c_str(), nullptr);
  if (!value.is_structured()) return value;
  nlohmann::json all = value;
  for (nlohmann::json& one : all) one = as_doubles(one);
  return all;
}

/// Reads the reference values of tests/golden, whose README explains how they were computed.
/// \returns {"orders": {name: list}, "entries": [...]}, where each entry is as in cases.jsonl, with
/// its `kind` and `tolerance`, the `components` of its schedule if it names one, `expected` as
/// doubles, and `expected_hp` as in the file, with texts if 25 digits are known.
inline nlohmann::json golden_values() {
  const std::filesystem::path folder = kSource / "tests/golden";
  std::ifstream definitions_file(folder / "definitions.json");
  REQUIRE(definitions_file);
  const auto definitions = nlohmann::json::parse(definitions_file);
  std::ifstream cases_file(folder / "cases.jsonl");
  REQUIRE(cases_file);
  auto entries = nlohmann::json::array();
  for (std::string line; std::getline(cases_file, line);) {
    auto entry = nlohmann::json::parse(line);
    const std::string id = entry.at("id");
    const std::string kind = id.substr(0, id.find('/'));
    auto& given = entry.at("inputs");
    if (given.contains("schedule")) {
      given["components"] = definitions.at("schedules").at(given.at("schedule").get<std::string>());
    }
    entry["kind"] = kind;
    entry["tolerance"] = definitions.at("tolerances").at(kind);
    entry["expected_hp"] = std::move(entry.at("expected"));
    entry["expected"] = as_doubles(entry["expected_hp"]);
    entries.push_back(std::move(entry));
  }
  return {{"orders", definitions.at("orders")}, {"entries", std::move(entries)}};
}
