// Elementwise functions, on a device.
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class ActivationStep final : public Step {
 public:
  ActivationStep(const Activation& layer, const Shape& in, const Shape& out)
      : Step(in, out), kind_(layer.kind) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, Activate{rows * outputs_, kind_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(
        queue, ActivateBackward{rows * outputs_, kind_, pass.in, pass.out, pass.delta, pass.below});
  }

 private:
  ActivationKind kind_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Activation& layer, const Place& place) {
  return std::make_unique<ActivationStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Activation&, const Place&);

}  // namespace privgrad::cuda
