// Class weights on the backend cpu: an example's loss does not depend on its neighbours.
#include "exact_programs.hpp"

using namespace privgrad;
namespace exact_programs {

TEST_CASE("cpu exact: another label of one example changes nothing of the others, weights or not",
          "[backend][privacy]") {
  // Weights are constants: unlike in weighted means, they are not divided by their sum over the
  // batch.
  Network network = make_network({7}, {Dense{12}, kTanh, Dense{3}});
  network.class_weights = {0.01, 1.0, 50.0};
  ThreadExecutor threads(2);
  const Compiled one(network, threads);
  Generator generator(43);
  const std::size_t rows = 40, victim = 17;
  const Examples examples = random_examples(generator, network, rows);
  Made before(one, examples.batch());
  const Doubles scales = longest_scales(one, before.norms);
  before.make(scales);
  for (const float label : {0.0f, 1.0f, 2.0f}) {
    Examples neighbours = examples;
    neighbours.targets[victim] = label;
    Made after(one, neighbours.batch());
    after.make(scales);
    for (std::size_t row = 0; row < rows; ++row) {
      if (row == victim) continue;
      INFO("row " << row << ", label " << label);
      REQUIRE(
          same_bits(std::span<const double>(after.norms).subspan(row * one.groups, one.groups),
                    std::span<const double>(before.norms).subspan(row * one.groups, one.groups)));
      REQUIRE(after.lengths[row] == before.lengths[row]);
      const bool same = after.cells(row) == before.cells(row);
      REQUIRE(same);
    }
  }
}

TEST_CASE("cpu: a class weight multiplies the loss and the gradient of its examples", "[backend]") {
  // Powers of two, so that no rounding differs.
  const Loss loss = GENERATE(Loss::cross_entropy, Loss::squared, Loss::logistic);
  const std::size_t classes = loss == Loss::logistic ? 2 : 3;
  const Network plain = make_network(
      {4}, {Dense{6}, kTanh, Dense{loss == Loss::logistic ? 1 : classes}}, loss, classes);
  Network weighted = plain;
  weighted.class_weights = {0.25, 8.0, 2.0};
  weighted.class_weights.resize(classes);
  ThreadExecutor serial(1);
  const Compiled with(weighted, serial), without(plain, serial);
  Generator generator(47);
  const Examples examples = random_examples(generator, plain, 30);
  const Floats rows = gradient_rows(with, examples.batch());
  const Floats expected = gradient_rows(without, examples.batch());
  for (std::size_t row = 0; row < 30; ++row) {
    const auto weight =
        static_cast<float>(weighted.class_weights[static_cast<std::size_t>(examples.targets[row])]);
    for (std::size_t i = 0; i < with.size; ++i)
      REQUIRE(rows[row * with.size + i] == weight * expected[row * with.size + i]);
    CHECK(with.program->evaluate(examples.batch(row, 1)).loss ==
          static_cast<double>(weight) * without.program->evaluate(examples.batch(row, 1)).loss);
    CHECK(with.program->evaluate(examples.batch(row, 1)).correct ==
          without.program->evaluate(examples.batch(row, 1)).correct);
  }
}

}  // namespace exact_programs
