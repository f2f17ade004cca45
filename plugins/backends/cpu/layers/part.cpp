// Takes some elements of the last extent.
#include <algorithm>

#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

class PartStep final : public Step {
 public:
  PartStep(const PartOf& layer, const Place& place)
      : Step(place.in(), place.out), layer_(layer), extent_(place.in().back()) {}

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    for_each_place(count, [&](std::size_t whole, std::size_t part) {
      copy_short(in[0] + whole, layer_.size, out + part);
    });
  }
  void backward(std::size_t count, Values, const float*, const float* delta, Below below,
                Scratch&) const override {
    std::fill_n(below[0], count * inputs_, 0.0f);
    for_each_place(count, [&](std::size_t whole, std::size_t part) {
      copy_short(delta + part, layer_.size, below[0] + whole);
    });
  }

 private:
  /// Calls body(first element in the input, first element in the output) for each place.
  template <class Body>
  void for_each_place(std::size_t count, const Body& body) const {
    const std::size_t places = count * inputs_ / extent_;
    for (std::size_t i = 0; i < places; ++i) body(i * extent_ + layer_.first, i * layer_.size);
  }

  PartOf layer_;
  std::size_t extent_;
};

}  // namespace

std::unique_ptr<Step> step_of(const PartOf& layer, const Place& place) {
  return std::make_unique<PartStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const PartOf&, const Place&);

}  // namespace privgrad::cpu
