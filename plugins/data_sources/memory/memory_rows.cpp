#include "memory_rows.hpp"

#include <algorithm>
#include <utility>

#include "../table/columns.hpp"
#include "privgrad/error.hpp"

using namespace privgrad;

MemoryRows::MemoryRows(std::shared_ptr<const MemoryTable> table, std::string name)
    : table_(std::move(table)),
      name_(std::move(name)),
      rows_(table_->columns.front().offsets.size() - 1) {}

std::vector<std::string> MemoryRows::read_names() {
  std::vector<std::string> names;
  for (const MemoryColumn& column : table_->columns) {
    if (column.name.size() > kLongestName)
      fail("the name " + in_quotes(column.name) + " is longer than " +
           std::to_string(kLongestName) + " bytes");
    if (std::ranges::find(names, column.name) != names.end())
      fail("two columns have the name " + in_quotes(column.name));
    names.push_back(column.name);
  }
  return names;
}

bool MemoryRows::next() {
  if (++next_ > rows_) return false;
  row_.clear();
  for (const MemoryColumn& column : table_->columns) {
    const auto begin = static_cast<std::size_t>(column.offsets[next_ - 1]);
    const auto end = static_cast<std::size_t>(column.offsets[next_]);
    row_.emplace_back(column.bytes.data() + begin, end - begin);
  }
  fields_ = row_;
  return true;
}

std::string MemoryRows::misfit(std::size_t i, const Needs& needs) const {
  using Cells = MemoryColumn::Cells;
  const MemoryColumn& column = table_->columns[i];
  const bool fits = column.cells == Cells::texts ||
                    (column.cells == Cells::numbers && needs.takes_numbers) ||
                    (column.cells == Cells::days && needs.takes_days);
  if (fits) return "";
  return "the column " + in_quotes(column.name) + " holds " + column.type + ", expected " +
         needs.expected + ", which no value of this type is";
}

void MemoryRows::fail_at(std::size_t, const std::string& what) const { fail_at_row(what); }

void MemoryRows::fail_at_row(const std::string& what) const {
  throw IoError(name_ + ": row " + std::to_string(next_ - 1) + ": " + what);
}

void MemoryRows::fail(const std::string& what) const { throw IoError(name_ + ": " + what); }
