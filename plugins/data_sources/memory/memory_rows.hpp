// The rows of a table that is lent as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../table/text_rows.hpp"
#include "privgrad/memory_tables.hpp"

/// Rows lent as columns. Messages have the form "memory: train: row 17: ...", counted from 0.
class MemoryRows final : public TextRows {
 public:
  /// \param table  has columns, all with the same number of rows.
  MemoryRows(std::shared_ptr<const privgrad::MemoryTable> table, std::string name);

  std::vector<std::string> read_names() override;
  bool next() override;
  std::string misfit(std::size_t i, const Needs& needs) const override;
  std::size_t likely_rows() const noexcept override { return rows_; }
  std::uint64_t read_so_far() const noexcept override { return next_; }

  std::string name() const override { return name_; }
  void fail_at(std::size_t field, const std::string& what) const override;
  void fail_at_row(const std::string& what) const override;
  void fail(const std::string& what) const override;

 private:
  std::shared_ptr<const privgrad::MemoryTable> table_;
  std::string name_;
  std::size_t rows_;
  std::size_t next_ = 0;  ///< The number of the next row.
  std::vector<std::string_view> row_;
};
