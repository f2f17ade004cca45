// The part of a vector that one process of a cluster holds.
#pragma once

#include <cstddef>

namespace privgrad::core {

/// The elements of a vector that a process holds.
struct Slice {
  std::size_t first = 0;
  std::size_t size = 0;  ///< 0 if the process holds no elements.
  std::size_t of = 0;    ///< Size of the whole vector.
};

}  // namespace privgrad::core
