// Rows of texts from any source, from which tables are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/data_source.hpp"

/// Reads a table's rows, one after the other, each with as many fields as there are columns.
///
/// No message shows the content of a field.
class TextRows {
 public:
  virtual ~TextRows() = default;
  TextRows(const TextRows&) = delete;
  TextRows& operator=(const TextRows&) = delete;

  /// Called once, before next().
  /// \returns the names of the columns, each once.
  /// \throws IoError if there are no names, or if a name appears twice or is too long.
  virtual std::vector<std::string> read_names() = 0;
  /// Reads the next row.
  /// \returns false after the last row.
  virtual bool next() = 0;

  /// Returns the fields of the row that next() read; valid until the next call.
  std::span<const std::string_view> fields() const noexcept { return fields_; }
  std::string_view field(std::size_t i) const noexcept { return fields_[i]; }
  /// The kinds of values that a column must be able to contain, according to its declaration.
  struct Needs {
    bool takes_numbers = true, takes_days = true;
    std::string expected;  ///< "a finite number".
  };
  /// \returns why this column's type excludes every value that the column must be able to contain;
  ///   "" if it does not exclude every value. A single row may determine the type.
  virtual std::string misfit(std::size_t, const Needs&) const { return ""; }

  /// Whether this row spans more than one line of a file, or would if rows were not lines.
  virtual bool spans_lines() const noexcept { return false; }

  /// Returns the number of rows, if known or estimated; otherwise 0.
  virtual std::size_t likely_rows() const noexcept = 0;
  /// Returns how much of this part of a table has been read, in the unit of TablePart::size.
  virtual std::uint64_t read_so_far() const noexcept = 0;

  /// Returns the name of these rows in errors.
  virtual std::string name() const = 0;
  /// \throws IoError that points at a field of this row.
  virtual void fail_at(std::size_t field, const std::string& what) const = 0;
  /// \throws IoError that points at this row.
  virtual void fail_at_row(const std::string& what) const = 0;
  /// \throws IoError that names these rows.
  virtual void fail(const std::string& what) const = 0;

 protected:
  TextRows() = default;

  std::span<const std::string_view> fields_;  ///< Set by next().
};

/// Rows that can be read repeatedly; a table has one or more such parts.
struct TablePart {
  /// \param streams  whether rows are processed as they are read, so that memory never holds all
  ///   rows at once.
  std::function<std::unique_ptr<TextRows>(bool streams)> open;
  std::uint64_t size = 0;  ///< The approximate amount to read, in any unit.
  privgrad::RowOrigin origin = {};
};
