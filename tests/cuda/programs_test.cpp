// The backend `cuda` on its host twin, which runs the same kernels as a GPU (or on a GPU, see
// on_gpu.hpp). It is compared bit by bit with the backend `cpu`, another implementation of the same
// definitions. The tests of `cpu` compare that backend with the definitions, and the conformance
// suite tests both.
#include <sstream>

#include "exact_programs.hpp"
#include "on_gpu.hpp"

using namespace privgrad;
using namespace exact_programs;

namespace {

Value params() { return Value::Object{{"host_twin", !on_gpu(), {}}}; }

Compiled on_cuda(const Network& network, Executor& executor) {
  return Compiled(network, executor, 5, "cuda", params());
}

/// Requires equal bits, except that all NaNs count as equal.
template <class Number>
void require_same(std::span<const Number> found, std::span<const Number> expected,
                  const std::string& what) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    if (same_bits(found.subspan(i, 1), expected.subspan(i, 1))) continue;
    std::ostringstream text;
    text << std::hexfloat << what << " " << i << ": " << found[i] << ", expected " << expected[i];
    FAIL(text.str());
  }
}

template <class Number>
void require_same(const std::vector<Number>& found, const std::vector<Number>& expected,
                  const std::string& what) {
  require_same(std::span<const Number>(found), std::span<const Number>(expected), what);
}

Floats outputs(const Compiled& one, const Network& network, const Examples& examples) {
  Floats found(examples.rows() * output_count(network));
  dynamic_cast<const Outputs&>(*one.program).outputs(examples.features, examples.rows(), found);
  return found;
}

/// Compares all results of two programs for some examples.
void require_same_program(const Network& network, const Examples& examples, Executor& executor,
                          std::size_t most_rows = 0) {
  const Compiled cpu(network, executor);
  const Compiled cuda = on_cuda(network, executor);
  require_same(outputs(cuda, network, examples), outputs(cpu, network, examples), "output");
  const Evaluation found = cuda.program->evaluate(examples.batch());
  const Evaluation expected = cpu.program->evaluate(examples.batch());
  require_same(Doubles{found.loss}, Doubles{expected.loss}, "loss");
  REQUIRE(found.correct == expected.correct);
  require_same(gradient_rows(cuda, examples.batch()), gradient_rows(cpu, examples.batch()), "row");

  Made own(cuda, examples.batch(), most_rows);
  Made other(cpu, examples.batch(), most_rows);
  require_same(own.norms, other.norms, "squared norm");
  Doubles scales = longest_scales(cpu, other.norms);
  for (std::size_t i = 0; i < scales.size(); i += 5) scales[i] *= 0.5;
  for (const std::uint64_t most : {kCells, kCells / 1000}) {
    own.make(scales, most);
    other.make(scales, most);
    REQUIRE(own.lengths == other.lengths);
    REQUIRE(own.sum() == other.sum());
    REQUIRE(own.sum({0, examples.rows() / 2}) == other.sum({0, examples.rows() / 2}));
  }
}

}  // namespace

TEST_CASE("cuda: what an example gets has the bits of the backend cpu, in every network",
          "[backend][privacy][cuda]") {
  Generator generator(83);
  const std::vector<Network> all = networks();
  for (std::size_t which = 0; which < all.size(); ++which) {
    INFO("network " << which);
    ThreadExecutor threads(1 + which % 3);
    for (const std::size_t rows : {1u, 2u, 15u, 66u}) {
      INFO(rows << " rows");
      const Examples examples = random_examples(generator, all[which], rows);
      require_same_program(all[which], examples, threads, rows + which % 2);
    }
  }
}

TEST_CASE("cuda: so has what is not a number, or too large for one, and what stands beside it",
          "[backend][privacy][cuda]") {
  Generator generator(89);
  const std::vector<Network> all = networks();
  ThreadExecutor threads(2);
  for (std::size_t which = 0; which < all.size(); ++which) {
    INFO("network " << which);
    Examples examples = random_examples(generator, all[which], 40);
    spoil(generator, examples);
    require_same_program(all[which], examples, threads);
  }
}

TEST_CASE("cuda: so have the built-in models", "[backend][privacy][cuda]") {
  Generator generator(97);
  ThreadExecutor threads(2);
  std::vector<Network> all = house_networks();
  for (Network& network : transformer_networks()) all.push_back(std::move(network));
  for (std::size_t which = 0; which < all.size(); ++which) {
    INFO("model " << which);
    require_same_program(all[which], random_examples(generator, all[which], 2), threads);
  }
}

TEST_CASE("cuda: so have examples whose roundings all go one way, and are made again",
          "[backend][privacy][cuda]") {
  // Every input and error of an example is the same number, so all are rounded alike; about half of
  // the examples' numbers are rounded up so far that the cells would be too long.
  const Network network = make_network({1024}, {Dense{1}}, Loss::squared, 0);
  ThreadExecutor threads(1);
  Generator generator(101);
  Examples examples{Floats(64 * 1024), normals(generator, 64)};
  for (std::size_t row = 0; row < 64; ++row) {
    examples.fill(row, static_cast<float>(0.5 + 1e-3 * static_cast<double>(row)));
  }
  require_same_program(network, examples, threads);
}

TEST_CASE("cuda: sums do not depend on how a batch is cut into passes, nor on threads",
          "[backend][privacy][cuda]") {
  Generator generator(103);
  const std::vector<Network> all = networks();
  for (const std::size_t which : {2u, 6u, 9u, 12u}) {
    INFO("network " << which);
    constexpr std::size_t kRows = 37;
    const Examples examples = random_examples(generator, all[which], kRows);
    ThreadExecutor serial(1);
    const Compiled whole = on_cuda(all[which], serial);
    Made all_at_once(whole, examples.batch());
    all_at_once.make(longest_scales(whole, all_at_once.norms));
    for (const std::size_t size : {1u, 8u, 36u}) {
      ThreadExecutor threads(3);
      const Compiled one = on_cuda(all[which], threads);
      Cells sum(one.size, 0);
      for (std::size_t first = 0; first < kRows; first += size) {
        Made piece(one, examples.batch(first, std::min(size, kRows - first)), size);
        piece.make(longest_scales(one, piece.norms));
        const std::vector<std::uint8_t> taken(piece.rows, 1);
        one.exact.add_cells(*piece.pass, taken, sum);
      }
      REQUIRE(sum == all_at_once.sum());
    }
  }
}

TEST_CASE("cuda: a pass refuses what it was not made for, and takes nothing", "[backend][cuda]") {
  ThreadExecutor serial(1);
  Generator generator(107);
  const Network network = make_network({5}, {Dense{3}});
  const Compiled one = on_cuda(network, serial);
  const Examples examples = random_examples(generator, network, 3);
  CHECK(dynamic_cast<const ReproducibleRows*>(one.program.get()) != nullptr);
  CHECK_THROWS_AS(one.exact.make_pass(0), ConfigError);
  CHECK_THROWS_WITH(
      one.exact.make_pass(std::size_t{1} << 31),
      "backend cuda: a pass of 2147483648 examples was requested; expected 1 to 2^31 - 1");
  const auto pass = one.exact.make_pass(2);
  Doubles norms(3);
  std::vector<SquaredLength> lengths(2);
  CHECK_THROWS_WITH(
      one.exact.backward(examples.batch(), *pass, norms),
      ContainsSubstring("a batch has 3 examples, but its pass has memory for at most 2"));
  CHECK_THROWS_AS(one.exact.backward(examples.batch(0, 2), *pass, norms), ConfigError);
  Cells sum(one.size, 1);
  one.exact.backward({}, *pass, {});
  one.exact.make_cells(*pass, {}, kCells, {});
  one.exact.add_cells(*pass, {}, sum);
  one.exact.backward(examples.batch(0, 2), *pass, std::span(norms).first(2));
  CHECK_THROWS_WITH(one.exact.add_cells(*pass, std::vector<std::uint8_t>(2, 1), sum),
                    ContainsSubstring("add_cells() was called before make_cells()"));
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

TEST_CASE("cuda: how many examples a pass is best given follows from the network alone",
          "[backend][privacy][cuda]") {
  // The size of a Poisson batch is private, so nothing may depend on it.
  ThreadExecutor serial(1);
  const Compiled narrow = on_cuda(make_network({5}, {Dense{3}}), serial);
  const Compiled wide =
      on_cuda(make_network({28, 28}, {conv(32, 5, 1, 2), kRelu, Flatten{}, Dense{3}}), serial);
  CHECK(narrow.exact.microbatch_rows() == 4096);
  // An example takes 0.4 MB of the twin's 64 MiB: 25088 outputs, twice, and their derivatives; 800
  // weights as int32 and int16.
  if (on_gpu()) return;
  CHECK(wide.exact.microbatch_rows() > 80);
  CHECK(wide.exact.microbatch_rows() < 168);
}
