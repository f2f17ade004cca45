// Certified contributions that are not yet added up, so that they can be summed and noised piece by
// piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace privgrad::core {

class ReleaseMemory;

/// Contributions to a sum that are computed and certified, but not yet added up. They are added
/// piece by piece as they are noised, so their whole sum is never in memory. Private, like the sum:
/// only TrustBase takes them out of a BoundedOnGrid.
///
/// Threads: pieces may be added at the same time.
class DeferredCells {
 public:
  virtual ~DeferredCells() = default;
  DeferredCells(const DeferredCells&) = delete;
  DeferredCells& operator=(const DeferredCells&) = delete;

  /// The ends of the pieces, ascending: the last is the size of the sum. Not empty.
  virtual std::span<const std::size_t> ends() const = 0;

  /// cells += the elements of a piece, modulo 2^64.
  /// \param cells  [size of the piece].
  /// \throws PrivacyError if the memory of the contributions has been reused.
  virtual void add(std::size_t piece, std::span<std::int64_t> cells) const = 0;

  /// The memory for the released values; not null.
  virtual std::shared_ptr<ReleaseMemory> memory() const = 0;

 protected:
  DeferredCells() = default;
};

}  // namespace privgrad::core
