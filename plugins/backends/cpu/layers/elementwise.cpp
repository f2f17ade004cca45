// Layers that add or multiply values, or scale one.
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

class AddStep final : public Step {
 public:
  explicit AddStep(const Place& place) : Step(place.in(), place.out) {}

  bool works_in_place() const override { return true; }

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    copy(in[0], count * inputs_, out);
    for (const float* more : in.subspan(1)) add(more, count * inputs_, out);
  }
  void backward(std::size_t count, Values, const float*, const float* delta, Below below,
                Scratch&) const override {
    for (float* to : below) {
      if (to != nullptr) copy(delta, count * inputs_, to);
    }
  }
};

class MultiplyStep final : public Step {
 public:
  explicit MultiplyStep(const Place& place) : Step(place.in(), place.out) {}

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    multiply(in[0], in[1], count * inputs_, out);
  }
  void backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                Scratch&) const override {
    if (below[0] != nullptr) multiply(delta, in[1], count * inputs_, below[0]);
    if (below[1] != nullptr) multiply(delta, in[0], count * inputs_, below[1]);
  }

 private:
  static void multiply(const float* a, const float* b, std::size_t count, float* product) {
    for (std::size_t i = 0; i < count; ++i) product[i] = a[i] * b[i];
  }
};

class ScaleStep final : public Step {
 public:
  ScaleStep(const Scale& layer, const Place& place)
      : Step(place.in(), place.out), factor_(static_cast<float>(layer.factor)) {}

  bool works_in_place() const override { return true; }

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    multiply(in[0], count, out);
  }
  void backward(std::size_t count, Values, const float*, const float* delta, Below below,
                Scratch&) const override {
    multiply(delta, count, below[0]);
  }

 private:
  void multiply(const float* from, std::size_t count, float* to) const {
    for (std::size_t i = 0; i < count * inputs_; ++i) to[i] = factor_ * from[i];
  }

  float factor_;
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

}  // namespace privgrad::cpu
