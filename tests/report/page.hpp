// Extracts the charts and the visible text of a report page.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli.hpp"

/// Returns the fields of a line of CSV; texts without their quotes.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields{""};
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') is_quoted = !is_quoted;
    if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else if (c != '"') {
      fields.back() += c;
    }
  }
  return fields;
}

inline std::string percent_decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out +=
        text[i] == '%' ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (text[i] == '%') i += 2;
  }
  return out;
}

/// Returns the data of a chart's CSV link: its series, rows and lines.
inline Json chart_of_csv(const std::string& id, const std::string& csv) {
  Json chart{
      {"id", id}, {"series", Json::array()}, {"rows", Json::array()}, {"levels", Json::array()}};
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const bool has_rows = csv_fields(line).front() == "name";
  while (std::getline(lines, line)) {
    line.pop_back();  // CR
    const std::vector<std::string> fields = csv_fields(line);
    Json numbers = Json::array();
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const Json number = Json::parse(fields[i], nullptr, false);
      if (!fields[i].empty()) numbers.push_back(number.is_number() ? number : Json(fields[i]));
    }
    if (fields.front().starts_with("line: ")) {
      chart["levels"].push_back({fields.front().substr(6), numbers.back()});
    } else if (has_rows) {
      numbers.insert(numbers.begin(), fields.front());
      chart["rows"].push_back(numbers);
    } else {
      Json& series = chart["series"];
      if (series.empty() || series.back().at("name") != fields.front())
        series.push_back({{"name", fields.front()}, {"points", Json::array()}});
      series.back()["points"].push_back(numbers);
    }
  }
  return chart;
}

/// Returns the charts of a page, in their order.
inline Json chart_data(const std::string& page) {
  Json charts = Json::array();
  const std::string begin = "<a class=\"csv\" download=\"",
                    between = ".csv\" href=\"data:text/csv;charset=utf-8,";
  for (std::size_t at = 0; (at = page.find(begin, at)) != page.npos;) {
    at += begin.size();
    const std::size_t middle = page.find(between, at), data = middle + between.size();
    charts.push_back(chart_of_csv(page.substr(at, middle - at),
                                  percent_decoded(page.substr(data, page.find('"', data) - data))));
  }
  return charts;
}

/// Returns the chart with this id; null if the page has none.
inline Json chart(const std::string& page, const std::string& id) {
  for (const Json& one : chart_data(page)) {
    if (one.at("id") == id) return one;
  }
  return nullptr;
}

/// Returns the page without its style sheet: the visible text and its tags.
inline std::string visible(const std::string& page) { return page.substr(page.find("<body>")); }

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
