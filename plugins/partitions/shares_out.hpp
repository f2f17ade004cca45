// The base class of transforms that assign examples to clients, with helpers for equal shares.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "privgrad/partition.hpp"
#include "privgrad/transform.hpp"

/// A transform that leaves examples unchanged and assigns each of them to a client.
class SharesOut : public privgrad::Transform, public privgrad::Partition {
 public:
  privgrad::ExampleShape output_shape(const privgrad::ExampleShape& input) const override {
    return input;
  }
  void fit(privgrad::Dataset&) override {}
  void apply(privgrad::Dataset&) const override {}
  privgrad::Statistic statistic() const override { return privgrad::Statistic::none; }
};

/// \returns 0, 1, ... count - 1 in an order drawn uniformly (Fisher and Yates).
inline std::vector<std::uint32_t> shuffled(std::size_t count, privgrad::RandomStream& random) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random.uniform_below(i)]);
  }
  return order;
}

/// \returns the size of part number `part` if `count` items are divided into `parts` parts that are
///   as equal as possible, larger parts first.
inline std::uint64_t part_size(std::uint64_t count, std::uint64_t parts, std::uint64_t part) {
  return count / parts + (part < count % parts ? 1 : 0);
}
