// The tasks into which a batch is divided.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "privgrad/executor.hpp"

namespace privgrad::cpu {

/// Divides work by the size of the problem, never by the number of threads.
class Tasks {
 public:
  explicit Tasks(Executor& executor) : executor_(executor) {}

  /// Calls body(i) for each i < count.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& body) const {
    executor_.for_each_chunk(count, body);
  }

  /// Calls body(first row, rows) for each block.
  void for_each_block(std::size_t rows, std::size_t block,
                      const std::function<void(std::size_t, std::size_t)>& body) const {
    for_each((rows + block - 1) / block,
             [&](std::size_t i) { body(i * block, std::min(block, rows - i * block)); });
  }

  /// Calls body(first row, rows, first column, columns) for each tile; rows vary fastest.
  void for_each_tile(
      std::size_t rows, std::size_t tile_rows, std::size_t columns, std::size_t tile_columns,
      const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const {
    const std::size_t down = (rows + tile_rows - 1) / tile_rows;
    const std::size_t across = (columns + tile_columns - 1) / tile_columns;
    for_each(across * down, [&](std::size_t i) {
      const std::size_t row = i % down * tile_rows;
      const std::size_t column = i / down * tile_columns;
      body(row, std::min(tile_rows, rows - row), column, std::min(tile_columns, columns - column));
    });
  }

 private:
  Executor& executor_;
};

/// The approximate number of parameters that one task adds up: large enough to read the operands of
/// a product seldom, small enough to leave work for several threads.
constexpr std::size_t kProductPiece = 32768;

/// The number of examples that a task takes through consecutive layers that process no whole
/// batches.
constexpr std::size_t kExactBlock = 8;

}  // namespace privgrad::cpu
