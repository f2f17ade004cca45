// File length: one case for each kind of layer, of passes that mirror each other.

#include "layer_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "chains.hpp"
#include "loops.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cpu {
namespace {

std::size_t channels_of(const Shape& image) { return image.size() == 3 ? image[2] : 1; }

}  // namespace

Step::Step(const Shape& in, const Shape& out)
    : inputs_(element_count(in)), outputs_(element_count(out)) {}

Step::~Step() = default;

void Step::gradient_rows(std::size_t, const float*, const float*, float*, std::size_t,
                         Scratch&) const {}

// --- dense

DenseStep::DenseStep(const Dense&, const Shape& in, const Shape& out) : Step(in, out) {
  parameter_count_ = element_count({outputs_, inputs_}) + outputs_;
}

void DenseStep::forward(std::size_t count, const float* in, float* out, Scratch& scratch) const {
  float* panel = at_least(scratch.panel, inputs_ * kPanel);
  for (std::size_t first = 0; first < count; first += kPanel) {
    const std::size_t rows = std::min(kPanel, count - first);
    pack_panel(rows, inputs_, in + first * inputs_, panel);
    multiply_panel(rows, outputs_, inputs_, panel, weights(), biases(), out + first * outputs_,
                   outputs_);
  }
}

float* DenseStep::backward(std::size_t count, const float*, const float*, float* delta,
                           float* below, Scratch&) const {
  multiply_chains(count, inputs_, outputs_, {delta, outputs_, 1}, weights(), inputs_, {}, below,
                  inputs_);
  return below;
}

void DenseStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                              std::size_t stride, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i) {
    const float* entering = in + i * inputs_;
    const float* deltas = delta + i * outputs_;
    float* weights = rows + i * stride;
    for (std::size_t j = 0; j < outputs_; ++j, weights += inputs_) {
      for (std::size_t k = 0; k < inputs_; ++k) weights[k] = deltas[j] * entering[k];
    }
    std::copy_n(deltas, outputs_, weights);
  }
}

// --- activation, flatten

void ActivationStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  activate(kind_, in, count * inputs_, out);
}

float* ActivationStep::backward(std::size_t count, const float*, const float* out, float* delta,
                                float*, Scratch&) const {
  activate_backward(kind_, out, count * outputs_, delta);
  return delta;
}

void FlattenStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  if (in != out) std::copy_n(in, count * inputs_, out);
}

float* FlattenStep::backward(std::size_t, const float*, const float*, float* delta, float*,
                             Scratch&) const {
  return delta;
}

// --- convolution

ConvStep::ConvStep(const Conv2d& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      layer_(layer),
      height_(in[0]),
      width_(in[1]),
      depth_(channels_of(in)),
      rows_(out[0]),
      columns_(out[1]),
      places_(rows_ * columns_),
      patch_(element_count({layer.kernel, layer.kernel, depth_})) {
  parameter_count_ = element_count({layer.channels, patch_}) + layer.channels;
  element_count({places_, patch_});
  zeros_.resize(layer.channels);
}

/// Calls body(where a row of a patch begins in the padded image, where in the patches), for every
/// place and row of the kernel.
template <class Body>
void ConvStep::for_each_patch_row(const Body& body) const {
  const std::size_t across = (width_ + 2 * layer_.padding) * depth_;  // floats in a padded row
  std::size_t element = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; ++j) {
      std::size_t pixel = i * layer_.stride * across + j * layer_.stride * depth_;
      for (std::size_t u = 0; u < layer_.kernel; ++u, pixel += across) {
        body(pixel, element);
        element += layer_.kernel * depth_;
      }
    }
  }
}

std::size_t ConvStep::padded_size() const {
  return (height_ + 2 * layer_.padding) * (width_ + 2 * layer_.padding) * depth_;
}

std::size_t ConvStep::padded_row(std::size_t row) const {
  return ((row + layer_.padding) * (width_ + 2 * layer_.padding) + layer_.padding) * depth_;
}

/// \returns the image with its padding: itself where there is none.
const float* ConvStep::with_padding(const float* image, std::vector<float>& padded) const {
  if (layer_.padding == 0) return image;
  padded.assign(padded_size(), 0.0f);
  for (std::size_t row = 0; row < height_; ++row) {
    std::copy_n(image + row * width_ * depth_, width_ * depth_, padded.data() + padded_row(row));
  }
  return padded.data();
}

void ConvStep::gather_patches(const float* image, float* patches) const {
  std::vector<float> padded;
  image = with_padding(image, padded);
  const std::size_t run = layer_.kernel * depth_;
  for_each_patch_row([&](std::size_t pixel, std::size_t element) {
    copy_short(image + pixel, run, patches + element);
  });
}

void ConvStep::add_patches(const float* patches, float* image) const {
  const std::size_t run = layer_.kernel * depth_;
  std::vector<float> padded;
  float* to = image;
  if (layer_.padding > 0) {
    padded.assign(padded_size(), 0.0f);
    to = padded.data();
  } else {
    std::fill_n(image, inputs_, 0.0f);
  }
  for_each_patch_row(
      [&](std::size_t pixel, std::size_t element) { add(patches + element, run, to + pixel); });
  for (std::size_t row = 0; row < height_ && layer_.padding > 0; ++row) {
    std::copy_n(to + padded_row(row), width_ * depth_, image + row * width_ * depth_);
  }
}

void ConvStep::prepare() {
  by_patch_.resize(patch_ * channels());
  transpose(channels(), patch_, weights(), patch_, by_patch_.data(), channels());
}

void ConvStep::multiply_patches(const float* patches, float* out) const {
  multiply_chains(places_, channels(), patch_, {patches, patch_, 1}, by_patch_.data(), channels(),
                  {.of_rows = nullptr, .of_columns = biases(), .at_product = false}, out,
                  channels());
}

void ConvStep::gradient_row(const float* patches, const float* delta, float* row) const {
  multiply_chains(channels(), patch_, places_, {delta, 1, channels()}, patches, patch_, {}, row,
                  patch_);
  sum_errors(delta, row + channels() * patch_);
}

void ConvStep::sum_errors(const float* delta, float* biases) const {
  std::fill_n(biases, channels(), 0.0f);
  for (std::size_t place = 0; place < places_; ++place) {
    add(delta + place * channels(), channels(), biases);
  }
}

void ConvStep::patches_backward(const float* delta, float* patches) const {
  multiply_chains(places_, patch_, channels(), {delta, channels(), 1}, weights(), patch_, {},
                  patches, patch_);
}

/// First every pixel beside the one that the next place sees where this one sees it, then runs of
/// these, cut where a tile of the operand ends.
void ConvStep::gather_place_pairs(const float* image, const Rounding& rounding, Scratch& scratch,
                                  std::uint32_t* inputs) const {
  image = with_padding(image, scratch.padded);
  const std::size_t size = padded_size();
  const std::size_t across = (width_ + 2 * layer_.padding) * depth_;
  const std::size_t next = layer_.stride * depth_;
  if (scratch.shifted.size() < size) scratch.shifted.resize(size);
  pair_with_next(image, size, next, rounding, scratch.shifted.data());
  const std::size_t run = layer_.kernel * depth_;
  const std::size_t pairs = place_pairs();
  std::size_t pair = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; j += 2, ++pair) {
      const std::uint32_t* from = scratch.shifted.data() + i * layer_.stride * across + j * next;
      std::size_t element = 0;
      for (std::size_t u = 0; u < layer_.kernel; ++u, from += across) {
        for (std::size_t at = 0; at < run;) {
          const std::size_t lane = element % kInputTile;
          const std::size_t some = std::min(run - at, kInputTile - lane);
          copy_short(from + at, some, inputs + (element - lane) * pairs + pair * kInputTile + lane);
          at += some;
          element += some;
        }
      }
    }
  }
}

void ConvStep::round_errors(const float* delta, const Rounding& rounding,
                            std::uint32_t* units) const {
  const std::size_t pairs = place_pairs();
  std::size_t pair = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; j += 2, ++pair) {
      const float* first = delta + (i * columns_ + j) * channels();
      const float* second = j + 1 < columns_ ? first + channels() : zeros_.data();
      round_pair_units(first, second, rounding, rounding, channels(), units + pair * kUnitTile,
                       pairs * kUnitTile);
    }
  }
}

void ConvStep::forward(std::size_t count, const float* in, float* out, Scratch& scratch) const {
  float* patches = at_least(scratch.patches, places_ * patch_);
  for (std::size_t i = 0; i < count; ++i) {
    gather_patches(in + i * inputs_, patches);
    multiply_patches(patches, out + i * outputs_);
  }
}

float* ConvStep::backward(std::size_t count, const float*, const float*, float* delta, float* below,
                          Scratch& scratch) const {
  float* patches = at_least(scratch.patches, places_ * patch_);
  for (std::size_t i = 0; i < count; ++i) {
    patches_backward(delta + i * outputs_, patches);
    add_patches(patches, below + i * inputs_);
  }
  return below;
}

void ConvStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch& scratch) const {
  float* patches = at_least(scratch.patches, places_ * patch_);
  for (std::size_t i = 0; i < count; ++i) {
    gather_patches(in + i * inputs_, patches);
    gradient_row(patches, delta + i * outputs_, rows + i * stride);
  }
}

// --- pooling

PoolStep::PoolStep(const Pool& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      layer_(layer),
      width_(in[1]),
      depth_(channels_of(in)),
      rows_(out[0]),
      columns_(out[1]) {
  for (std::size_t row = 0; row < layer_.window; ++row) {
    for (std::size_t column = 0; column < layer_.window; ++column) {
      offsets_.push_back((row * width_ + column) * depth_);
    }
  }
}

Windows PoolStep::windows() const {
  return {.offsets = offsets_.data(),
          .places = offsets_.size(),
          .columns = columns_,
          .step = layer_.stride * depth_,
          .depth = depth_};
}

void PoolStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i, in += inputs_) {
    for (std::size_t row = 0; row < rows_; ++row, out += columns_ * depth_) {
      const float* corner = in + row * layer_.stride * width_ * depth_;
      if (layer_.kind == PoolKind::max) {
        largest_in_windows(windows(), corner, out);
      } else {
        average_row(corner, out);
      }
    }
  }
}

void PoolStep::average_row(const float* corner, float* out) const {
  const auto area = static_cast<float>(offsets_.size());
  for (std::size_t column = 0; column < columns_; ++column, corner += layer_.stride * depth_) {
    copy_short(corner, depth_, out);
    for (std::size_t place = 1; place < offsets_.size(); ++place) {
      add(corner + offsets_[place], depth_, out);
    }
    for (std::size_t k = 0; k < depth_; ++k) *out++ /= area;
  }
}

float* PoolStep::backward(std::size_t count, const float* in, const float* out, float* delta,
                          float* below, Scratch&) const {
  std::fill_n(below, count * inputs_, 0.0f);
  std::vector<int> taken(depth_);
  const float* top = delta;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t row = 0; row < rows_; ++row) {
      const std::size_t corner = i * inputs_ + row * layer_.stride * width_ * depth_;
      if (layer_.kind == PoolKind::max) {
        hand_down_windows(windows(), in + corner, out, top, below + corner, taken.data());
      } else {
        share_row(top, below + corner);
      }
      out += columns_ * depth_;
      top += columns_ * depth_;
    }
  }
  return below;
}

void PoolStep::share_row(const float* top, float* corner) const {
  const float share = 1.0f / static_cast<float>(offsets_.size());
  for (std::size_t column = 0; column < columns_; ++column, top += depth_) {
    for (const std::size_t offset : offsets_) {
      cpu::add_scaled(share, top, depth_, corner + column * layer_.stride * depth_ + offset);
    }
  }
}

// --- norms

NormStep::NormStep(const GroupNorm& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      places_(inputs_ / in.back()),
      channels_(in.back()),
      places_per_set_(places_),
      channels_per_set_(channels_ / layer.groups),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

NormStep::NormStep(const LayerNorm& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      places_(inputs_ / in.back()),
      channels_(in.back()),
      places_per_set_(1),
      channels_per_set_(channels_),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

template <class Start, class Body>
void NormStep::for_each_set(const float* in, const Start& start, const Body& body) const {
  const auto members = static_cast<double>(places_per_set_ * channels_per_set_);
  for (std::size_t place = 0; place < places_; place += places_per_set_) {
    for (std::size_t channel = 0; channel < channels_; channel += channels_per_set_) {
      const auto for_each_member = [&](const auto& use) {
        for (std::size_t p = place; p < place + places_per_set_; ++p) {
          for (std::size_t c = channel; c < channel + channels_per_set_; ++c) {
            use(p * channels_ + c, c);
          }
        }
      };
      double mean = 0.0;
      for_each_member([&](std::size_t i, std::size_t) { mean += static_cast<double>(in[i]); });
      mean /= members;
      double variance = 0.0;
      for_each_member([&](std::size_t i, std::size_t) {
        const double difference = static_cast<double>(in[i]) - mean;
        variance += difference * difference;
      });
      const double scale = 1.0 / std::sqrt(variance / members + epsilon_);
      const auto with_value = [&](const auto& use) {
        for_each_member([&](std::size_t i, std::size_t c) {
          use(i, c, (static_cast<double>(in[i]) - mean) * scale);
        });
      };
      start(with_value, scale);
      with_value(body);
    }
  }
}

void NormStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i, in += inputs_, out += outputs_) {
    for_each_set(
        in, [](const auto&, double) {},
        [&](std::size_t at, std::size_t channel, double value) {
          out[at] = static_cast<float>(value * static_cast<double>(own_[channel]) +
                                       static_cast<double>(own_[channels_ + channel]));
        });
  }
}

float* NormStep::backward(std::size_t count, const float* in, const float*, float* delta,
                          float* below, Scratch&) const {
  const auto members = static_cast<double>(places_per_set_ * channels_per_set_);
  for (std::size_t i = 0; i < count; ++i) {
    const float* deltas = delta + i * outputs_;
    float* to = below + i * inputs_;
    double mean = 0.0, slope = 0.0, scale = 0.0;
    const auto weighted = [&](std::size_t at, std::size_t channel) {
      return static_cast<double>(deltas[at]) * static_cast<double>(own_[channel]);
    };
    for_each_set(
        in + i * inputs_,
        [&](const auto& for_each, double set_scale) {
          mean = slope = 0.0;
          scale = set_scale;
          for_each([&](std::size_t at, std::size_t channel, double value) {
            mean += weighted(at, channel) / members;
            slope += weighted(at, channel) * value / members;
          });
        },
        [&](std::size_t at, std::size_t channel, double value) {
          to[at] = static_cast<float>(scale * (weighted(at, channel) - mean - value * slope));
        });
  }
  return below;
}

void NormStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch&) const {
  std::vector<double> sums(parameter_count_);
  for (std::size_t i = 0; i < count; ++i) {
    const float* deltas = delta + i * outputs_;
    std::fill(sums.begin(), sums.end(), 0.0);
    for_each_set(
        in + i * inputs_, [](const auto&, double) {},
        [&](std::size_t at, std::size_t channel, double value) {
          sums[channel] += static_cast<double>(deltas[at]) * value;
          sums[channels_ + channel] += static_cast<double>(deltas[at]);
        });
    std::transform(sums.begin(), sums.end(), rows + i * stride,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

// --- embedding

EmbeddingStep::EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out)
    : Step(in, out), layer_(layer) {
  parameter_count_ = element_count({layer.vocabulary, layer.width});
}

bool EmbeddingStep::is_token(float value) const {
  return value >= 0.0f && value < static_cast<float>(layer_.vocabulary) &&
         value == std::floor(value);
}

void EmbeddingStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  for (std::size_t i = 0; i < count * inputs_; ++i, out += layer_.width) {
    if (is_token(in[i])) {
      std::copy_n(own_ + static_cast<std::size_t>(in[i]) * layer_.width, layer_.width, out);
    } else {
      std::fill_n(out, layer_.width, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

float* EmbeddingStep::backward(std::size_t, const float*, const float*, float*, float* below,
                               Scratch&) const {
  return below;  // tokens have no derivative; the first layer is not asked for one
}

bool EmbeddingStep::for_each_row(
    const float* in, const float* delta,
    const std::function<void(std::size_t, std::span<const float>)>& body) const {
  if (!std::all_of(in, in + inputs_, [&](float value) { return is_token(value); })) return false;
  std::vector<std::size_t> order(inputs_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return in[a] != in[b] ? in[a] < in[b] : a < b; });
  std::vector<double> sum(layer_.width);
  std::vector<float> gradient(layer_.width);
  for (std::size_t first = 0, end = 0; first < inputs_; first = end) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (end = first; end < inputs_ && in[order[end]] == in[order[first]]; ++end) {
      const float* deltas = delta + order[end] * layer_.width;
      for (std::size_t k = 0; k < layer_.width; ++k) sum[k] += static_cast<double>(deltas[k]);
    }
    std::transform(sum.begin(), sum.end(), gradient.begin(),
                   [](double value) { return static_cast<float>(value); });
    body(static_cast<std::size_t>(in[order[first]]) * layer_.width, gradient);
  }
  return true;
}

void EmbeddingStep::gradient_rows(std::size_t count, const float* in, const float* delta,
                                  float* rows, std::size_t stride, Scratch&) const {
  for (std::size_t i = 0; i < count; ++i) {
    float* row = rows + i * stride;
    std::fill_n(row, parameter_count_, 0.0f);
    const bool tokens = for_each_row(in + i * inputs_, delta + i * outputs_,
                                     [&](std::size_t first, std::span<const float> gradient) {
                                       std::copy(gradient.begin(), gradient.end(), row + first);
                                     });
    if (!tokens) row[0] = std::numeric_limits<float>::quiet_NaN();
  }
}

// --- shortcut

ShortcutStep::ShortcutStep(const Shortcut& layer, const Shape& earlier, const Shape& in)
    : Step(in, in) {
  const auto projection = projection_of(layer, in, earlier);
  if (!projection) return;
  projection_ = std::make_unique<ConvStep>(*projection, earlier, in);
  parameter_count_ = projection_->parameter_count();
}

void ShortcutStep::load(const float* own) noexcept {
  Step::load(own);
  if (projection_ != nullptr) projection_->load(own);
}

void ShortcutStep::prepare() {
  if (projection_ != nullptr) projection_->prepare();
}

void ShortcutStep::forward(std::size_t count, const float* in, float* out, Scratch&) const {
  if (in != out) std::copy_n(in, count * inputs_, out);
}

void ShortcutStep::add_earlier(std::size_t count, const float* earlier, float* out,
                               Scratch& scratch) const {
  if (projection_ == nullptr) return add(earlier, count * outputs_, out);
  float* projected = at_least(scratch.projected, count * outputs_);
  projection_->forward(count, earlier, projected, scratch);
  add(projected, count * outputs_, out);
}

float* ShortcutStep::backward(std::size_t, const float*, const float*, float* delta, float*,
                              Scratch&) const {
  return delta;
}

void ShortcutStep::add_backward(std::size_t count, const float* delta, float* earlier,
                                Scratch& scratch) const {
  if (projection_ == nullptr) return add(delta, count * outputs_, earlier);
  const std::size_t size = projection_->inputs();
  float* patches = at_least(scratch.patches, projection_->places() * projection_->patch());
  float* image = at_least(scratch.projected, size);
  for (std::size_t i = 0; i < count; ++i) {
    projection_->patches_backward(delta + i * outputs_, patches);
    projection_->add_patches(patches, image);
    add(image, size, earlier + i * size);
  }
}

void ShortcutStep::projection_rows(std::size_t count, const float* earlier, const float* delta,
                                   float* rows, std::size_t stride, Scratch& scratch) const {
  if (projection_ != nullptr)
    projection_->gradient_rows(count, earlier, delta, rows, stride, scratch);
}

Shortcuts::Shortcuts(const Network& network) : is_source(network.layers.size(), false) {
  for (std::size_t s = 0; s < network.layers.size(); ++s) {
    const auto* shortcut = std::get_if<Shortcut>(&network.layers[s]);
    source_of.push_back(shortcut == nullptr ? s : s - shortcut->over);
    if (shortcut != nullptr) is_source[source_of[s]] = true;
  }
}

// ---

std::unique_ptr<Step> make_step(const Layer& layer, std::size_t index,
                                std::span<const Shape> entering, const Shape& out) {
  struct Maker {
    std::span<const Shape> entering;
    const Shape& in;
    const Shape& out;
    std::unique_ptr<Step> operator()(const Dense& one) {
      return std::make_unique<DenseStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Activation& one) {
      return std::make_unique<ActivationStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Conv2d& one) {
      return std::make_unique<ConvStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Pool& one) {
      return std::make_unique<PoolStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Flatten& one) {
      return std::make_unique<FlattenStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const GroupNorm& one) {
      return std::make_unique<NormStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const LayerNorm& one) {
      return std::make_unique<NormStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Embedding& one) {
      return std::make_unique<EmbeddingStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Shortcut& one) {
      return std::make_unique<ShortcutStep>(one, entering[entering.size() - 1 - one.over], in);
    }
    std::unique_ptr<Step> operator()(const Opaque&) { return nullptr; }
  };
  auto step = std::visit(Maker{entering, entering.back(), out}, layer);
  if (step == nullptr) {
    throw ConfigError("backend cpu: layer " + std::to_string(index) +
                      " has mathematics of its model's own (opaque), which no backend can execute");
  }
  return step;
}

}  // namespace privgrad::cpu
