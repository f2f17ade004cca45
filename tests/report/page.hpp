// Extracts the charts and the visible text of a report page.
#pragma once

#include <string>

#include "cli.hpp"

/// The data of a page's charts.
inline Json chart_data(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"chart-data\">";
  const std::size_t at = page.find(begin);
  REQUIRE(at != page.npos);
  const std::size_t end = page.find("</script>", at);
  return Json::parse(page.substr(at + begin.size(), end - at - begin.size()));
}

/// The chart with this id; null if the page has none.
inline Json chart(const std::string& page, const std::string& id) {
  for (const Json& one : chart_data(page)) {
    if (one.at("id") == id) return one;
  }
  return nullptr;
}

/// The page without its scripts and styles: the visible text with its tags.
inline std::string visible(const std::string& page) {
  const std::size_t begin = page.find("<body>");
  return page.substr(begin, page.find("<script", begin) - begin);
}

inline std::string page_of(const Cli& cli, const std::string& run) {
  return read_file(cli.out(run) / "report.html");
}

/// A small run in the directory `run`.
/// \returns its page.
inline std::string page_of_run(const Cli& cli, Words more = {}, const std::string& run = "run") {
  for (const char* word : {"--out", run.c_str(), "--quiet"}) more.push_back(word);
  cli.on_manifest("run", more);
  return page_of(cli, run);
}

inline Json statement_of(const Cli& cli, const std::string& run = "run") {
  return Json::parse(read_file(cli.out(run) / "statement.json"));
}
