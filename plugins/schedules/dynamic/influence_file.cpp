#include "influence_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kMostRows = 1'000'000;

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

InfluenceEstimate row_of(std::string_view line, const std::string& place) {
  InfluenceEstimate row;
  const std::vector<std::string_view> cells = cells_of(line);
  const bool right =
      (cells.size() == 2 || cells.size() == 3) && parse(cells[0], row.step) &&
      parse(cells[1], row.influence) && std::isfinite(row.influence) &&
      (cells.size() == 2 || (parse(cells[2], row.standard_error) &&
                             std::isfinite(row.standard_error) && row.standard_error >= 0.0));
  if (right) return row;
  throw IoError(place +
                "expected STEP,INFLUENCE or STEP,INFLUENCE,STANDARD_ERROR: a whole number, "
                "a finite number, and a finite one that is not negative");
}

/// Checks the size before reading, because a line may be as long as its file, and pipes and devices
/// may never end.
void check_size(const std::filesystem::path& file) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure) || std::filesystem::is_other(file, failure))
    throw IoError(file.string() + ": is a directory, a device or a pipe, expected a file");
  const std::uintmax_t size = std::filesystem::file_size(file, failure);
  if (failure) throw IoError(file.string() + ": cannot be read: " + failure.message());
  if (size > kMostBytes) throw IoError(file.string() + ": is longer than 64 MiB, the most allowed");
}

}  // namespace

InfluenceFile read_influence_file(const std::filesystem::path& file) {
  check_size(file);
  std::ifstream in(file);
  if (!in) throw IoError(file.string() + ": cannot be read");
  InfluenceFile found;
  std::vector<InfluenceEstimate>& rows = found.rows;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with("# unaccounted")) found.is_unaccounted = true;
    if (line.empty() || line.front() == '#') continue;
    if (rows.empty() && line.starts_with("step,influence")) continue;
    const std::string place = file.string() + ":" + std::to_string(number) + ": ";
    const InfluenceEstimate row = row_of(line, place);
    if (!rows.empty() && row.step <= rows.back().step) {
      throw IoError(place + "step " + std::to_string(row.step) + " comes after step " +
                    std::to_string(rows.back().step) + ", expected rising steps");
    }
    if (rows.size() == kMostRows) throw IoError(place + "is row 1000001, allowed are 1000000");
    rows.push_back(row);
  }
  if (in.bad()) throw IoError(file.string() + ": cannot be read");
  if (rows.empty()) throw IoError(file.string() + ": holds no step's influence");
  return found;
}
