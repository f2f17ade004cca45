// Gives the same numbers other extents: the output is the input.
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class ReshapeStep final : public Step {
 public:
  using Step::Step;
  bool passes_on() const override { return true; }
  void forward(Queue&, std::size_t, const StepPass&) const override {}
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    if (pass.below != pass.delta)
      launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
  }
};

}  // namespace

std::unique_ptr<Step> step_of(const Flatten&, const Place& place) {
  return std::make_unique<ReshapeStep>(place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Flatten&, const Place&);

std::unique_ptr<Step> step_of(const Reshape&, const Place& place) {
  return std::make_unique<ReshapeStep>(place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Reshape&, const Place&);

}  // namespace privgrad::cuda
