// ExactClipping of the cpu backend: the results for an example depend on that example alone, bit
// for bit, and its cells are correct. They are compared with gradient_rows(), which the conformance
// rules compare with the definitions of the layers.
//
// File length: all tests share the networks and the code that makes cells.

#include <malloc.h>

#include "../elementary.hpp"
#include "exact_programs.hpp"
#include "privgrad/instruction_set.hpp"
#include "process.hpp"

using namespace privgrad;
namespace exact_programs {

TEST_CASE("cpu exact: what an example gets is the same everywhere, on any number of threads",
          "[backend][privacy]") {
  Generator generator(31);
  std::vector<Network> all = networks();
  for (Network& network : transformer_networks()) all.push_back(std::move(network));
  const std::size_t small = all.size();
  for (Network& network : house_networks()) all.push_back(std::move(network));
  for (std::size_t which = 0; which < all.size(); ++which) {
    const Network& network = all[which];
    INFO("network " << which);
    ThreadExecutor serial(1);
    const Compiled alone(network, serial);
    const Examples probe = random_examples(generator, network, 1);
    Made expected(alone, probe.batch());
    const Doubles scales = longest_scales(alone, expected.norms);
    expected.make(scales);
    const Cells cells = expected.sum();
    const Floats row = gradient_rows(alone, probe.batch());
    REQUIRE(length_of(cells) == expected.lengths[0]);
    REQUIRE(expected.lengths[0] > SquaredLength{});

    const std::vector<std::size_t> sizes =
        which < small ? std::vector<std::size_t>{2, 15, 16, 17, 31, 33, 63, 64, 65, 255, 257, 1025}
                      : std::vector<std::size_t>{2, 33, 65};
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      const std::size_t size = sizes[s];
      ThreadExecutor threads(1 + s % 4);
      const Compiled one(network, threads);
      Examples batch = random_examples(generator, network, size);
      spoil(generator, batch);
      const std::vector<std::size_t> places{0, size / 2 + generator() % (size - size / 2 - 1 + 1),
                                            size - 1};
      for (const std::size_t place : places) batch.put(place, probe, 0);
      Made made(one, batch.batch(), size + generator() % 3);
      Doubles all_scales = longest_scales(one, made.norms);
      for (const std::size_t place : places) {
        std::copy(scales.begin(), scales.end(),
                  all_scales.begin() + static_cast<std::ptrdiff_t>(place * one.groups));
      }
      made.make(all_scales);
      for (const std::size_t place : places) {
        INFO("place " << place << " of " << size);
        REQUIRE(
            same_bits(std::span<const double>(made.norms).subspan(place * one.groups, one.groups),
                      expected.norms));
        REQUIRE(made.lengths[place] == expected.lengths[0]);
        const bool alone_same = made.cells(place) == cells;
        REQUIRE(alone_same);
        const bool same = difference(made.sum(), made.sum({place})) == cells;
        REQUIRE(same);
      }
      if (size > 65) continue;
      const Floats rows = gradient_rows(one, batch.batch());
      for (const std::size_t place : places) {
        REQUIRE(same_bits(std::span<const float>(rows).subspan(place * one.size, one.size), row));
      }
    }
  }
}

TEST_CASE("cpu exact: sums are the same however a batch is cut into passes", "[backend]") {
  Generator generator(37);
  ThreadExecutor serial(1);
  std::vector<Network> all = networks();
  for (Network& network : transformer_networks()) all.push_back(std::move(network));
  for (const Network& network : all) {
    const Compiled one(network, serial);
    const std::size_t rows = 150 + generator() % 30;
    const Examples examples = random_examples(generator, network, rows);
    Made whole(one, examples.batch());
    const Doubles scales = longest_scales(one, whole.norms);
    whole.make(scales);
    const Cells expected = whole.sum();
    for (const std::size_t part : {std::size_t{1}, std::size_t{7}, std::size_t{32},
                                   std::size_t{150}, one.exact.microbatch_rows()}) {
      const auto pass = one.exact.make_pass(part);
      Cells sum(one.size, 0);
      for (std::size_t first = 0; first < rows; first += part) {
        const std::size_t count = std::min(part, rows - first);
        Doubles norms(count * one.groups);
        std::vector<SquaredLength> lengths(count);
        one.exact.backward(examples.batch(first, count), *pass, norms);
        REQUIRE(same_bits(
            norms,
            std::span<const double>(whole.norms).subspan(first * one.groups, count * one.groups)));
        one.exact.make_cells(*pass,
                             std::span(scales).subspan(first * one.groups, count * one.groups),
                             kCells, lengths);
        one.exact.add_cells(*pass, std::vector<std::uint8_t>(count, 1), sum);
      }
      const bool same = sum == expected;
      REQUIRE(same);
    }
  }
}

TEST_CASE("cpu exact: cells are near the scaled gradient, and lengths are theirs",
          "[backend][privacy]") {
  Generator generator(41);
  ThreadExecutor serial(1);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    REQUIRE(one.groups + 1 == one.offsets.size());
    const std::size_t rows = 21;
    Examples examples = random_examples(generator, network, rows);
    // A feature that is equal everywhere makes sums over places as large as possible, but after
    // norms the errors would add up to 0.
    const bool takes_part =
        std::none_of(network.nodes.begin(), network.nodes.end(), [](const Node& node) {
          const Layer& layer = node.layer;
          return std::holds_alternative<Embedding>(layer) ||
                 std::holds_alternative<GroupNorm>(layer);
        });
    if (takes_part) examples.fill(0, 1.0f);
    Made made(one, examples.batch());
    Doubles scales = longest_scales(one, made.norms);
    // Some groups are shorter than the maximum, as with per-layer clipping, and some are left out.
    for (double& scale : scales) scale *= std::array{1.0, 1.0, 0.37, 0.0}[generator() % 4];
    made.make(scales);
    const Floats all = gradient_rows(one, examples.batch());
    for (std::size_t i = 0; i < rows; ++i) {
      const Cells cells = made.cells(i);
      REQUIRE(made.lengths[i] == length_of(cells));
      REQUIRE(within(made.lengths[i], kCells));
      for (std::size_t g = 0; g < one.groups; ++g) {
        const double scale = scales[i * one.groups + g];
        const float* row = all.data() + i * one.size;
        long double squares = 0;
        double largest = 0;
        for (std::size_t k = one.offsets[g]; k < one.offsets[g + 1]; ++k) {
          squares += static_cast<long double>(row[k]) * row[k];
          if (k < one.offsets[g] + one.weights[g]) {
            largest = std::max(largest, std::abs(static_cast<double>(row[k])));
          }
        }
        REQUIRE_THAT(made.norms[i * one.groups + g],
                     WithinRel(static_cast<double>(squares), one.convolution[g] ? 1e-2 : 1e-6) ||
                         WithinAbs(0.0, 1e-30));
        // Both factors of a product are at most sqrt(scale * largest) cells long in any element,
        // with an error of less than 1 each (1/2, unless the example was rounded again); a row's
        // cells have an error of less than 1. Both factors of a convolution have at least 11 bits.
        const double norm = std::sqrt(static_cast<double>(squares));
        const double rounding = one.dense[g]         ? 2 * std::sqrt(scale * largest) + 2
                                : one.convolution[g] ? 1 + 0x1p-9 * scale * norm
                                                     : 1.0;
        for (std::size_t k = one.offsets[g]; k < one.offsets[g + 1]; ++k) {
          const double ideal = scale * static_cast<double>(row[k]);
          const double allowed =
              (k < one.offsets[g] + one.weights[g] ? rounding : 1.0) + 0x1p-10 * std::abs(ideal);
          INFO("group " << g << " element " << k - one.offsets[g]);
          REQUIRE(std::abs(static_cast<double>(cells[k]) - ideal) <= (scale == 0 ? 0 : allowed));
        }
      }
    }
  }
}

TEST_CASE("cpu exact: no gradient makes cells longer than they may be", "[backend][privacy]") {
  // One dense layer with weights 0 and squared loss: delta = -target whatever the features are, so
  // the test chooses both factors.
  ThreadExecutor serial(1);
  Generator generator(43);
  int truncated = 0, tried = 0;
  for (const std::size_t inputs : {1u, 2u, 7u, 48u, 49u, 784u}) {
    for (const std::size_t units : {1u, 9u}) {
      const Network network = units == 1
                                  ? make_network({inputs}, {Dense{1}}, Loss::squared, 0)
                                  : make_network({inputs}, {Dense{units}}, Loss::squared, units);
      const Compiled one(network, serial);
      one.program->load_parameters(Floats(one.size, units == 1 ? 0.0f : 0.25f / 784));
      Examples examples = random_examples(generator, network, 12);
      examples.fill(0, 1.0f);
      examples.fill(1, 1.0f);
      examples.fill(2, 3e37f);
      examples.fill(3, 1e-37f);
      examples.fill(4, 1e-45f);
      examples.fill(5, 0.0f);
      examples.fill(6, 0.0f);
      examples.features[6 * inputs + generator() % inputs] = 1.0f;
      for (std::size_t k = 0; k < inputs; ++k) {
        examples.features[7 * inputs + k] = static_cast<float>(generator() % 2);
        examples.features[8 * inputs + k] = std::ldexp(1.0f, -static_cast<int>(k % 40));
        examples.features[9 * inputs + k] = k % 2 == 0 ? 1e20f : 1e-20f;
      }
      if (units == 1) {
        examples.targets[0] = 1.0f;
        examples.targets[1] = 1e-44f;
        examples.targets[2] = 1e-30f;
        examples.targets[6] = 1e30f;
      }
      Made made(one, examples.batch());
      std::vector<std::uint64_t> mosts{0, 1, 2, 3, 1000, kCells, kCells * 4};
      for (int i = 0; i < 40; ++i) mosts.push_back(1 + generator() % (kCells * 4));
      for (const std::uint64_t most : mosts) {
        made.make(longest_scales(one, made.norms, most), most);
        for (std::size_t row = 0; row < made.rows; ++row) {
          INFO("inputs " << inputs << " units " << units << " row " << row << " most " << most);
          REQUIRE(within(made.lengths[row], most));
          const Cells cells = made.cells(row);
          REQUIRE(made.lengths[row] == length_of(cells));
          const double squared = made.norms[row * one.groups];
          if (most < kCells || !std::isfinite(squared) || squared == 0) continue;
          // They are not too short either: the shortest are truncated by up to 1 of at least 275,
          // the entries of a flat vector of at most 784 x 9.
          const double length =
              std::sqrt(std::ldexp(static_cast<double>(made.lengths[row].high), 64) +
                        static_cast<double>(made.lengths[row].low));
          REQUIRE(length >= 0.99 * static_cast<double>(most));
          ++tried;
          truncated += length < (1 - 0x1.2p-11) * static_cast<double>(most) ? 1 : 0;
        }
      }
    }
  }
  // Both ways of rounding occurred.
  CHECK(truncated > tried / 100);
  CHECK(truncated < tried / 2);
}

TEST_CASE("cpu exact: sums of the largest operands do not overflow", "[backend][privacy]") {
  ThreadExecutor threads(3);
  const Network network = make_network({60}, {Dense{1}}, Loss::squared, 0);
  const Compiled one(network, threads);
  one.program->load_parameters(Floats(one.size, 0.0f));
  constexpr std::size_t kRows = 1001;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  // Everything at a single weight: an element's products have the largest possible value, 2^28, and
  // only seven of them fit into 32 bits.
  const int signs = GENERATE(0, 1, 2, 3);
  Examples examples{Floats(kRows * 60, 0.0f), Floats(kRows, 1e4f)};
  for (std::size_t i = 0; i < kRows; ++i) {
    examples.features[i * 60 + 51] =
        signs == 3 ? 0.0f : 1e4f;  // or at the bias, which is number 60
    if (signs == 1) examples.targets[i] = -1e4f;
    if (signs == 2 && i % 3 == 0) examples.targets[i] = -1e4f;
  }
  Made made(one, examples.batch());
  made.make(longest_scales(one, made.norms, kMost), kMost);
  Cells expected(one.size, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    const Cells cells = made.cells(i);
    REQUIRE(std::abs(cells[signs == 3 ? 60 : 51]) > static_cast<std::int64_t>(kMost - kMost / 500));
    // The examples with i % 3 = 0 are of one kind, with 1 and 2 of two other kinds.
    const std::int64_t times = i == 0 ? 334 : i == 1 ? 334 : 333;
    for (std::size_t k = 0; k < one.size; ++k) expected[k] += times * cells[k];
  }
  const bool same = made.sum() == expected;
  CHECK(same);
}

TEST_CASE("cpu exact: sums over places that nearly cancel do not overflow either",
          "[backend][privacy]") {
  // Pixels are 1 and become the integer 1448, the largest one whose square fits into int32 1024
  // times. Errors alternate between 1 and -1; only the last one is small, and becomes the integer
  // 1. The others cancel, so the sum over the 1024 places is 1448: small, in units of many cells.
  ThreadExecutor threads(2);
  const Network network = make_network({32, 32}, {conv(1, 1), Dense{1}}, Loss::squared, 0);
  const Compiled one(network, threads);
  Floats parameters(one.size, 0.0f);
  for (std::size_t i = 0; i + 2 < 1024; ++i) parameters[2 + i] = i % 2 == 0 ? 1.0f : -1.0f;
  parameters[2 + 1023] = 1.0f / 1448;
  one.program->load_parameters(parameters);
  constexpr std::size_t kRows = 60;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  const Examples examples{Floats(kRows * 1024, 1.0f), Floats(kRows, -1.0f)};
  Made made(one, examples.batch());
  Doubles scales(kRows * 2, 0.0);
  for (std::size_t i = 0; i < kRows; ++i) {
    scales[2 * i] = static_cast<double>(kMost) / std::sqrt(made.norms[2 * i]);
  }
  made.make(scales, kMost);
  Cells expected = made.cells(0);
  // The gradients of the weight and of the bias are the same, 1/1448.
  REQUIRE(std::abs(static_cast<double>(expected[0]) - std::sqrt(0.5) * kMost) < 0.01 * kMost);
  for (std::int64_t& cell : expected) cell *= kRows;
  const bool same = made.sum() == expected;
  CHECK(same);
}

TEST_CASE("cpu exact: gradients that are not finite, and scales of 0, have no cells",
          "[backend][privacy]") {
  ThreadExecutor serial(1);
  Generator generator(47);
  const float poison = GENERATE(as<float>{}, kNan, kInf, -kInf, 3e38f);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    constexpr std::size_t kRows = 20;
    Examples examples = random_examples(generator, network, kRows);
    const std::vector<std::size_t> victims{0, 7, 8, 19};
    for (const std::size_t victim : victims) {
      for (std::size_t k = 0; k < (examples.size() + 1) / 2; ++k) {
        examples.features[victim * examples.size() + k] = poison;
      }
    }
    const Floats before = examples.features;
    Made made(one, examples.batch());
    Doubles scales = longest_scales(one, made.norms);
    for (std::size_t g = 0; g < one.groups; ++g) scales[3 * one.groups + g] = 0.0;
    made.make(scales);
    CHECK(same_bits(examples.features, before));
    const Floats rows = gradient_rows(one, examples.batch());
    for (std::size_t row = 0; row < kRows; ++row) {
      const bool victim = std::find(victims.begin(), victims.end(), row) != victims.end();
      const Cells cells = made.cells(row);
      REQUIRE(made.lengths[row] == length_of(cells));
      REQUIRE(within(made.lengths[row], kCells));
      if (row == 3) REQUIRE(made.lengths[row] == SquaredLength{});
      for (std::size_t g = 0; g < one.groups; ++g) {
        const double norm = made.norms[row * one.groups + g];
        const auto part = std::span<const float>(rows).subspan(row * one.size + one.offsets[g],
                                                               one.offsets[g + 1] - one.offsets[g]);
        const bool has_nan =
            std::any_of(part.begin(), part.end(), [](float x) { return std::isnan(x); });
        if (!victim) REQUIRE(std::isfinite(norm));
        if (has_nan) REQUIRE_FALSE(std::isfinite(norm));
        if (std::isfinite(norm)) continue;
        REQUIRE(std::all_of(cells.begin() + static_cast<std::ptrdiff_t>(one.offsets[g]),
                            cells.begin() + static_cast<std::ptrdiff_t>(one.offsets[g + 1]),
                            [](std::int64_t cell) { return cell == 0; }));
      }
    }
  }
}

TEST_CASE("cpu exact: scales that ask for more than may be get what may be", "[backend][privacy]") {
  ThreadExecutor serial(1);
  Generator generator(53);
  const Network network = make_network({5}, {Dense{3}});
  const Compiled one(network, serial);
  const Examples examples = random_examples(generator, network, 9);
  Made made(one, examples.batch());
  made.make(longest_scales(one, made.norms));
  const Cells expected = made.sum();
  made.make(Doubles(9, std::numeric_limits<double>::max()));
  const bool same = made.sum() == expected;
  CHECK(same);
}

TEST_CASE("cpu exact: cells may be made and added more than once", "[backend]") {
  ThreadExecutor serial(1);
  Generator generator(59);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    const Examples examples = random_examples(generator, network, 13);
    Made made(one, examples.batch());
    const Doubles scales = longest_scales(one, made.norms);
    made.make(scales);
    const Cells first = made.sum({2, 3, 12});
    Doubles halves = scales;
    for (double& scale : halves) scale /= 2;
    made.make(halves);
    const Cells other = made.sum();
    made.make(scales);
    const bool same = made.sum({2, 3, 12}) == first && made.sum({2, 3, 12}) == first;
    CHECK(same);
    CHECK(other != first);
    // Modulo 2^64, added to the existing values.
    Cells sum(one.size, std::numeric_limits<std::int64_t>::max());
    one.exact.add_cells(*made.pass, std::vector<std::uint8_t>(13, 1), sum);
    const Cells all = made.sum();
    for (std::size_t k = 0; k < one.size; ++k) {
      REQUIRE(static_cast<std::uint64_t>(sum[k]) ==
              static_cast<std::uint64_t>(all[k]) + 0x7fffffffffffffffu);
    }
  }
}

TEST_CASE("cpu exact: a pass refuses what it was not made for, and takes nothing", "[backend]") {
  ThreadExecutor serial(1);
  Generator generator(61);
  const Network network = make_network({5}, {Dense{3}});
  const Compiled one(network, serial);
  const Examples examples = random_examples(generator, network, 3);
  CHECK(dynamic_cast<const ReproducibleRows*>(one.program.get()) != nullptr);
  CHECK_THROWS_AS(one.exact.make_pass(0), ConfigError);
  const auto pass = one.exact.make_pass(2);
  Doubles norms(3);
  std::vector<SquaredLength> lengths(2);
  CHECK_THROWS_WITH(one.exact.backward(examples.batch(), *pass, norms),
                    ContainsSubstring("3 examples for a pass of at most 2"));
  CHECK_THROWS_AS(one.exact.backward(examples.batch(0, 2), *pass, norms), ConfigError);
  Cells sum(one.size, 1);
  one.exact.backward({}, *pass, {});
  one.exact.make_cells(*pass, {}, kCells, {});
  one.exact.add_cells(*pass, {}, sum);
  CHECK(sum == Cells(one.size, 1));
  one.exact.backward(examples.batch(0, 2), *pass, std::span(norms).first(2));
  const auto make = [&](const Doubles& scales, std::uint64_t most) {
    one.exact.make_cells(*pass, scales, most, lengths);
  };
  CHECK_THROWS_AS(make(Doubles(3), kCells), ConfigError);
  CHECK_THROWS_AS(make(Doubles{1.0, -1.0}, kCells), ConfigError);
  CHECK_THROWS_AS(make(Doubles{1.0, std::nan("")}, kCells), ConfigError);
  CHECK_THROWS_WITH(make(Doubles(2), kCells * 4 + 1), ContainsSubstring("at most 2^28"));
  make(Doubles(2), kCells);
  CHECK_THROWS_AS(one.exact.add_cells(*pass, std::vector<std::uint8_t>(3), sum), ConfigError);
  CHECK_THROWS_AS(one.exact.add_cells(*pass, std::vector<std::uint8_t>(2), std::span(sum).first(4)),
                  ConfigError);
  CHECK(sum == Cells(one.size, 1));
}

TEST_CASE("cpu exact: memory grows with examples and widths, never with their gradients",
          "[backend]") {
  ThreadExecutor serial(1);
  const Network network =
      make_network({784}, {Dense{1000}, kRelu, Dense{10}}, Loss::cross_entropy, 10);
  const Compiled one(network, serial);
  Generator generator(67);
  const Examples examples = random_examples(generator, network, 256);
  const auto allocated = [] {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  Cells sum(one.size, 0);
  Doubles norms(256 * 2);
  std::vector<SquaredLength> lengths(256);
  const std::size_t before = allocated();
  const auto pass = one.exact.make_pass(256);
  one.exact.backward(examples.batch(), *pass, norms);
  one.exact.make_cells(*pass, longest_scales(one, norms), kCells, lengths);
  one.exact.add_cells(*pass, std::vector<std::uint8_t>(256, 1), sum);
  // Per example: twice (1000 + 10) floats, 784 + 1000 + 1000 + 10 int16, 1000 floats in panels, and
  // some scratch; the gradients themselves would take 814 MB.
  CHECK(allocated() - before < 5'500'000);
}

TEST_CASE("cpu exact: exp and log1p are right to two units in the last place", "[backend]") {
  // Compared with the C library in 80 bits, which is accurate to one of its own units: 2^-11 of the
  // units counted here.
  const auto check = [](double x, double found, long double exact) {
    const int exponent = std::max(std::ilogb(static_cast<double>(exact)), -1022);
    const long double unit = std::ldexp(1.0L, exponent - 52);
    INFO(x << ": " << found);
    REQUIRE(std::abs(static_cast<long double>(found) - exact) < 2 * unit);
  };
  Generator generator(73);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (int i = 0; i < 400'000; ++i) {
    const double u = uniform(generator);
    for (const double x : {u, 40 * u, 709.7 * u, -744 * std::abs(u), std::ldexp(u, -(i % 60))}) {
      check(x, elementary::exp_fixed(x), std::exp(static_cast<long double>(x)));
    }
    for (const double x : {std::abs(u), 10 * std::abs(u), 1e6 * std::abs(u),
                           std::ldexp(std::abs(u), i % 1000 - 1000),
                           std::ldexp(std::abs(u), i % 1000), 0.4140625 + 1e-3 * u}) {
      check(x, elementary::log1p_fixed(x), std::log1p(static_cast<long double>(x)));
    }
  }
  CHECK(elementary::exp_fixed(0.0) == 1.0);
  CHECK(elementary::exp_fixed(-std::numeric_limits<double>::infinity()) == 0.0);
  CHECK(elementary::exp_fixed(-800.0) == 0.0);
  CHECK(std::isinf(elementary::exp_fixed(710.0)));
  CHECK(std::isnan(elementary::exp_fixed(std::nan(""))));
  CHECK(elementary::log1p_fixed(0.0) == 0.0);
  CHECK(std::isinf(elementary::log1p_fixed(std::numeric_limits<double>::infinity())));
  CHECK(std::isnan(elementary::log1p_fixed(std::nan(""))));
  CHECK(std::isnan(elementary::log1p_fixed(-0.5)));
}

// Networks with many pieces: many units and few units, biases between pieces of rows and at the end
// of a piece, a table, and combinations of these.
TEST_CASE("cpu exact: pieces of the parameters are the sum, whatever is taken and on any threads",
          "[backend][privacy]") {
  Generator generator(47);
  ThreadExecutor executor(3);
  const std::vector<Network> all = {
      make_network({28, 28}, {Dense{130}, kRelu, Dense{3}}),
      make_network({9000}, {Dense{9}, kTanh, Dense{70}, kTanh, Dense{3}}),
      // 32760 weights and 40 biases: the last 4096 contiguous parameters begin within the biases.
      make_network({5, 5, 91}, {conv(40, 3), kRelu, Flatten{}, Dense{90}, kRelu, Dense{3}}),
      make_network({6, 6, 3}, {conv(500, 3), GroupNorm{.groups = 5}, kRelu, conv(9, 3), Dense{3}}),
      make_network({6}, {Embedding{.vocabulary = 900, .width = 40}, LayerNorm{}, Dense{200}, kRelu,
                         Dense{3}})};
  std::size_t most_pieces = 0;
  for (const Network& network : all) {
    const Compiled one(network, executor);
    const auto& pieces = dynamic_cast<const ExactClipping&>(*one.program);
    const auto ends = pieces.piece_ends();
    REQUIRE(ends.back() == one.size);
    most_pieces = std::max(most_pieces, ends.size());
    const Examples examples = random_examples(generator, network, 21);
    Made made(one, examples.batch(), 30);
    made.make(longest_scales(one, made.norms));
    for (const std::size_t without : {21u, 0u, 13u, 21u}) {
      std::vector<std::uint8_t> taken(21, 1);
      if (without < 21) taken[without] = 0;
      pieces.choose(*made.pass, taken);
      Cells sum(one.size, -1);
      executor.for_each_chunk(ends.size(), [&](std::size_t i) {
        const std::size_t begin = i == 0 ? 0 : ends[i - 1];
        pieces.add_piece(*made.pass, i, std::span(sum).subspan(begin, ends[i] - begin));
      });
      for (std::int64_t& cell : sum) ++cell;
      REQUIRE(sum == made.sum_of(taken));
    }
  }
  CHECK(most_pieces >= 4);
}

TEST_CASE("cpu exact: a piece is refused that there is none of, or that nobody chose for",
          "[backend]") {
  ThreadExecutor executor(1);
  const Network network = make_network({7}, {Dense{3}});
  const Compiled one(network, executor);
  const auto& pieces = dynamic_cast<const ExactClipping&>(*one.program);
  Generator generator(48);
  const Examples examples = random_examples(generator, network, 5);
  Made made(one, examples.batch());
  made.make(longest_scales(one, made.norms));
  Cells sum(one.size, 0);
  CHECK_THROWS_AS(pieces.add_piece(*made.pass, 0, sum), ConfigError);
  CHECK_THROWS_AS(pieces.choose(*made.pass, std::vector<std::uint8_t>(4, 1)), ConfigError);
  pieces.choose(*made.pass, std::vector<std::uint8_t>(5, 1));
  CHECK_THROWS_AS(pieces.add_piece(*made.pass, 1, sum), ConfigError);
  CHECK_THROWS_AS(pieces.add_piece(*made.pass, 0, std::span(sum).first(3)), ConfigError);
  CHECK(sum == Cells(one.size, 0));
  pieces.add_piece(*made.pass, 0, sum);
  CHECK(sum == made.sum());
  made.make(longest_scales(one, made.norms));  // new cells, none of which are chosen
  CHECK_THROWS_AS(pieces.add_piece(*made.pass, 0, sum), ConfigError);
}

}  // namespace exact_programs
