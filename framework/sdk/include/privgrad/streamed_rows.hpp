// For data sources that hand their rows on block by block, for more rows than fit in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>

#include "privgrad/data_source.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Some rows of a split, one behind the other in the source's order.
struct RowBlock {
  Split split = Split::train;
  /// [rows, features...], row-major; bytes mean byte * scale. Of one type in all blocks of a source.
  std::variant<std::span<const float>, std::span<const std::uint8_t>> features;
  float scale = 1.0f;              ///< For bytes: the same in all blocks.
  std::span<const float> targets;  ///< [rows], rows > 0.
  /// The share of all reading that is done with this block, 0 to 1, for a progress display.
  double done = 0.0;
};

/// Optional ability of a data source: it hands its rows on while it reads them, so that there may
/// be more of them than memory holds. The core writes them to a file, which a run then maps. The
/// source names its files(), too: the core notices by them that rows have changed. The conformance
/// suite tests it.
///
/// Memory: a block of some megabytes, and at most a target for each row.
/// Privacy: as DataSource; the rows go to the core alone.
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API StreamedRows {
 public:
  virtual ~StreamedRows();
  StreamedRows(const StreamedRows&) = delete;
  StreamedRows& operator=(const StreamedRows&) = delete;

  /// Reads all rows once. Together they are what DataSource::read() returns for each split, bit for bit
  /// and in that order; blocks of the two splits may take turns. Whoever calls it need not call
  /// info().
  /// \param take  called on the calling thread; the numbers are there until it returns. What it throws
  ///   comes out of stream().
  /// \returns what info() says of these rows.
  /// \throws IoError  as DataSource::info() and read().
  /// \throws ConfigError  these files or parameters do not allow it; it says which and why.
  virtual DataInfo stream(const std::function<void(const RowBlock&)>& take) = 0;

 protected:
  StreamedRows() = default;
};

}  // namespace privgrad
