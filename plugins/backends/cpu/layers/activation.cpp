// Functions of each element by itself.
#include "layers/make_step.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

/// A function whose derivative follows from its value, so that it works in place.
class InPlaceStep final : public Step {
 public:
  InPlaceStep(const Elementwise& function, const Place& place)
      : Step(place.in(), place.out), function_(function) {}

  bool works_in_place() const override { return true; }
  bool gives_output_away() const override { return false; }
  const Elementwise* function() const override { return &function_; }

  void forward(std::size_t count, const float* in, float* out, Scratch&) const override {
    function_.apply(in, count * inputs_, out);
  }
  float* backward(std::size_t count, const float*, const float* out, float* delta, float*,
                  Scratch&) const override {
    function_.hand_down(out, count * outputs_, delta);
    return delta;
  }

 private:
  Elementwise function_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Activation& layer, const Place& place) {
  switch (layer.kind) {
    case ActivationKind::relu:
      return std::make_unique<InPlaceStep>(Elementwise{relu, relu_backward}, place);
    case ActivationKind::tanh:
      return std::make_unique<InPlaceStep>(Elementwise{tanh, tanh_backward}, place);
    case ActivationKind::sigmoid:
      break;
  }
  return std::make_unique<InPlaceStep>(Elementwise{sigmoid, sigmoid_backward}, place);
}

}  // namespace privgrad::cpu
