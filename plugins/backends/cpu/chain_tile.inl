// The tile of chains.cpp, which includes this once for each instruction set, in a namespace that
// has PRIVGRAD_TARGET, Vector, Mask, kLanes, kRows, kVectors, load, load_some, store, store_some,
// broadcast, zero, fused and mask_of.

/// kSome rows times kWide vectors of columns, of which the last has `tile.last` lanes if kPartial.
template <std::size_t kSome, std::size_t kWide, bool kPartial>
PRIVGRAD_TARGET void multiply_tile(const Tile& tile) {
  const Mask mask = mask_of(kPartial ? tile.last : kLanes);
  Vector sums[kSome][kWide];
  PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) {
      const bool partial = kPartial && v + 1 == kWide;
      if (tile.start.at_product) {
        const float* from = tile.product + r * tile.stride + v * kLanes;
        sums[r][v] = partial ? load_some(from, mask) : load(from);
      } else if (tile.start.of_columns != nullptr) {
        const float* from = tile.start.of_columns + v * kLanes;
        sums[r][v] = partial ? load_some(from, mask) : load(from);
      } else {
        sums[r][v] = tile.start.of_rows != nullptr ? broadcast(tile.start.of_rows + r) : zero();
      }
    }
  }
  const float* a = tile.a.data;
  const float* b = tile.b;
  const std::size_t inner = tile.inner, a_row = tile.a.row, a_step = tile.a.inner;
  const std::size_t b_step = tile.b_stride;
  for (std::size_t k = 0; k < inner; ++k, a += a_step, b += b_step) {
    Vector columns[kWide];
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) {
      const bool partial = kPartial && v + 1 == kWide;
      columns[v] = partial ? load_some(b + v * kLanes, mask) : load(b + v * kLanes);
    }
    PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
      const Vector factor = broadcast(a + r * a_row);
      PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) sums[r][v] =
          fused(factor, columns[v], sums[r][v]);
    }
  }
  PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) {
      float* to = tile.product + r * tile.stride + v * kLanes;
      if (kPartial && v + 1 == kWide) {
        store_some(to, mask, sums[r][v]);
      } else {
        store(to, sums[r][v]);
      }
    }
  }
}

/// Tiles by their rows - 1, vectors - 1, and whether the last is partial.
using Tiles = std::array<std::array<std::array<TileFunction, 2>, kVectors>, kRows>;

template <std::size_t kSome, std::size_t... kWide>
constexpr std::array<std::array<TileFunction, 2>, kVectors> tiles_of_rows(
    std::index_sequence<kWide...>) {
  return {{{multiply_tile<kSome, kWide + 1, false>, multiply_tile<kSome, kWide + 1, true>}...}};
}

template <std::size_t... kSome>
constexpr Tiles all_tiles(std::index_sequence<kSome...>) {
  return {tiles_of_rows<kSome + 1>(std::make_index_sequence<kVectors>())...};
}

inline TileFunction tile_of(std::size_t rows, std::size_t vectors, bool partial) {
  static constexpr Tiles kTiles = all_tiles(std::make_index_sequence<kRows>());
  return kTiles[rows - 1][vectors - 1][partial ? 1 : 0];
}
