// DeferredCells for a program that adds its cells up in pieces.
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

/// The certified cells of one pass, with the count of its examples behind them where there is one.
class DeferredPass final : public DeferredCells {
 public:
  /// \returns the program's ability; null where it has none, or where pieces are too large to stay in
  ///   a cache (then add_cells() serves as well).
  /// \throws PluginError if its pieces are not those of its parameters.
  static const CellsInPieces* ability(const Program& program);

  /// \param program  whose pass is in `memory`, after make_cells(); it and `memory` are used until
  ///   this is gone, or `memory` is used for another pass: then add() throws.
  /// \param taken  [rows]: 0 takes an example out.
  /// \param count  in cells; none: the sum has no such element.
  DeferredPass(const CellsInPieces& program, SumMemory& memory, std::span<const std::uint8_t> taken,
               std::optional<std::int64_t> count);

  std::span<const std::size_t> ends() const override { return ends_; }
  void add(std::size_t piece, std::span<std::int64_t> cells) const override;
  std::shared_ptr<ReleaseMemory> memory() const override { return memory_; }

 private:
  const CellsInPieces& program_;
  ExactClipping::Pass& pass_;
  std::weak_ptr<const void> lent_;
  std::shared_ptr<ReleaseMemory> memory_;
  std::optional<std::int64_t> count_;
  std::vector<std::size_t> ends_;
};

}  // namespace privgrad::core
