// The part of a vector that one process of a cluster has.
#pragma once

#include <cstddef>

namespace privgrad::core {

/// The elements of a vector that a process has.
struct Slice {
  std::size_t first = 0;
  std::size_t size = 0;  ///< 0: none of them.
  std::size_t of = 0;    ///< Elements of the whole vector.
};

}  // namespace privgrad::core
