// A correct model, for derived classes to break.
#pragma once

#include <algorithm>
#include <span>

#include "privgrad/model.hpp"
#include "privgrad/params.hpp"

/// One dense layer.
class RightModel : public privgrad::Model {
 public:
  explicit RightModel(const privgrad::Params&) {}
  privgrad::Network network(const privgrad::ExampleShape& input) const override {
    privgrad::Network network;
    network.input = input;
    network.nodes.push_back(privgrad::Dense{std::max<std::size_t>(1, input.classes)});
    network.loss = input.classes == 0 ? privgrad::Loss::squared : privgrad::Loss::cross_entropy;
    return network;
  }
  void initialise(const privgrad::Network&, privgrad::RandomStream& random,
                  std::span<float> parameters) const override {
    random.fill_normal(parameters);
  }
};
