#include "privgrad/api/problem_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace privgrad::api {
namespace {

using Json = nlohmann::json;

/// Removes ":NUMBER" from the end of a place, and returns the number.
std::optional<int> take_number(std::string_view& place) {
  const std::size_t colon = place.rfind(':');
  if (colon == place.npos) return std::nullopt;
  int number = 0;
  const char* end = place.data() + place.size();
  const auto read = std::from_chars(place.data() + colon + 1, end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  place = place.substr(0, colon);
  return number;
}

void put_place(std::string_view place, Json& out) {
  constexpr std::string_view kSet = "--set ";
  if (place.starts_with(kSet)) {
    out["set"] = place.substr(kSet.size());
    return;
  }
  std::string_view file = place;
  const auto column = take_number(file);
  const auto line = column ? take_number(file) : std::nullopt;
  out["file"] = line ? file : place;
  if (!line) return;
  out["line"] = *line;
  out["column"] = *column;
}

/// Whether the text is a dotted key.
bool is_key(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

/// Returns the text after the first of these words that occurs in it.
template <std::size_t N>
Json after_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  for (const std::string_view word : words) {
    if (const std::size_t at = text.find(word); at != text.npos)
      return text.substr(at + word.size());
  }
  return nullptr;
}

/// Returns the name in "did you mean 'NAME'?", at the end.
Json nearest(std::string_view what) {
  constexpr std::string_view kBefore = "did you mean '", kAfter = "'?";
  const std::size_t at = what.rfind(kBefore);
  if (at == what.npos || !what.ends_with(kAfter)) return nullptr;
  const std::string_view name = what.substr(at + kBefore.size());
  return name.substr(0, name.size() - kAfter.size());
}

}  // namespace

Json problem_json(std::string_view line) {
  constexpr std::string_view kError = ": error: ";
  constexpr std::array<std::string_view, 5> kExpected{
      ", expected ", ", allowed are ", ", allowed is ", "; allowed are ", "; there are "};
  Json out{{"file", nullptr},  {"line", nullptr},    {"column", nullptr},   {"set", nullptr},
           {"where", nullptr}, {"message", nullptr}, {"expected", nullptr}, {"nearest", nullptr}};
  if (const std::size_t error = line.find(kError); error != line.npos) {
    put_place(line.substr(0, error), out);
    line.remove_prefix(error + kError.size());
    const std::size_t colon = line.find(": ");
    if (colon != line.npos && is_key(line.substr(0, colon))) {
      out["where"] = line.substr(0, colon);
      line.remove_prefix(colon + 2);
    }
  }
  out["message"] = line;
  out["expected"] = after_one_of(line, kExpected);
  out["nearest"] = nearest(line);
  return out;
}

}  // namespace privgrad::api
