// The tiled products of the backend `cuda`, on its twin, compared with the chains and sums that
// define them: at the edges of tiles and of the pieces that are copied, where images are padded,
// and for the largest factors.
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "launch.hpp"
#include "support.hpp"

namespace products_by_tiles {

using namespace privgrad::cuda;

namespace {

using Floats = std::vector<float>;

template <class Kernel>
void run(const Kernel& kernel) {
  for (std::uint64_t block = 0; block < kernel.blocks(); ++block) run_block<Kernel>(&kernel, block);
}

Floats normals(std::mt19937& generator, std::size_t size) {
  std::normal_distribution<float> normal;
  Floats numbers(size);
  for (float& x : numbers) x = normal(generator);
  return numbers;
}

std::vector<std::int16_t> factors(std::mt19937& generator, std::size_t size) {
  std::uniform_int_distribution<int> factor(-(1 << 14), 1 << 14);
  std::vector<std::int16_t> numbers(size);
  for (std::int16_t& x : numbers) x = static_cast<std::int16_t>(factor(generator));
  return numbers;
}

std::vector<std::uint32_t> bits(const Floats& numbers) {
  std::vector<std::uint32_t> all;
  for (const float x : numbers) all.push_back(std::bit_cast<std::uint32_t>(x));
  return all;
}

std::uint32_t narrow(std::size_t extent) { return static_cast<std::uint32_t>(extent); }

/// \param along  whether the second operand's rows go along k.
template <class Shape, bool along>
void check_matrices(std::size_t rows, std::size_t columns, std::size_t inner) {
  INFO(rows << " x " << columns << " x " << inner);
  std::mt19937 generator(7);
  const Floats a = normals(generator, rows * inner), b = normals(generator, columns * inner);
  const Floats starts = normals(generator, columns);
  Floats found(rows * columns, -1.0f), expected(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float chain = starts[j];
      for (std::size_t k = 0; k < inner; ++k)
        chain = std::fma(a[i * inner + k], along ? b[j * inner + k] : b[k * columns + j], chain);
      expected[i * columns + j] = chain;
    }
  }
  using Second = std::conditional_t<along, AlongInner, AcrossInner>;
  run(Product<AlongInner, Second, Shape>{{a.data(), inner},
                                         {b.data(), along ? inner : columns},
                                         {rows, narrow(columns), narrow(inner)},
                                         {found.data(), columns, starts.data()}});
  REQUIRE(bits(found) == bits(expected));
}

Convolution convolution(std::size_t height, std::size_t width, std::size_t depth,
                        std::size_t channels, std::size_t kernel, std::size_t stride,
                        std::size_t padding) {
  return {height,
          width,
          depth,
          (height + 2 * padding - kernel) / stride + 1,
          (width + 2 * padding - kernel) / stride + 1,
          channels,
          kernel,
          stride,
          padding};
}

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all{
      convolution(5, 5, 1, 3, 3, 1, 0),   convolution(7, 6, 2, 5, 3, 1, 1),
      convolution(9, 9, 3, 20, 4, 2, 0),  convolution(9, 8, 33, 17, 3, 2, 1),
      convolution(6, 6, 1, 70, 1, 1, 0),  convolution(12, 12, 4, 9, 5, 1, 2),
      convolution(7, 7, 2, 4, 2, 3, 0),   convolution(11, 11, 1, 40, 5, 3, 2),
      convolution(17, 17, 2, 66, 3, 1, 1)};
  return all;
}

/// Returns element p of the patch that place t of an image sees.
float pixel(const Convolution& conv, const float* image, std::size_t t, std::size_t p) {
  const auto padding = static_cast<long>(conv.padding);
  const long row =
      static_cast<long>(t / conv.columns * conv.stride + p / (conv.kernel * conv.depth)) - padding;
  const long column = static_cast<long>(t % conv.columns * conv.stride +
                                        p % (conv.kernel * conv.depth) / conv.depth) -
                      padding;
  if (row < 0 || column < 0 || row >= static_cast<long>(conv.height) ||
      column >= static_cast<long>(conv.width))
    return 0.0f;
  return image[(static_cast<std::size_t>(row) * conv.width + static_cast<std::size_t>(column)) *
                   conv.depth +
               p % conv.depth];
}

struct Images {
  explicit Images(const Convolution& conv, std::size_t count) {
    std::mt19937 generator(11);
    pixels = normals(generator, count * conv.inputs());
    weights = normals(generator, conv.channels * conv.patch());
    errors = normals(generator, count * conv.outputs());
  }
  Floats pixels, weights, errors;
};

template <class Shape>
void check_patches(const Convolution& conv, std::size_t count) {
  const Images images(conv, count);
  Floats found(count * conv.outputs(), -1.0f), expected(found.size());
  for (std::size_t i = 0; i < count * conv.places(); ++i) {
    const float* image = images.pixels.data() + i / conv.places() * conv.inputs();
    for (std::size_t c = 0; c < conv.channels; ++c) {
      float chain = 0.0f;
      for (std::size_t p = 0; p < conv.patch(); ++p)
        chain = std::fma(pixel(conv, image, i % conv.places(), p),
                         images.weights[c * conv.patch() + p], chain);
      expected[i * conv.channels + c] = chain;
    }
  }
  run(Product<Patches, AlongInner, Shape>{
      Patches(images.pixels.data(), conv),
      {images.weights.data(), conv.patch()},
      {count * conv.places(), narrow(conv.channels), narrow(conv.patch())},
      {found.data(), conv.channels}});
  REQUIRE(bits(found) == bits(expected));
}

/// Checks each pixel's derivative: 0 plus a chain for each place that sees the pixel, in order.
void check_seen_errors(const Convolution& conv, std::size_t count, float weight) {
  Images images(conv, count);
  images.weights[0] = weight;
  Floats found(count * conv.inputs(), -1.0f), expected(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t at = i % conv.inputs(), d = at % conv.depth;
    const std::size_t row = at / conv.depth / conv.width + conv.padding;
    const std::size_t column = at / conv.depth % conv.width + conv.padding;
    const float* errors = images.errors.data() + i / conv.inputs() * conv.outputs();
    for (std::size_t t = 0; t < conv.places(); ++t) {
      const std::size_t u = row - t / conv.columns * conv.stride;
      const std::size_t v = column - t % conv.columns * conv.stride;
      if (u >= conv.kernel || v >= conv.kernel) continue;  // numbers below 0 wrap around
      float chain = 0.0f;
      for (std::size_t c = 0; c < conv.channels; ++c)
        chain = std::fma(errors[t * conv.channels + c],
                         images.weights[c * conv.patch() + (u * conv.kernel + v) * conv.depth + d],
                         chain);
      expected[i] += chain;
    }
  }
  run(Product<SeenErrors, ElementWeights, NarrowestTile, true>{
      {images.errors.data(), conv, count},
      {images.weights.data(), conv},
      {count * conv.height * conv.width, narrow(conv.depth), narrow(conv.channels), 1,
       narrow(conv.kernel * conv.kernel)},
      {found.data(), conv.depth}});
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("pixel " << i);
    REQUIRE((bits({found[i]}) == bits({expected[i]}) ||
             (std::isnan(found[i]) && std::isnan(expected[i]))));
  }
}

void check_place_sums(const Convolution& conv, std::size_t count) {
  const Images images(conv, count);
  std::vector<PlaceRoundings> roundings(count);
  for (std::size_t e = 0; e < count; ++e) {
    roundings[e].of_image = make_rounding(1000.0 + static_cast<double>(e), 5.0f, false);
    if (e != 1) roundings[e].of_delta = make_rounding(900.0, 5.0f, false);
  }
  std::vector<std::int32_t> found(count * conv.channels * conv.patch(), -1), expected(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t p = i % conv.patch(), c = i / conv.patch() % conv.channels;
    const std::size_t e = i / conv.patch() / conv.channels;
    for (std::size_t t = 0; t < conv.places(); ++t) {
      const float error = images.errors[e * conv.outputs() + t * conv.channels + c];
      const float seen = pixel(conv, images.pixels.data() + e * conv.inputs(), t, p);
      expected[i] += rounded(error, roundings[e].of_delta) * rounded(seen, roundings[e].of_image);
    }
  }
  const std::uint32_t places = narrow(conv.places());
  run(WholeProduct<RoundedPixels, RoundedErrors, PlaceSums>{
      {PatchColumns(images.pixels.data(), conv), roundings.data()},
      {conv, images.errors.data(), roundings.data()},
      {found.data()},
      {conv.patch(), narrow(conv.channels), places, count},
      places});
  REQUIRE(found == expected);
}

}  // namespace

TEST_CASE("cuda: products by tiles are the chains that define them, at all edges", "[cuda]") {
  for (const auto& [rows, columns, inner] : std::vector<std::array<std::size_t, 3>>{
           {1, 1, 1}, {3, 5, 7}, {128, 128, 16}, {129, 127, 33}, {130, 64, 15}, {257, 65, 48}}) {
    check_matrices<WideTile, true>(rows, columns, inner);
    check_matrices<WideTile, false>(rows, columns, inner);
    check_matrices<NarrowTile, true>(rows, columns, inner);
    check_matrices<NarrowTile, false>(rows, columns, inner);
  }
}

TEST_CASE("cuda: convolutions by tiles are the chains that define them, with padding and strides",
          "[cuda]") {
  for (std::size_t which = 0; which < convolutions().size(); ++which) {
    INFO("convolution " << which);
    check_patches<NarrowTile>(convolutions()[which], 2);
    check_patches<WideTile>(convolutions()[which], 2);
    for (const std::size_t count : {2u, 200u, 256u})
      check_seen_errors(convolutions()[which], count, 1.0f);
    // A weight that is not finite reaches only the pixels that a place sees with it.
    check_seen_errors(convolutions()[which], 1, INFINITY);
    check_place_sums(convolutions()[which], 3);
  }
}

TEST_CASE("cuda: sums of cells are exact, of the largest factors and over several slices",
          "[cuda][privacy]") {
  std::mt19937 generator(13);
  for (const auto& [rows, inputs, units] : std::vector<std::array<std::size_t, 3>>{
           {1, 1, 1}, {33, 16, 8}, {64, 128, 64}, {130, 129, 65}, {65, 17, 70}}) {
    INFO(rows << " rows, " << inputs << " inputs, " << units << " units");
    auto in = factors(generator, rows * inputs), delta = factors(generator, rows * units);
    in[0] = 1 << 14;
    delta[0] = -(1 << 14);
    std::vector<std::uint8_t> taken(rows);
    for (std::uint8_t& one : taken) one = generator() % 4 != 0;
    taken[0] = 1;
    std::vector<std::uint64_t> found(inputs * units, ~std::uint64_t{0} - 5), expected = found;
    for (std::size_t i = 0; i < rows * inputs * units; ++i) {
      const std::size_t row = i / inputs / units, unit = i / inputs % units, input = i % inputs;
      if (taken[row] != 0)
        expected[unit * inputs + input] += static_cast<std::uint64_t>(
            std::int64_t{in[row * inputs + input]} * delta[row * units + unit]);
    }
    run(WholeProduct<WholeRows, WholeRows, CellSums>{{in.data(), inputs, nullptr},
                                                     {delta.data(), units, taken.data()},
                                                     {found.data()},
                                                     {inputs, narrow(units), narrow(rows)},
                                                     64});
    REQUIRE(found == expected);
  }
  for (const auto& [rows, count] :
       std::vector<std::array<std::size_t, 2>>{{1, 1}, {7, 33}, {256, 32}, {257, 31}, {600, 100}}) {
    INFO(rows << " rows of " << count);
    const auto whole = factors(generator, rows * count);
    std::vector<Share> shares(rows);
    std::vector<std::uint8_t> taken(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      shares[row].scale = static_cast<double>(generator() % 5);
      shares[row].step = 1.7;
      taken[row] = generator() % 3 != 0;
    }
    std::vector<std::uint64_t> found(count, ~std::uint64_t{0} - 5), expected = found;
    for (std::size_t i = 0; i < rows * count; ++i) {
      const Share& share = shares[i / count];
      if (taken[i / count] != 0 && share.scale != 0.0)
        expected[i % count] +=
            static_cast<std::uint64_t>(std::int64_t{truncated(place_factor(share), whole[i])});
    }
    run(SumOfCells<WholeCells>{
        {count, rows, 1, 0, shares.data(), whole.data(), taken.data(), found.data()}});
    REQUIRE(found == expected);
  }
}

TEST_CASE("cuda: examples are taken whose cells are at most as long as the bound",
          "[cuda][privacy]") {
  const privgrad::cuda::Wide most = product_of(std::uint64_t{1} << 26, std::uint64_t{1} << 26);
  const std::vector<privgrad::cuda::Wide> lengths{
      {0, 0}, most, {0, most.low + 1}, {0, most.low - 1}, {1, 0}};
  std::vector<std::uint8_t> taken(lengths.size(), 7);
  const ForEach<TakeWithin> take{{lengths.size(), most, lengths.data(), taken.data()}};
  run_block<ForEach<TakeWithin>>(&take, 0);
  CHECK(taken == std::vector<std::uint8_t>{1, 1, 0, 1, 0});
}

TEST_CASE("cuda: the norm of a table's gradient adds up as is defined, for widths beside the lanes",
          "[cuda][privacy]") {
  std::mt19937 generator(17);
  constexpr std::size_t kExamples = 5, kLength = 9;
  for (const std::size_t width : {1u, 15u, 16u, 33u, 70u}) {
    INFO("width " << width);
    const Table table{.vocabulary = 6, .width = width, .length = kLength};
    Floats tokens(kExamples * kLength);
    for (float& token : tokens) token = static_cast<float>(generator() % 6);
    tokens[3] = tokens[kLength + 8] = privgrad::cuda::kEmptyPlace;
    tokens[2 * kLength + 4] = 6.0f;  // no token
    const Floats errors = normals(generator, kExamples * kLength * width);
    std::vector<double> squares(kExamples * kLength, -1.0);
    std::vector<Share> shares(kExamples);
    run(TokenRowSquares{kExamples * kLength, table, tokens.data(), errors.data(), squares.data()});
    const ForEach<TokenNorm> norms{
        {kExamples, 1, 0, table, tokens.data(), squares.data(), shares.data()}};
    run_block<ForEach<TokenNorm>>(&norms, 0);
    for (std::size_t e = 0; e < kExamples; ++e) {
      double norm = 0.0;
      for (std::size_t token = 0; token < 6; ++token) {
        std::vector<double> gradient(width, 0.0);
        bool is_there = false;
        for (std::size_t t = 0; t < kLength; ++t) {
          if (tokens[e * kLength + t] != static_cast<float>(token)) continue;
          is_there = true;
          for (std::size_t k = 0; k < width; ++k)
            gradient[k] += static_cast<double>(errors[(e * kLength + t) * width + k]);
        }
        std::array<double, 16> lane{};
        double rest = 0.0;
        for (std::size_t k = 0; k < width; ++k) {
          const auto x = static_cast<double>(static_cast<float>(gradient[k]));
          (k < width / 16 * 16 ? lane[k % 16] : rest) += x * x;
        }
        std::array<double, 4> four{};
        for (std::size_t l = 0; l < 4; ++l)
          four[l] = (lane[l] + lane[4 + l]) + (lane[8 + l] + lane[12 + l]);
        if (is_there) norm += rest + ((four[0] + four[1]) + (four[2] + four[3]));
      }
      INFO("example " << e);
      if (e == 2) {
        CHECK(std::isnan(shares[e].squared_norm));
      } else {
        CHECK(shares[e].squared_norm == norm);
      }
    }
  }
}

TEST_CASE("cuda: factors of sums of cells are at most 2^14 in size, and all of these are exact",
          "[cuda][privacy]") {
  const auto sums = [](std::int16_t left, std::int16_t right, std::size_t rows) {
    const std::vector<std::int16_t> a(rows, left), b(rows, right);
    std::uint64_t found = 0;
    run(WholeProduct<WholeRows, WholeRows, CellSums>{
        {a.data(), 1, nullptr}, {b.data(), 1, nullptr}, {&found}, {1, 1, narrow(rows)}, 1024});
    return static_cast<std::int64_t>(found);
  };
  constexpr std::int16_t kMost = 1 << 14;
  for (const std::int16_t left : {kMost, std::int16_t{-kMost}}) {
    for (const std::int16_t right : {kMost, std::int16_t{-kMost}, std::int16_t{127}}) {
      // Two slices of factors whose products all have one sign give the largest sums of digits.
      CHECK(sums(left, right, 2048) == std::int64_t{2048} * left * right);
    }
  }
  for (const std::int16_t beyond : {std::int16_t{kMost + 1}, std::int16_t{-kMost - 1}}) {
    CHECK_THROWS_AS(sums(beyond, 1, 1), std::logic_error);
    CHECK_THROWS_AS(sums(1, beyond, 1), std::logic_error);
  }
}

}  // namespace products_by_tiles
