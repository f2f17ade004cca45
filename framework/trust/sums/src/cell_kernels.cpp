#include "privgrad/trust/cell_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/normal_kernels.hpp"

namespace privgrad::core {
namespace {

/// Each loop uses numbers of one width, so vector registers fill without shuffles.
PRIVGRAD_INLINE bool round_all(std::span<const float> numbers, double scale, double levels,
                               std::span<std::int32_t> cells) {
  std::array<double, CellKernels::kBlock> positions;
  bool fits = true;
  for (std::size_t begin = 0; begin < numbers.size(); begin += positions.size()) {
    const std::size_t size = std::min(positions.size(), numbers.size() - begin);
    const float* from = numbers.data() + begin;
    std::int32_t* to = cells.data() + begin;
    std::uint64_t misfits = 0;
    for (std::size_t i = 0; i < size; ++i) {
      positions[i] = scale * static_cast<double>(from[i]);
      misfits |= std::abs(positions[i]) <= levels ? 0u : 1u;  // false for NaN
    }
    if (misfits != 0) {
      fits = false;
      for (std::size_t i = 0; i < size; ++i)
        positions[i] = std::abs(positions[i]) <= levels ? positions[i] : 0.0;
    }
    for (std::size_t i = 0; i < size; ++i)
      to[i] = static_cast<std::int32_t>(positions[i]);  // rounds towards zero
  }
  return fits;
}

PRIVGRAD_INLINE void add_all(std::span<const std::int32_t> cells, std::span<std::int64_t> sum) {
  for (std::size_t i = 0; i < cells.size(); ++i) sum[i] += cells[i];
}

PRIVGRAD_INLINE std::uint64_t squares_of_all(std::span<const std::int32_t> cells) {
  std::uint64_t squares = 0;
  for (std::size_t i = 0; i < cells.size(); ++i)
    squares += static_cast<std::uint64_t>(std::int64_t{cells[i]} * std::int64_t{cells[i]});
  return squares;
}

bool round_plain(std::span<const float> numbers, double scale, double levels,
                 std::span<std::int32_t> cells) {
  return round_all(numbers, scale, levels, cells);
}

void add_plain(std::span<const std::int32_t> cells, std::span<std::int64_t> sum) {
  add_all(cells, sum);
}

std::uint64_t squares_plain(std::span<const std::int32_t> cells) { return squares_of_all(cells); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool round_avx2(std::span<const float> numbers, double scale, double levels,
                                        std::span<std::int32_t> cells) {
  return round_all(numbers, scale, levels, cells);
}

[[gnu::target("avx2")]] void add_avx2(std::span<const std::int32_t> cells,
                                      std::span<std::int64_t> sum) {
  add_all(cells, sum);
}

[[gnu::target("avx2")]] std::uint64_t squares_avx2(std::span<const std::int32_t> cells) {
  return squares_of_all(cells);
}

[[gnu::target("avx512f,avx512dq,avx512vl")]] bool round_avx512(std::span<const float> numbers,
                                                               double scale, double levels,
                                                               std::span<std::int32_t> cells) {
  return round_all(numbers, scale, levels, cells);
}

[[gnu::target("avx512f,avx512dq,avx512vl")]] void add_avx512(std::span<const std::int32_t> cells,
                                                             std::span<std::int64_t> sum) {
  add_all(cells, sum);
}

[[gnu::target("avx512f,avx512dq,avx512vl")]] std::uint64_t squares_avx512(
    std::span<const std::int32_t> cells) {
  return squares_of_all(cells);
}
#endif

std::vector<CellKernels> find_kernels() {
  std::vector<CellKernels> found;
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512)
    found.push_back({"avx512", round_avx512, add_avx512, squares_avx512});
  if (instruction_set() >= InstructionSet::avx2)
    found.push_back({"avx2", round_avx2, add_avx2, squares_avx2});
#endif
  found.push_back({"plain", round_plain, add_plain, squares_plain});
  return found;
}

}  // namespace

std::span<const CellKernels> cell_kernels() {
  static const std::vector<CellKernels> kernels = find_kernels();
  return kernels;
}

}  // namespace privgrad::core
