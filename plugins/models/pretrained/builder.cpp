#include "builder.hpp"

#include <map>

namespace pretrained {

using namespace privgrad;

Layer activation_of(Folder& folder, const std::string& name) {
  static const std::map<std::string, ActivationKind> known{
      {"gelu", ActivationKind::gelu},
      {"gelu_new", ActivationKind::gelu_tanh},
      {"relu", ActivationKind::relu},
      {"silu", ActivationKind::silu},
      {"gelu_pytorch_tanh", ActivationKind::gelu_tanh}};
  const auto found = known.find(name);
  if (found == known.end()) folder.refuse("has the unknown activation '" + shown(name) + "'");
  return Activation{found->second};
}

std::size_t layers_of(Folder& folder, const std::string& name) {
  constexpr std::size_t kMost = 1000;
  const std::size_t layers = folder.size(name);
  if (layers > kMost) folder.refuse(name + " is above the limit of " + std::to_string(kMost));
  return layers;
}

void check_heads(const Folder& folder, std::size_t heads, std::size_t width) {
  if (width % heads != 0)
    folder.refuse("has " + std::to_string(heads) + " heads, which do not divide its width of " +
                  std::to_string(width));
}

std::size_t Builder::add(Layer layer, const std::string& name, std::vector<std::size_t> from) {
  Node node(std::move(layer), std::move(from));
  if (!name.empty()) node.name = prefix_ + name;
  body_.nodes.push_back(std::move(node));
  return body_.nodes.size();
}

void Builder::store_as(TensorSource source, const std::string& tensor) {
  source.block = body_.nodes.back().name + "." + tensor;
  source.name = prefix_ + source.name;
  if (!source.plus_first_row_of.empty())
    source.plus_first_row_of = prefix_ + source.plus_first_row_of;
  body_.sources.push_back(std::move(source));
}

void Builder::add_tokens(const Shape& features, std::size_t places, std::size_t width,
                         const std::string& table) {
  if (features.size() != 1)
    folder_.refuse("describes a model of tokens, but the examples have the shape " +
                   to_text(features));
  if (places != 0 && features[0] > places)
    folder_.refuse("has positions for " + std::to_string(places) +
                   " tokens, but the examples have " + std::to_string(features[0]));
  body_.mask = add(TokenMask{}, "", {0});
  add(Embedding{.vocabulary = folder_.size("vocab_size"), .width = width}, table, {0});
  body_.table = body_.nodes.size() - 1;
}

std::size_t Builder::attention(std::size_t width, std::size_t heads, std::size_t seen,
                               const std::array<std::string, 4>& names) {
  check_heads(folder_, heads, width);
  std::vector<std::size_t> from;
  for (std::size_t i = 0; i < 3; ++i) from.push_back(add(dense(width), names[i], {seen}));
  if (body_.mask != 0) from.push_back(body_.mask);
  add(Attention{.heads = heads, .key_heads = heads}, "", from);
  return add(dense(width), names[3]);
}

}  // namespace pretrained
