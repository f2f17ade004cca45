// Layers of sequences [length, width]: masks, positions, and layers that combine the places.
#include <algorithm>
#include <functional>

#include "layers/kept_rows.hpp"
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

class MaskStep final : public Step {
 public:
  using Step::Step;
  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    std::transform(in[0], in[0] + count * inputs_, out,
                   [](float token) { return token == kEmptyPlace ? 0.0f : 1.0f; });
  }
  /// Tokens have no derivative.
  void backward(std::size_t, Values, const float*, const float*, Below, Scratch&) const override {}
};

class PositionsStep final : public KeptRows {
 public:
  PositionsStep(const Shape& in, const Shape& out) : KeptRows(in, out) {
    parameter_count_ = inputs_;
  }
  bool works_in_place() const override { return true; }
  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    copy(in[0], count * inputs_, out);
    for (std::size_t i = 0; i < count; ++i) add(own_, inputs_, out + i * inputs_);
  }
  void backward(std::size_t count, Values, const float*, const float* delta, Below below,
                Scratch&) const override {
    copy(delta, count * inputs_, below[0]);
  }
  void gradient_rows(std::size_t count, const float*, const float* delta, float* rows,
                     std::size_t stride, Scratch&) const override {
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(delta + i * outputs_, parameter_count_, rows + i * stride);
  }
};

class PrependStep final : public KeptRows {
 public:
  PrependStep(const Shape& in, const Shape& out) : KeptRows(in, out) {
    parameter_count_ = in.back();
  }
  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(own_, parameter_count_, out + i * outputs_);
      std::copy_n(in[0] + i * inputs_, inputs_, out + i * outputs_ + parameter_count_);
    }
  }
  void backward(std::size_t count, Values, const float*, const float* delta, Below below,
                Scratch&) const override {
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(delta + i * outputs_ + parameter_count_, inputs_, below[0] + i * inputs_);
  }
  void gradient_rows(std::size_t count, const float*, const float* delta, float* rows,
                     std::size_t stride, Scratch&) const override {
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(delta + i * outputs_, parameter_count_, rows + i * stride);
  }
};

/// Adds up the places of a sequence, each times a weight.
class WeightedPlaces : public Step {
 public:
  explicit WeightedPlaces(const Place& place)
      : Step(place.in(), place.out), has_mask_(place.entering.size() > 1) {}

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    std::fill_n(out, count * outputs_, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      for_each_place(i, in, [&](std::size_t place, float weight) {
        add_scaled(weight, in[0] + i * inputs_ + place * outputs_, outputs_, out + i * outputs_);
      });
    }
  }
  void backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                Scratch&) const override {
    std::fill_n(below[0], count * inputs_, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      for_each_place(i, in, [&](std::size_t place, float weight) {
        add_scaled(weight, delta + i * outputs_, outputs_,
                   below[0] + i * inputs_ + place * outputs_);
      });
    }
  }

 protected:
  std::size_t places() const { return inputs_ / outputs_; }
  /// Whether example i has this place: always true without a mask.
  bool is_there(std::size_t i, std::size_t place, Values in) const {
    return !has_mask_ || in[1][i * places() + place] != 0.0f;
  }
  /// Calls use(place, weight) for each place of example i that has a weight, in order.
  virtual void for_each_place(std::size_t i, Values in,
                              const std::function<void(std::size_t, float)>& use) const = 0;

 private:
  bool has_mask_;
};

class MeanStep final : public WeightedPlaces {
 public:
  using WeightedPlaces::WeightedPlaces;

 private:
  void for_each_place(std::size_t i, Values in,
                      const std::function<void(std::size_t, float)>& use) const override {
    std::size_t members = 0;
    for (std::size_t place = 0; place < places(); ++place)
      members += is_there(i, place, in) ? 1 : 0;
    const float weight = 1.0f / static_cast<float>(std::max<std::size_t>(members, 1));
    for (std::size_t place = 0; place < places(); ++place) {
      if (is_there(i, place, in)) use(place, weight);
    }
  }
};

class PickStep final : public WeightedPlaces {
 public:
  PickStep(const PickPlace& layer, const Place& place) : WeightedPlaces(place), layer_(layer) {}

 private:
  void for_each_place(std::size_t i, Values in,
                      const std::function<void(std::size_t, float)>& use) const override {
    if (!layer_.last) return use(layer_.place, 1.0f);
    for (std::size_t place = places(); place-- > 0;) {
      if (is_there(i, place, in)) return use(place, 1.0f);
    }
  }

  PickPlace layer_;
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
  return std::make_unique<MeanStep>(place);
}
template std::unique_ptr<Step> step_of_kind(const MeanOfPlaces&, const Place&);

std::unique_ptr<Step> step_of(const PickPlace& layer, const Place& place) {
  return std::make_unique<PickStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const PickPlace&, const Place&);

}  // namespace privgrad::cpu
