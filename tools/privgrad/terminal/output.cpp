#include "output.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "privgrad/error.hpp"
#include "terminal_text.hpp"

namespace privgrad::tool {
namespace {

bool is_positioned(std::string_view line) {
  return line.find(": error: ") != std::string_view::npos;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void write_error(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);  // a failure here cannot be reported
}

void write_out(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw IoError("standard output: could not be written");
  }
}

/// Returns bold red for errors, and bold yellow for warnings.
std::string sgr_of(std::string_view kind) {
  return kind == "error" ? "\033[1;31m" : kind == "warning" ? "\033[1;33m" : "\033[1m";
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

void print(std::string_view text) { write_out(terminal_text(text)); }

void print_coloured(std::string_view text, std::string_view colour) {
  const std::string shown = terminal_text(text);
  write_out(use_colour(STDOUT_FILENO) ? "\033[" + std::string(colour) + "m" + shown + "\033[0m"
                                      : shown);
}

void print_json(const nlohmann::json& document) {
  // Invalid bytes are replaced, because file names need not be UTF-8.
  write_out(terminal_json(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) +
            "\n");
}

namespace {

/// Returns the prefix of this process in complaints; "" if there is only one process.
std::string& speaker() {
  static std::string who;
  return who;
}

}  // namespace

void speak_as(std::string who) { speaker() = std::move(who); }

void complain(std::string_view kind, std::string_view text) {
  std::string head = "privgrad: " + std::string(kind) + ":";
  if (use_colour(STDERR_FILENO)) head = sgr_of(kind) + head + "\033[0m";
  write_error(head + " " + speaker() + terminal_line(text) + "\n");
}

void report_failure(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  for (const std::string_view line : lines) {
    const bool is_row = line.starts_with("  ") && &line != &lines.front();  // a row of a table
    if (!is_positioned(line) && !is_row) return complain("error", text);
  }
  for (const std::string_view line : lines) write_error(terminal_line(line) + "\n");
}

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) == 1 && std::string_view(environment("TERM")) != "dumb";
}

bool use_colour(int descriptor) {
  return is_terminal(descriptor) && *environment("NO_COLOR") == '\0';
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

std::string fixed_text(double value, int decimals) {
  return core::number_text(value, std::chars_format::fixed, decimals);
}

std::string duration_text(double seconds) {
  // 99:59:59, about four days; longer estimates are not informative
  constexpr double kMost = 359999.0;
  const auto whole = static_cast<long>(std::ceil(std::clamp(seconds, 0.0, kMost)));
  char text[32];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000.0;
  return fixed_text(bytes, unit == 0 || bytes >= 99.95 ? 0 : 1) + " " + kUnits[unit];
}

}  // namespace privgrad::tool
