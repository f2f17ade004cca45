// Contributions that are certified but not yet added up, so that sum and noise go piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace privgrad::core {

class ReleaseMemory;

/// Contributions to a sum that are known, certified, and not added up yet: that is done where they
/// are noised, piece by piece, so that their sum is never in memory as a whole. Private, like the
/// sum: only TrustBase takes them out of a BoundedOnGrid.
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
  /// \throws PrivacyError if the memory of the contributions has been used for others.
  virtual void add(std::size_t piece, std::span<std::int64_t> cells) const = 0;

  /// The memory for the released values. Not null.
  virtual std::shared_ptr<ReleaseMemory> memory() const = 0;

 protected:
  DeferredCells() = default;
};

}  // namespace privgrad::core
