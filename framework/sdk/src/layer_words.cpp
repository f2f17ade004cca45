// Layers in words.
#include <string>

#include "privgrad/network.hpp"
#include "privgrad/value.hpp"

namespace privgrad {
namespace {

template <class One>
std::string words_of(const One&) {
  return std::string(One::kKind);
}
std::string words_of_bias(bool is_absent) { return is_absent ? " without bias" : ""; }
std::string words_of(const Dense& layer) {
  return "dense " + std::to_string(layer.units) + (layer.per_place ? " per place" : "") +
         words_of_bias(layer.no_bias);
}
std::string words_of(const Activation& layer) { return std::string(to_text(layer.kind)); }
std::string words_of(const Conv2d& layer) {
  return "conv2d " + std::to_string(layer.channels) + " kernel " + std::to_string(layer.kernel) +
         " stride " + std::to_string(layer.stride) + " padding " + std::to_string(layer.padding) +
         words_of_bias(layer.no_bias);
}
std::string words_of(const Pool& layer) {
  return std::string(to_text(layer.kind)) + " pool " + std::to_string(layer.window) + " stride " +
         std::to_string(layer.stride);
}
std::string words_of(const GroupNorm& layer) {
  return "group_norm " + std::to_string(layer.groups);
}
std::string words_of(const Embedding& layer) {
  return "embedding " + std::to_string(layer.vocabulary) + " x " + std::to_string(layer.width);
}
std::string words_of(const Scale& layer) { return "scale " + format_number(layer.factor); }
std::string words_of(const PartOf& layer) {
  return "part " + std::to_string(layer.first) + " to " + std::to_string(layer.first + layer.size);
}
std::string words_of(const MeanOfPlaces&) { return "mean of places"; }
std::string words_of(const PickPlace& layer) {
  return layer.last ? "pick the last place" : "pick place " + std::to_string(layer.place);
}
std::string words_of(const Attention& layer) {
  std::string text = "attention of " + std::to_string(layer.heads) + " heads";
  if (layer.key_heads != layer.heads)
    text += " on " + std::to_string(layer.key_heads) + " key heads";
  if (layer.causal) text += ", causal";
  if (layer.rotary != 0.0) text += ", rotary " + format_number(layer.rotary);
  return text;
}
std::string words_of(const Reshape& layer) { return "reshape " + to_text(layer.shape); }

}  // namespace

std::string to_text(const Layer& layer) {
  return std::visit([](const auto& one) { return words_of(one); }, layer);
}

}  // namespace privgrad
