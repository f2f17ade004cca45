// Normalisations on a device, whose gradients are kept as rows.
#include "layers/kept_rows.hpp"
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class NormStep final : public KeptRows {
 public:
  NormStep(const GroupNorm& layer, const Shape& in, const Shape& out) : KeptRows(in, out) {
    const std::size_t places = inputs_ / in.back();
    set(in, places, in.back() / layer.groups, layer.epsilon);
  }
  NormStep(const LayerNorm& layer, const Shape& in, const Shape& out) : KeptRows(in, out) {
    set(in, 1, in.back(), layer.epsilon);
  }
  NormStep(const RmsNorm& layer, const Shape& in, const Shape& out) : KeptRows(in, out) {
    set(in, 1, in.back(), layer.epsilon);
    norm_.centres = false;
    parameter_count_ = in.back();
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    KeptRows::allocate(device, rows, use, pass);
    pass.moments = {device, rows * norm_.sets()};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch(queue, NormMoments{rows * norm_.sets(), norm_, pass.in, pass.moments.data()});
    launch_each(queue,
                NormForward{rows * outputs_, norm_, pass.in, own_, pass.moments.data(), pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch(queue, NormBackward{rows * norm_.sets(), norm_, pass.in, own_, pass.delta,
                               pass.moments.data(), pass.below});
  }
  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, NormGradient{rows * norm_.channels, norm_, pass.in, pass.delta,
                                    pass.moments.data(), gradients, stride});
  }

 private:
  void set(const Shape& in, std::size_t places_per_set, std::size_t channels_per_set,
           double epsilon) {
    norm_ = {.places = inputs_ / in.back(),
             .channels = in.back(),
             .places_per_set = places_per_set,
             .channels_per_set = channels_per_set,
             .epsilon = epsilon,
             .centres = true};
    parameter_count_ = 2 * in.back();
  }

  Norm norm_{};
};

}  // namespace

std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const GroupNorm&, const Place&);

std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const LayerNorm&, const Place&);

std::unique_ptr<Step> step_of(const RmsNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const RmsNorm&, const Place&);

}  // namespace privgrad::cuda
