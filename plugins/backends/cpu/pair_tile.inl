// The tile of cells.cpp, which includes this once for each instruction set, in a namespace that has
// PRIVGRAD_TARGET, Vector, kLanes, kRows, kVectors, load, store, broadcast, zero and dot.

/// kSome rows of units times kWide vectors of inputs.
template <std::size_t kSome, std::size_t kWide>
PRIVGRAD_TARGET void multiply_tile(std::size_t pairs, const std::uint32_t* units,
                                   const std::uint32_t* inputs, std::int32_t* products,
                                   std::size_t stride) {
  Vector sums[kSome][kWide];
  PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) sums[r][v] = zero();
  }
  for (std::size_t p = 0; p < pairs; ++p, units += kUnitTile, inputs += kInputTile) {
    Vector columns[kWide];
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) columns[v] =
        load(inputs + v * kLanes);
    PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
      const Vector factor = broadcast(units + r);
      PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) sums[r][v] =
          dot(sums[r][v], factor, columns[v]);
    }
  }
  PRIVGRAD_UNROLLED for (std::size_t r = 0; r < kSome; ++r) {
    PRIVGRAD_UNROLLED for (std::size_t v = 0; v < kWide; ++v) {
      store(products + r * stride + v * kLanes, sums[r][v]);
    }
  }
}

using TileFunction = void (*)(std::size_t, const std::uint32_t*, const std::uint32_t*,
                              std::int32_t*, std::size_t);

template <std::size_t kSome, std::size_t... kWide>
constexpr std::array<TileFunction, kVectors> tiles_of_rows(std::index_sequence<kWide...>) {
  return {multiply_tile<kSome, kWide + 1>...};
}

template <std::size_t... kSome>
constexpr std::array<std::array<TileFunction, kVectors>, kRows> all_tiles(
    std::index_sequence<kSome...>) {
  return {tiles_of_rows<kSome + 1>(std::make_index_sequence<kVectors>())...};
}

inline void multiply(std::size_t rows, std::size_t columns, std::size_t pairs,
                     const std::uint32_t* units, const std::uint32_t* inputs, std::int32_t* sums,
                     std::size_t stride) {
  static constexpr auto kTiles = all_tiles(std::make_index_sequence<kRows>());
  for (std::size_t column = 0; column < columns; column += kVectors * kLanes) {
    const std::size_t vectors = std::min(kVectors, (columns - column + kLanes - 1) / kLanes);
    for (std::size_t row = 0; row < rows; row += kRows) {
      kTiles[std::min(kRows, rows - row) - 1][vectors - 1](pairs, units + row, inputs + column,
                                                           sums + row * stride + column, stride);
    }
  }
}
