#include "table.hpp"

#include <algorithm>

#include "terminal_text.hpp"

namespace privgrad::tool {

std::size_t character_count(const std::string& text) {
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = terminal_line(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], character_count(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - character_count(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == Align::right ? fill + row[i] : row[i] + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace privgrad::tool
