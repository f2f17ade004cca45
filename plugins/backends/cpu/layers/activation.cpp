// Elementwise functions, with the same bits on every processor (loops.hpp).
#include <cstddef>

#include "../../elementary.hpp"
#include "instruction_loops.hpp"
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

using namespace elementary;

/// Defines a loop that applies a function, and a loop that multiplies by its derivative.
#define PRIVGRAD_ACTIVATION(name)                                                               \
  PRIVGRAD_INLINE void name##_body(const float* in, std::size_t count, float* out) {            \
    for (std::size_t i = 0; i < count; ++i) out[i] = name##_fixed(in[i]);                       \
  }                                                                                             \
  PRIVGRAD_INLINE void name##_backward_body(const float* y, std::size_t n, float* delta) {      \
    for (std::size_t i = 0; i < n; ++i) delta[i] = name##_backward_fixed(y[i], delta[i]);       \
  }                                                                                             \
  PRIVGRAD_LOOP(void, name, (const float* in, std::size_t count, float* out), (in, count, out)) \
  PRIVGRAD_LOOP(void, name##_backward, (const float* y, std::size_t count, float* delta),       \
                (y, count, delta))

PRIVGRAD_ACTIVATION(relu)
PRIVGRAD_ACTIVATION(tanh)
PRIVGRAD_ACTIVATION(sigmoid)
PRIVGRAD_ACTIVATION(gelu)
PRIVGRAD_ACTIVATION(silu)
PRIVGRAD_ACTIVATION(gelu_tanh)
#undef PRIVGRAD_ACTIVATION

/// A function whose derivative can be computed from its value, so that it works in place.
class InPlaceStep final : public Step {
 public:
  InPlaceStep(const Elementwise& function, const Place& place)
      : Step(place.in(), place.out), function_(function) {}

  bool works_in_place() const override { return true; }
  bool gives_output_away() const override { return false; }
  const Elementwise* function() const override { return &function_; }

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    function_.apply(in[0], count * inputs_, out);
  }
  void backward(std::size_t count, Values, const float* out, const float* delta, Below below,
                Scratch&) const override {
    copy(delta, count * outputs_, below[0]);
    function_.hand_down(out, count * outputs_, below[0]);
  }

 private:
  Elementwise function_;
};

/// A function whose derivative needs its input, which is kept.
class FromInputStep final : public Step {
 public:
  FromInputStep(const Elementwise& function, const Place& place)
      : Step(place.in(), place.out), function_(function) {}

  bool hands_down_in_place() const override { return true; }

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    function_.apply(in[0], count * inputs_, out);
  }
  void backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                Scratch&) const override {
    copy(delta, count * inputs_, below[0]);
    function_.hand_down(in[0], count * inputs_, below[0]);
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
    case ActivationKind::gelu:
      return std::make_unique<FromInputStep>(Elementwise{gelu, gelu_backward}, place);
    case ActivationKind::silu:
      return std::make_unique<FromInputStep>(Elementwise{silu, silu_backward}, place);
    case ActivationKind::gelu_tanh:
      return std::make_unique<FromInputStep>(Elementwise{gelu_tanh, gelu_tanh_backward}, place);
    case ActivationKind::sigmoid:
      break;
  }
  return std::make_unique<InPlaceStep>(Elementwise{sigmoid, sigmoid_backward}, place);
}
template std::unique_ptr<Step> step_of_kind(const Activation&, const Place&);

}  // namespace privgrad::cpu
