// For data sources that return their rows block by block, for more rows than fit in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>

#include "privgrad/data_source.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Consecutive rows of a split, in the source's order.
struct RowBlock {
  Split split = Split::train;
  /// [rows, features...], row-major; a byte stands for byte * scale. The same type in all blocks.
  std::variant<std::span<const float>, std::span<const std::uint8_t>> features;
  float scale = 1.0f;              ///< For bytes: the same in all blocks.
  std::span<const float> targets;  ///< [rows], rows > 0.
  /// The share of all reading that is done after this block, 0 to 1, for a progress display.
  double done = 0.0;
};

/// Optional ability of a data source: it passes its rows on while it reads them, so that there may
/// be more rows than fit in memory. The core writes the rows to a file, which a run then maps. The
/// source must also name its files(), so that the core can notice changed rows. The conformance
/// suite tests this ability.
///
/// Memory: one block of some megabytes, and at most one target for each row. Privacy:
/// like DataSource; the rows go only to the core. Threads: calls on one instance never
/// overlap.
class PRIVGRAD_API StreamedRows {
 public:
  virtual ~StreamedRows();
  StreamedRows(const StreamedRows&) = delete;
  StreamedRows& operator=(const StreamedRows&) = delete;

  /// Reads all rows once. Together they are exactly the rows that DataSource::read() returns for
  /// each split, bit for bit and in that order; blocks of the two splits may alternate. The caller
  /// need not call info().
  /// \param take  called on the calling thread; the numbers are valid until `take` returns.
  ///   stream() passes on exceptions that `take` throws.
  /// \returns what info() returns for these rows.
  /// \throws IoError as DataSource::info() and read().
  /// \throws ConfigError if these files or parameters do not allow streaming; the message says why.
  virtual DataInfo stream(const std::function<void(const RowBlock&)>& take) = 0;

 protected:
  StreamedRows() = default;
};

}  // namespace privgrad
