// Adds the input of an earlier layer, directly or projected, on a device.
#include "layers/convolution.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cuda {
namespace {

/// Adds the input of an earlier layer.
class ShortcutStep final : public Step {
 public:
  ShortcutStep(const Shape& shape, std::size_t over) : Step(shape, shape), over_(over) {}

  std::size_t reaches_back() const override { return over_; }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.in, pass.out});
    launch_each(queue, AddTo{rows * outputs_, pass.earlier, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
    if (pass.earlier_added != nullptr)
      launch_each(queue, AddTo{rows * outputs_, pass.delta, pass.earlier_added});
  }

 private:
  std::size_t over_;
};

/// Adds the input of an earlier layer after a convolution.
class ProjectedShortcutStep final : public ConvStep {
 public:
  ProjectedShortcutStep(const Conv2d& projection, const Shape& earlier, const Shape& out,
                        std::size_t over)
      : ConvStep(projection, earlier, out), over_(over) {}

  std::size_t reaches_back() const override { return over_; }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    ConvStep::allocate(device, rows, use, pass);
    if (use >= PassUse::gradients) pass.projected = {device, rows * inputs_};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    ConvStep::forward(queue, rows, pass);
    launch_each(queue, AddTo{rows * outputs_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
    if (pass.earlier_added == nullptr) return;
    convolve_backward(queue, rows, pass.delta, pass.projected.data());
    launch_each(queue, AddTo{rows * inputs_, pass.projected.data(), pass.earlier_added});
  }

 private:
  const float* input(const StepPass& pass) const override { return pass.earlier; }

  std::size_t over_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Shortcut& layer, const Place& place) {
  const Shape& earlier = place.earlier(layer.over);
  if (const auto projection = projection_of(layer, place.in(), earlier)) {
    return std::make_unique<ProjectedShortcutStep>(*projection, earlier, place.out, layer.over);
  }
  return std::make_unique<ShortcutStep>(place.in(), layer.over);
}

}  // namespace privgrad::cuda
