// Rows of texts, wherever they are kept: what a table is read from.
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

/// A table's rows, one after the other, each of as many fields as it has columns.
///
/// No message shows the content of a field.
class TextRows {
 public:
  virtual ~TextRows() = default;
  TextRows(const TextRows&) = delete;
  TextRows& operator=(const TextRows&) = delete;

  /// Called once, before next().
  /// \returns the names of the columns, each once.
  /// \throws IoError  there are none, or a name appears twice or is too long.
  virtual std::vector<std::string> read_names() = 0;
  /// Reads the next row. \returns false behind the last.
  virtual bool next() = 0;

  /// The fields of the row that next() read; valid until the next call.
  std::span<const std::string_view> fields() const noexcept { return fields_; }
  std::string_view field(std::size_t i) const noexcept { return fields_[i]; }
  /// What a column must be able to hold, by what is declared of it.
  struct Needs {
    bool takes_numbers = true, takes_days = true;
    std::string expected;  ///< "a finite number".
  };
  /// \returns why, by its type alone, no value of this column can be one that is needed; "" if some
  ///   may. A single row may decide what type that is.
  virtual std::string misfit(std::size_t, const Needs&) const { return ""; }

  /// Whether this row goes over more than one line of a file, or would if rows were not lines.
  virtual bool spans_lines() const noexcept { return false; }

  /// The number of rows, if that is known or can be guessed; else 0.
  virtual std::size_t likely_rows() const noexcept = 0;
  /// How much of this part of a table has been read, in the unit of TablePart::size.
  virtual std::uint64_t read_so_far() const noexcept = 0;

  /// What errors call these rows.
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

/// Rows that can be read again and again; a table has one or more such parts.
struct TablePart {
  /// \param streams  whether the rows are taken as they come, and never all in memory.
  std::function<std::unique_ptr<TextRows>(bool streams)> open;
  std::uint64_t size = 0;  ///< How much there is to read, about, in any unit.
  privgrad::RowOrigin origin = {};
};
