// Splits a table into training and test rows by a hash of each row's content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"

/// Assigns each row of a table to one of two sides by a hash of only the row's content, not of its
/// place or of other rows. So adding or removing a row moves no other row, and if two data sets
/// differ by one added or removed row, only one side differs, in that row.
///
/// Equal rows (with `by`: rows that are equal in that column) are on the same side.
///
/// Source of the hash: SipHash-2-4 (Aumasson and Bernstein 2012), keyed by BLAKE2b of the seed.
class RowSplit {
 public:
  static std::vector<privgrad::ParamSpec> params();

  /// \param params  the object `split`.
  /// \param decimal_comma  whether numbers have a decimal comma.
  RowSplit(const privgrad::Params& params, bool decimal_comma);

  /// Chooses the columns to hash: the column `by`, or all columns sorted by name, so that their
  /// order in a file does not matter.
  /// \throws ConfigError if there is no such column.
  void use(const std::vector<std::string>& names);

  bool is_test(std::span<const std::string_view> row);

 private:
  std::uint64_t most_;  ///< Rows with a hash below it are test rows.
  bool decimal_comma_;
  std::optional<std::string> by_;
  std::array<unsigned char, 16> key_;
  std::vector<std::size_t> fields_;
  std::vector<unsigned char> text_;  ///< A buffer; its beginning is the text to hash.
};
