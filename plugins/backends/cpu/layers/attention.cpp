// Softmax attention, with the same bits on every processor and for any number of empty places after
// a sequence.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../../elementary.hpp"
#include "chains.hpp"
#include "layers/kind.hpp"
#include "layers/softmax.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

using namespace elementary;

/// A head uses some columns of the inputs. The backward pass recomputes the probabilities, so none
/// are stored.
class AttentionStep final : public Step {
 public:
  AttentionStep(const Attention& layer, const Place& place);
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;

 private:
  /// The memory of a task for one example.
  struct Memory {
    float *queries, *keys;          // turned, if the layer turns them
    float *probabilities, *slopes;  // of one head: [places, places]
    float* turned;                  // [width of a head, places]: keys or values of one head
    float* open;                    // [places]: 0 for an empty place
  };

  std::size_t key_width() const { return layer_.key_heads * width_; }
  Memory memory_of(Scratch& scratch) const;
  void look_at(std::size_t i, Values in, Memory& memory, Scratch& scratch) const;
  void find_probabilities(std::size_t head, const Memory& memory) const;
  /// Returns the first column of the head's keys and values.
  std::size_t key_column(std::size_t head) const {
    return head / (layer_.heads / layer_.key_heads) * width_;
  }
  /// Rotates each head's pairs of numbers by the angles of their place, or rotates them back.
  void turn(const float* from, std::size_t heads, bool is_back, float* to) const;

  Attention layer_;
  std::size_t places_, width_;  // a sequence's places, a head's width
  bool has_mask_;
  float scale_;
  std::vector<float> cosines_, sines_;  // [places, width / 2]
};

AttentionStep::AttentionStep(const Attention& layer, const Place& place)
    : Step(place.in(), place.out),
      layer_(layer),
      places_(place.in()[0]),
      width_(place.in()[1] / layer.heads),
      has_mask_(place.entering.size() > 3),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(width_)))) {
  if (layer_.rotary == 0.0) return;
  const std::size_t pairs = width_ / 2;
  for (std::size_t t = 0; t < places_; ++t) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const double power = static_cast<double>(i) / static_cast<double>(pairs);
      const Rotation rotation = rotation_by(static_cast<double>(t) *
                                            exp_fixed(-power * log1p_fixed(layer_.rotary - 1.0)));
      cosines_.push_back(static_cast<float>(rotation.cosine));
      sines_.push_back(static_cast<float>(rotation.sine));
    }
  }
}

void AttentionStep::turn(const float* from, std::size_t heads, bool is_back, float* to) const {
  const std::size_t pairs = width_ / 2;
  for (std::size_t t = 0; t < places_; ++t) {
    const float* cosine = cosines_.data() + t * pairs;
    const float* sine = sines_.data() + t * pairs;
    for (std::size_t head = 0; head < heads; ++head, from += width_, to += width_) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const float first = from[i], second = from[i + pairs];
        const float s = is_back ? -sine[i] : sine[i];
        to[i] = first * cosine[i] - second * s;
        to[i + pairs] = second * cosine[i] + first * s;
      }
    }
  }
}

AttentionStep::Memory AttentionStep::memory_of(Scratch& scratch) const {
  const std::size_t square = places_ * places_;
  float* of_head = at_least(scratch.panel, 2 * square + width_ * places_ + places_);
  return {.queries = nullptr,
          .keys = nullptr,
          .probabilities = of_head,
          .slopes = of_head + square,
          .turned = of_head + 2 * square,
          .open = of_head + 2 * square + width_ * places_};
}

void AttentionStep::look_at(std::size_t i, Values in, Memory& memory, Scratch& scratch) const {
  const std::size_t keys = places_ * key_width();
  const float* query = in[0] + i * inputs_;
  const float* key = in[1] + i * keys;
  // Queries and keys are copied; with rotary positions, the copies are turned.
  memory.queries = at_least(scratch.padded, inputs_);
  memory.keys = at_least(scratch.patches, keys);
  if (layer_.rotary == 0.0) {
    copy(query, inputs_, memory.queries);
    copy(key, keys, memory.keys);
  } else {
    turn(query, layer_.heads, false, memory.queries);
    turn(key, layer_.key_heads, false, memory.keys);
  }
  for (std::size_t s = 0; s < places_; ++s)
    memory.open[s] = has_mask_ ? in[3][i * places_ + s] : 1.0f;
}

void AttentionStep::find_probabilities(std::size_t head, const Memory& memory) const {
  transpose(places_, width_, memory.keys + key_column(head), key_width(), memory.turned, places_);
  multiply_chains(places_, places_, width_,
                  {.data = memory.queries + head * width_, .row = layer_.heads * width_},
                  memory.turned, places_, {}, memory.probabilities, places_);
  for (std::size_t t = 0; t < places_; ++t) {
    float* row = memory.probabilities + t * places_;
    const std::size_t seen = layer_.causal ? t + 1 : places_;
    softmax(memory.open, seen, scale_, row);
    std::fill(row + seen, row + places_, 0.0f);
  }
}

void AttentionStep::forward(std::size_t count, Values in, float* out, Scratch& scratch) const {
  Memory memory = memory_of(scratch);
  for (std::size_t i = 0; i < count; ++i) {
    look_at(i, in, memory, scratch);
    const float* values = in[2] + i * places_ * key_width();
    for (std::size_t head = 0; head < layer_.heads; ++head) {
      find_probabilities(head, memory);
      multiply_chains(places_, width_, places_, {.data = memory.probabilities, .row = places_},
                      values + key_column(head), key_width(), {},
                      out + i * outputs_ + head * width_, layer_.heads * width_);
    }
  }
}

void AttentionStep::backward(std::size_t count, Values in, const float*, const float* delta,
                             Below below, Scratch& scratch) const {
  Memory memory = memory_of(scratch);
  const std::size_t keys = places_ * key_width();
  float* const turned = at_least(scratch.scaled, inputs_ + keys);
  for (std::size_t i = 0; i < count; ++i) {
    look_at(i, in, memory, scratch);
    const float* values = in[2] + i * keys;
    const float* errors = delta + i * outputs_;
    const auto of_example = [&](std::size_t input, std::size_t size) {
      return below[input] == nullptr ? nullptr : below[input] + i * size;
    };
    float* const to_queries = of_example(0, inputs_);
    float* const to_keys = of_example(1, keys);
    float* const to_values = of_example(2, keys);
    // The derivatives with respect to turned queries and keys are turned back at the end.
    const bool turns = layer_.rotary != 0.0;
    float* const of_queries = turns && to_queries != nullptr ? turned : to_queries;
    float* const of_keys = turns && to_keys != nullptr ? turned + inputs_ : to_keys;
    for (std::size_t head = 0; head < layer_.heads; ++head) {
      const std::size_t column = head * width_, row = layer_.heads * width_;
      // Heads that read the same keys and values add to the same derivatives in order.
      const Start start{{}, {}, head % (layer_.heads / layer_.key_heads) != 0};
      find_probabilities(head, memory);
      if (to_values != nullptr) {
        multiply_chains(places_, width_, places_,
                        {.data = memory.probabilities, .row = 1, .inner = places_}, errors + column,
                        row, start, to_values + key_column(head), key_width());
      }
      if (of_queries == nullptr && of_keys == nullptr) continue;
      transpose(places_, width_, values + key_column(head), key_width(), memory.turned, places_);
      multiply_chains(places_, places_, width_, {.data = errors + column, .row = row},
                      memory.turned, places_, {}, memory.slopes, places_);
      for (std::size_t t = 0; t < places_; ++t) {
        softmax_backward(memory.probabilities + t * places_, places_, scale_,
                         memory.slopes + t * places_);
      }
      if (of_queries != nullptr) {
        multiply_chains(places_, width_, places_, {.data = memory.slopes, .row = places_},
                        memory.keys + key_column(head), key_width(), {}, of_queries + column, row);
      }
      if (of_keys != nullptr) {
        multiply_chains(
            places_, width_, places_, {.data = memory.slopes, .row = 1, .inner = places_},
            memory.queries + column, row, start, of_keys + key_column(head), key_width());
      }
    }
    if (turns && to_queries != nullptr) turn(of_queries, layer_.heads, true, to_queries);
    if (turns && to_keys != nullptr) turn(of_keys, layer_.key_heads, true, to_keys);
  }
}

}  // namespace

std::unique_ptr<Step> step_of(const Attention& layer, const Place& place) {
  return std::make_unique<AttentionStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const Attention&, const Place&);

}  // namespace privgrad::cpu
