#include "privgrad/dataset.hpp"

#include <cmath>

#include "privgrad/error.hpp"
#include "privgrad/network.hpp"
#include "support.hpp"

using namespace privgrad;

TEST_CASE("rows are gathered in the order asked for", "[dataset]") {
  const Dataset data(ExampleShape{{2}, 3}, {1, 2, 3, 4, 5, 6}, {0, 1, 2});
  std::vector<float> features(4), targets(2);
  const std::vector<std::uint32_t> rows{2, 0};
  data.gather(rows, features, targets);
  CHECK(features == std::vector<float>{5, 6, 1, 2});
  CHECK(targets == std::vector<float>{2, 0});
}

TEST_CASE("bytes read as reals, scaled, before and after they are converted", "[dataset]") {
  Dataset data(ExampleShape{{1}, 0}, std::vector<std::uint8_t>{0, 51, 255}, 1.0f / 255.0f,
               {0, 0, 0});
  std::vector<float> before(3), after(3), targets(3);
  const std::vector<std::uint32_t> rows{0, 1, 2};
  data.gather(rows, before, targets);
  data.features();
  data.gather(rows, after, targets);
  CHECK(before == after);
  CHECK(before == std::vector<float>{0.0f, 51.0f * (1.0f / 255.0f), 1.0f});
}

TEST_CASE("data that is not what its shape says is refused, with the row", "[dataset]") {
  const ExampleShape two_classes{{2}, 2};
  CHECK_THROWS_AS(Dataset(two_classes, {1, 2, 3}, {0, 1}), IoError);
  CHECK_THROWS_WITH(Dataset(two_classes, {1, 2, 3, 4}, {0, 2}),
                    ContainsSubstring("row 1: the label is not a class below 2"));
  CHECK_THROWS_AS(Dataset(two_classes, {1, 2, 3, 4}, {0, -1}), IoError);
  CHECK_THROWS_AS(Dataset(two_classes, {1, 2, 3, 4}, {0, 0.5f}), IoError);
  CHECK_THROWS_AS(Dataset(two_classes, {1, 2, 3, 4}, {0, std::nanf("")}), IoError);
  CHECK_THROWS_WITH(Dataset(two_classes, {1, 2, 3, HUGE_VALF}, {0, 1}),
                    ContainsSubstring("row 1, feature 1"));
  CHECK_THROWS_AS(Dataset(ExampleShape{{0}, 2}, std::vector<float>{}, {0}), IoError);
}

TEST_CASE("changed features obey the same rules, and a refusal changes nothing", "[dataset]") {
  Dataset data(ExampleShape{{2}, 2}, {1, 2, 3, 4}, {0, 1});
  CHECK_THROWS_AS(data.replace_features({1}, {1, std::nanf("")}), IoError);
  CHECK(data.row_size() == 2);
  data.replace_features({1}, {7, 8});
  CHECK(data.row_size() == 1);
  CHECK(data.features()[1] == 8.0f);
}

TEST_CASE("shapes that overflow are refused", "[dataset]") {
  const std::size_t huge = std::size_t{1} << 40;
  CHECK_THROWS_AS(element_count({huge, huge}), ConfigError);
  CHECK(element_count({}) == 1);
  CHECK(to_text(Shape{28, 28}) == "28 x 28");
}

namespace {

Network network_of(ExampleShape input, std::vector<Node> nodes, Loss loss) {
  Network network;
  network.input = std::move(input);
  network.nodes = std::move(nodes);
  network.loss = loss;
  return network;
}

}  // namespace

TEST_CASE("the parameters of a network lie one after the other, named like its layers",
          "[network]") {
  const Network network =
      network_of({{28, 28}, 10}, {Dense{100}, Activation{ActivationKind::relu}, Dense{10}},
                 Loss::cross_entropy);
  const auto blocks = parameter_blocks(network);
  REQUIRE(blocks.size() == 4);
  CHECK(blocks[0].name == "layers.0.weight");
  CHECK(blocks[0].shape == Shape{100, 784});
  CHECK(blocks[0].fan_in == 784);
  CHECK(blocks[1].offset == 78400);
  CHECK(blocks[2].name == "layers.2.weight");
  CHECK(blocks[2].offset == 78500);
  CHECK(parameter_count(network) == 79510);
  CHECK(output_count(network) == 10);
  CHECK_NOTHROW(check_network(network));
}

TEST_CASE("losses, outputs and targets must fit", "[network]") {
  const auto check = [](std::size_t classes, std::size_t outputs, Loss loss) {
    check_network(network_of({{2}, classes}, {Dense{outputs}}, loss));
  };
  CHECK_NOTHROW(check(2, 1, Loss::logistic));
  CHECK_NOTHROW(check(0, 1, Loss::squared));
  CHECK_NOTHROW(check(3, 3, Loss::squared));
  CHECK_THROWS_AS(check(3, 2, Loss::cross_entropy), ConfigError);
  CHECK_THROWS_AS(check(1, 1, Loss::cross_entropy),
                  ConfigError);  // a single class: nothing to distinguish
  CHECK_THROWS_AS(check(0, 1, Loss::cross_entropy), ConfigError);
  CHECK_THROWS_AS(check(3, 1, Loss::logistic), ConfigError);
  CHECK_THROWS_AS(check_network(network_of({{2}, 2}, {}, Loss::cross_entropy)), ConfigError);
}
