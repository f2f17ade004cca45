// Layers that add or multiply values, scale one, or take a part of one, on a device.
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class AddStep final : public Step {
 public:
  explicit AddStep(const Place& place) : Step(place.in(), place.out) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.in, pass.out});
    for (const float* more : pass.more_in)
      launch_each(queue, AddTo{rows * outputs_, more, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    const auto hand_down = [&](float* below) {
      if (below != nullptr) launch_each(queue, PassOn{rows * outputs_, pass.delta, below});
    };
    hand_down(pass.below);
    for (float* below : pass.more_below) hand_down(below);
  }
};

class MultiplyStep final : public Step {
 public:
  explicit MultiplyStep(const Place& place) : Step(place.in(), place.out) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, MultiplyValues{rows * outputs_, pass.in, pass.more_in[0], pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    if (pass.below != nullptr) {
      launch_each(queue, MultiplyValues{rows * outputs_, pass.delta, pass.more_in[0], pass.below});
    }
    if (pass.more_below[0] != nullptr) {
      launch_each(queue, MultiplyValues{rows * outputs_, pass.delta, pass.in, pass.more_below[0]});
    }
  }
};

class ScaleStep final : public Step {
 public:
  ScaleStep(const Scale& layer, const Place& place)
      : Step(place.in(), place.out), factor_(static_cast<float>(layer.factor)) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, MultiplyBy{rows * outputs_, factor_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, MultiplyBy{rows * outputs_, factor_, pass.delta, pass.below});
  }

 private:
  float factor_;
};

class PartStep final : public Step {
 public:
  PartStep(const PartOf& layer, const Place& place)
      : Step(place.in(), place.out), layer_(layer), extent_(place.in().back()) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue,
                TakePart{rows * outputs_, extent_, layer_.first, layer_.size, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(
        queue, PutPart{rows * inputs_, extent_, layer_.first, layer_.size, pass.delta, pass.below});
  }

 private:
  PartOf layer_;
  std::size_t extent_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Add&, const Place& place) {
  return std::make_unique<AddStep>(place);
}
template std::unique_ptr<Step> step_of_kind(const Add&, const Place&);

std::unique_ptr<Step> step_of(const ElementwiseProduct&, const Place& place) {
  return std::make_unique<MultiplyStep>(place);
}
template std::unique_ptr<Step> step_of_kind(const ElementwiseProduct&, const Place&);

std::unique_ptr<Step> step_of(const Scale& layer, const Place& place) {
  return std::make_unique<ScaleStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const Scale&, const Place&);

std::unique_ptr<Step> step_of(const PartOf& layer, const Place& place) {
  return std::make_unique<PartStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const PartOf&, const Place&);

}  // namespace privgrad::cuda
