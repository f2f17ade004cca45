// Models that describe untrainable networks, or have different initial values each time.
#include <algorithm>
#include <cmath>
#include <thread>

#include "fault.hpp"
#include "right_model.hpp"

using namespace privgrad;

namespace models {

class Base : public RightModel {
 public:
  using RightModel::RightModel;
  mutable std::uint64_t calls_ = 0;
};

/// Initial weights.
struct Begin {
  const Base& self;
  RandomStream& random;
  std::span<float> weights;

  void fill(float value) const { std::fill(weights.begin(), weights.end(), value); }
};

struct Row {
  Told told;
  /// Changes a correct network.
  void (*network)(const Base&, Network&) = nullptr;
  void (*begin)(const Begin&) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    {.told = {"no_layers", "nothing to train"},
     .network = [](const Base&, Network& network) { network.nodes.clear(); }},
    {.told = {"too_few_outputs", "fewer outputs than classes"},
     .network =
         [](const Base&, Network& network) {
           network.nodes = {Dense{1}};
           network.loss = Loss::cross_entropy;
         }},
    {.told = {"wrong_loss", "a loss for other targets"},
     .network =
         [](const Base&, Network& network) {
           network.loss = network.input.classes == 0 ? Loss::cross_entropy : Loss::logistic;
         }},
    {.told = {"other_input", "a network for other examples"},
     .network = [](const Base&, Network& network) { network.input.features.push_back(2); }},
    {.told = {"grows", "another network each time"},
     .network =
         [](const Base& self, Network& network) {
           network.nodes.insert(network.nodes.begin(),
                                Dense{static_cast<std::size_t>(++self.calls_)});
         }},
    {.told = {"begins_nan", "weights that are not numbers"},
     .begin = [](const Begin& begin) { begin.fill(std::nanf("")); }},
    {.told = {"begins_infinite", "weights beyond all bounds"},
     .begin = [](const Begin& begin) { begin.fill(HUGE_VALF); }},
    {.told = {"begins_unwritten", "leaves the weights as they were"}, .begin = [](const Begin&) {}},
    {.told = {"begins_by_calls", "other weights each time: a generator of its own"},
     .begin =
         [](const Begin& begin) {
           for (float& x : begin.weights) x = 0.01f * static_cast<float>(++begin.self.calls_);
         }},
    {.told = {"begins_by_thread", "other weights on another thread"},
     .begin =
         [](const Begin& begin) {
           begin.random.fill_normal(begin.weights);
           if (std::this_thread::get_id() != kHome) begin.weights[0] = 7.0f;
         }},
    {.told = {"begins_equal", "all weights 0", Let::harmless, "public values"},
     .begin = [](const Begin& begin) { begin.fill(0.0f); }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  using Base::Base;
  Network network(const ExampleShape& input) const override {
    Network network = Base::network(input);
    if (kTable[I].network != nullptr) kTable[I].network(*this, network);
    return network;
  }
  void initialise(const Network& network, RandomStream& random,
                  std::span<float> weights) const override {
    if (kTable[I].begin != nullptr) return kTable[I].begin({*this, random, weights});
    Base::initialise(network, random, weights);
  }
};

}  // namespace models

std::vector<Fault> model_faults() {
  using namespace models;
  return faults_of<Model, Faulty>(kTable, "model", [](const Row& row) {
    return std::vector<std::string>{std::string("model=") + row.told.id};
  });
}
