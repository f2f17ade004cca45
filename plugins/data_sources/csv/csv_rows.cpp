#include "csv_rows.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "../files/shown_text.hpp"
#include "../table/columns.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

using Names = std::vector<std::string>;

std::string delimiter_hint(const CsvForm& form) {
  return "separated by " + in_quotes(std::string_view(&form.dialect.delimiter, 1)) +
         "; data.delimiter says what separates them";
}

/// \returns whether a file, read in this form, has the column, and the number of its columns; false
///   and 0 if one of its first rows has a different number of fields.
std::pair<bool, std::size_t> columns_by(const std::filesystem::path& file, const CsvForm& form,
                                        const std::string& column) {
  constexpr int kRows = 100;
  CsvReader reader(file, form.dialect, std::numeric_limits<std::uint64_t>::max());
  std::size_t columns = 0;
  bool has_column = false;
  try {
    for (int row = 0; row < kRows && reader.next(); ++row) {
      if (row > 0 && reader.fields().size() != columns) return {};
      columns = reader.fields().size();
      has_column = has_column || (row == 0 && std::ranges::count(reader.fields(), column) > 0);
    }
  } catch (const IoError&) {
    return {};  // the file does not have this form
  }
  return {has_column, columns};
}

}  // namespace

char likely_delimiter(const std::filesystem::path& file, const CsvForm& form,
                      const std::string& column) {
  CsvReader reader(file, form.dialect, std::numeric_limits<std::uint64_t>::max());
  if (!reader.next() || std::ranges::count(reader.fields(), column) > 0 ||
      (!form.header && reader.fields().size() > 1)) {
    return form.dialect.delimiter;
  }
  std::pair<bool, std::size_t> most{false, reader.fields().size()};
  char likely = form.dialect.delimiter;
  for (const char* delimiter : kDelimiters) {
    CsvForm other = form;
    other.dialect.delimiter = *delimiter;
    if (const auto columns = columns_by(file, other, column); columns > most) {
      most = columns;
      likely = *delimiter;
    }
  }
  return likely;
}

bool can_fill_malformed(const CsvForm& form) { return form.header && !form.dialect.comment; }

CsvRows::CsvRows(const std::filesystem::path& file, const CsvForm& form, std::uint64_t most_bytes)
    : form_(form), reader_(file, form.dialect, most_bytes) {}

Names CsvRows::read_names() {
  if (!reader_.next()) reader_.fail("holds no rows");
  Names names;
  bool only_numbers = true;
  for (std::size_t i = 0; i < reader_.fields().size(); ++i) {
    names.emplace_back(form_.header ? std::string(reader_.fields()[i]) : std::to_string(i));
    only_numbers = only_numbers && number_in(reader_.fields()[i], form_.decimal_comma).has_value();
    if (const std::string wrong = encoding_problem(names.back()); !wrong.empty())
      reader_.fail_at(i, "the name of column " + std::to_string(i + 1) + " " + wrong);
    if (names.back().size() > kLongestName)
      reader_.fail_at(i, "the name is longer than " + std::to_string(kLongestName) + " bytes");
  }
  if (form_.header && only_numbers) {
    reader_.fail_at_row("the first line holds numbers only; say header: false if it names nothing");
  }
  if (form_.header) check_names(names);
  if (names.size() < 2 && form_.has_targets) {
    reader_.fail_at_row("has 1 column, expected the target and at least one feature, " +
                        delimiter_hint(form_));
  }
  columns_ = names.size();
  if (form_.fills_malformed) reader_.fill_malformed(columns_);
  is_at_first_row_ = !form_.header;
  return names;
}

bool CsvRows::next() {
  const bool is_there = is_at_first_row_ || reader_.next();
  is_at_first_row_ = false;
  fields_ = reader_.fields();
  if (is_there) check_size();
  return is_there;
}

void CsvRows::check_names(const Names& names) const {
  Names sorted = names;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return;
  const auto first = std::ranges::find(names, *twice);
  const auto second = std::find(first + 1, names.end(), *twice);
  reader_.fail_at(static_cast<std::size_t>(second - names.begin()),
                  "the name " + in_quotes(*twice) + " is here for the second time");
}

void CsvRows::check_size() const {
  const std::string expected = std::to_string(columns_);
  if (reader_.fields().size() == columns_) return;
  if (reader_.is_blank())
    reader_.fail_at_row("the line is blank, expected " + expected + " fields");
  reader_.fail_at_row("the row has " + std::to_string(reader_.fields().size()) +
                      " field(s), expected " + expected + ", " + delimiter_hint(form_) +
                      ", and data.malformed what becomes of such a row");
}
