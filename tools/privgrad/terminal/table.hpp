// Prints tables as text with aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace privgrad::tool {

/// Text in aligned columns, two spaces apart.
class Table {
 public:
  enum class Align { left = 1, right };

  /// \param columns  the alignment of each column; a row may have fewer cells but never more.
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  /// Each cell is one line: characters that steer a terminal become '?' (terminal_line()).
  void add(std::vector<std::string> cells);
  bool empty() const noexcept { return rows_.empty(); }

  /// Returns the rows, each indented by `indent` spaces and without trailing blanks.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};
using Align = Table::Align;

/// \returns the number of characters of UTF-8 text; terminals show most of them one cell wide.
std::size_t character_count(const std::string& text);

}  // namespace privgrad::tool
