// DeferredCells for a program that adds up its cells in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "deferred_cells.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/trust/exact_sum.hpp"

namespace privgrad::core {

/// The certified cells of one pass, followed by the count of its examples if the sum has one.
class DeferredPass final : public DeferredCells {
 public:
  /// \returns the program, if it adds up cells in pieces; null if it does not, or if its pieces are
  ///   too large to stay in a cache (add_cells() is then just as fast).
  /// \throws PluginError if its pieces do not match its parameters.
  static const ExactClipping* in_pieces(const Program& program);

  /// \param program  its pass is in `memory`, made by make_cells(). Both are used as long as
  ///   this object lives, unless `memory` is reused for another pass: add() then throws.
  /// \param taken  [rows]: 0 leaves the example out.
  /// \param count  in cells; nothing if the sum has no count.
  DeferredPass(const ExactClipping& program, SumMemory& memory, std::span<const std::uint8_t> taken,
               std::optional<std::int64_t> count);

  std::span<const std::size_t> ends() const override { return ends_; }
  void add(std::size_t piece, std::span<std::int64_t> cells) const override;
  std::shared_ptr<ReleaseMemory> memory() const override { return memory_; }

 private:
  const ExactClipping& program_;
  ExactClipping::Pass& pass_;
  std::weak_ptr<const void> lent_;
  std::shared_ptr<ReleaseMemory> memory_;
  std::optional<std::int64_t> count_;
  std::vector<std::size_t> ends_;
};

}  // namespace privgrad::core
