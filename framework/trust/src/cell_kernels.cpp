#include "privgrad/trust/cell_kernels.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/normal_kernels.hpp"

namespace privgrad::core {
namespace {

PRIVGRAD_INLINE bool round_all(std::span<const float> numbers, double scale, double levels,
                               std::span<std::int32_t> cells) {
  std::int32_t misfits = 0;  // as wide as a cell, so that both fill vectors together
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double position = scale * static_cast<double>(numbers[i]);
    const bool fits = std::abs(position) <= levels;  // no number does not
    misfits |= fits ? 0 : 1;
    cells[i] = static_cast<std::int32_t>(fits ? position : 0.0);  // towards zero
  }
  return misfits == 0;
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
