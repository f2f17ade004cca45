#include "privgrad/clipping.hpp"

#include "support.hpp"

using namespace privgrad;

namespace {

std::vector<ParameterGroup> groups_of(const Shape& shape, std::vector<Node> nodes) {
  Network network;
  network.input.features = shape;
  network.nodes = std::move(nodes);
  const auto groups = parameter_groups(network);
  // Checks that the groups are contiguous and complete.
  std::size_t end = 0;
  for (const ParameterGroup& group : groups) {
    CHECK(group.offset == end);
    end += group.size;
  }
  CHECK(end == parameter_count(network));
  return groups;
}

}  // namespace

TEST_CASE("parameters are grouped by layer, weights and biases together", "[clipping]") {
  const auto groups = groups_of(
      {4, 4}, {Conv2d{.channels = 2, .kernel = 3}, Activation{}, GroupNorm{.groups = 2}, Dense{3}});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "layers.0");
  CHECK(groups[0].size == 2 * 9 + 2);
  CHECK(groups[1].name == "layers.2");
  CHECK(groups[1].size == 2 + 2);
  CHECK(groups[2].name == "layers.3");
  CHECK(groups[2].size == 3 * 8 + 3);  // the convolution leaves 2 x 2 x 2
}

TEST_CASE("eleven layers are eleven groups", "[clipping]") {
  const auto deep = groups_of({2}, std::vector<Node>(11, Dense{2}));
  REQUIRE(deep.size() == 11);  // layers.1 and layers.10 are different
  CHECK(deep[10].name == "layers.10");
}
