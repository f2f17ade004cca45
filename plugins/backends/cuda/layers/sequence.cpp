// Layers of sequences, on a device.
#include "layers/kept_rows.hpp"
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class MaskStep final : public Step {
 public:
  using Step::Step;
  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, MaskTokens{rows * outputs_, pass.in, pass.out});
  }
  /// Tokens have no derivative.
  void backward(Queue&, std::size_t, const StepPass&) const override {}
};

class PositionsStep final : public KeptRows {
 public:
  PositionsStep(const Shape& in, const Shape& out) : KeptRows(in, out) {
    parameter_count_ = inputs_;
  }
  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, AddPositions{rows * outputs_, outputs_, pass.in, own_, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
  }
  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, TakeFirst{rows * parameter_count_, parameter_count_, outputs_, pass.delta,
                                 gradients, stride});
  }
};

class PrependStep final : public KeptRows {
 public:
  PrependStep(const Shape& in, const Shape& out) : KeptRows(in, out) {
    parameter_count_ = in.back();
  }
  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue,
                PutInFront{rows * outputs_, outputs_, parameter_count_, pass.in, own_, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue,
                TakeBehind{rows * inputs_, outputs_, parameter_count_, pass.delta, pass.below});
  }
  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, TakeFirst{rows * parameter_count_, parameter_count_, outputs_, pass.delta,
                                 gradients, stride});
  }
};

/// Reduces a sequence to the mean of its places, or to one place.
class PlacesStep final : public Step {
 public:
  PlacesStep(const Place& place, PlaceWeights weights)
      : Step(place.in(), place.out), weights_(weights) {
    weights_.places = place.in()[0];
    weights_.width = place.in()[1];
  }
  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, AddPlaces{rows * outputs_, weights(pass), pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, SpreadPlaces{rows * inputs_, weights(pass), pass.delta, pass.below});
  }

 private:
  PlaceWeights weights(const StepPass& pass) const {
    PlaceWeights weights = weights_;
    weights.mask = pass.more_in.empty() ? nullptr : pass.more_in[0];
    return weights;
  }
  PlaceWeights weights_;
};

}  // namespace

std::unique_ptr<Step> step_of(const TokenMask&, const Place& place) {
  return std::make_unique<MaskStep>(place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const TokenMask&, const Place&);

std::unique_ptr<Step> step_of(const Positions&, const Place& place) {
  return std::make_unique<PositionsStep>(place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Positions&, const Place&);

std::unique_ptr<Step> step_of(const Prepend&, const Place& place) {
  return std::make_unique<PrependStep>(place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Prepend&, const Place&);

std::unique_ptr<Step> step_of(const MeanOfPlaces&, const Place& place) {
  return std::make_unique<PlacesStep>(place, PlaceWeights{});
}
template std::unique_ptr<Step> step_of_kind(const MeanOfPlaces&, const Place&);

std::unique_ptr<Step> step_of(const PickPlace& layer, const Place& place) {
  PlaceWeights weights{};
  weights.is_pick = true;
  weights.is_last = layer.last;
  weights.picked = layer.place;
  return std::make_unique<PlacesStep>(place, weights);
}
template std::unique_ptr<Step> step_of_kind(const PickPlace&, const Place&);

}  // namespace privgrad::cuda
