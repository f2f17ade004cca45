#include "matrix.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "privgrad/instruction_set.hpp"

namespace privgrad::cpu {
namespace {

constexpr std::size_t kPanel = PanelMatrix::kPanel;

struct Product {
  std::size_t count, inner, outer;
  const float* rows;
  const float* panels;
  float* products;
};

// The functions below must be inlined into those that choose the instruction set, or they would be
// compiled for the portable one.
#define PRIVGRAD_INLINE [[gnu::always_inline]] inline

/// kRows rows times one panel, from row `first` on. kLanes floats fill one vector register.
template <std::size_t kLanes, std::size_t kRows>
PRIVGRAD_INLINE void multiply_tile(const Product& p, std::size_t first, std::size_t panel) {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr std::size_t kVectors = kPanel / kLanes;
  Vector sums[kRows][kVectors] = {};
  const float* columns = p.panels + panel * p.inner * kPanel;
  for (std::size_t k = 0; k < p.inner; ++k, columns += kPanel) {
    Vector column[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      std::memcpy(&column[v], columns + v * kLanes, sizeof(Vector));
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const float factor = p.rows[(first + r) * p.inner + k];
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] += factor * column[v];
    }
  }
  const std::size_t width = std::min(kPanel, p.outer - panel * kPanel);
  for (std::size_t r = 0; r < kRows; ++r) {
    float* product = p.products + (first + r) * p.outer + panel * kPanel;
    std::memcpy(product, sums[r], width * sizeof(float));
  }
}

template <std::size_t kLanes, std::size_t kRows>
PRIVGRAD_INLINE void multiply_panels(const Product& p) {
  for (std::size_t panel = 0; panel * kPanel < p.outer; ++panel) {
    std::size_t row = 0;
    for (; row + kRows <= p.count; row += kRows) multiply_tile<kLanes, kRows>(p, row, panel);
    for (; row < p.count; ++row) multiply_tile<kLanes, 1>(p, row, panel);
  }
}

using Kernel = void (*)(const Product&);

void multiply_portable(const Product& p) { multiply_panels<4, 2>(p); }

#ifdef __x86_64__
[[gnu::target("avx2")]] void multiply_avx2(const Product& p) { multiply_panels<8, 4>(p); }

Kernel best_kernel() {
  return instruction_set() >= InstructionSet::avx2 ? multiply_avx2 : multiply_portable;
}
#else
Kernel best_kernel() { return multiply_portable; }
#endif

std::size_t panel_count(std::size_t outer) { return (outer + kPanel - 1) / kPanel; }

}  // namespace

PanelMatrix::PanelMatrix(std::size_t inner, std::size_t outer)
    : inner_(inner), outer_(outer), panels_(panel_count(outer) * inner * kPanel) {}

void PanelMatrix::assign(std::span<const float> matrix) {
  assert(matrix.size() == inner_ * outer_);
  for (std::size_t j = 0; j < outer_; ++j) {
    float* column = panels_.data() + j / kPanel * inner_ * kPanel + j % kPanel;
    for (std::size_t k = 0; k < inner_; ++k) column[k * kPanel] = matrix[k * outer_ + j];
  }
}

void PanelMatrix::assign_transposed(std::span<const float> matrix) {
  assert(matrix.size() == inner_ * outer_);
  for (std::size_t j = 0; j < outer_; ++j) {
    float* column = panels_.data() + j / kPanel * inner_ * kPanel + j % kPanel;
    for (std::size_t k = 0; k < inner_; ++k) column[k * kPanel] = matrix[j * inner_ + k];
  }
}

void PanelMatrix::multiply(std::size_t count, std::span<const float> rows,
                           std::span<float> products) const {
  assert(rows.size() >= count * inner_ && products.size() >= count * outer_);
  best_kernel()({count, inner_, outer_, rows.data(), panels_.data(), products.data()});
}

}  // namespace privgrad::cpu
