#include "arrangement.hpp"

#include <cstring>
#include <utility>
#include <variant>

namespace privgrad::core {
namespace {

/// Removes leading extents of 1 from a file's shape, until no more than `wanted` extents remain.
Shape without_ones(Shape shape, std::size_t wanted) {
  while (shape.size() > wanted && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

/// Returns the shape [height, width, channels] of the image that a layer reads, flattened or not;
/// nothing if the layer's input is not an image.
std::optional<Shape> image_read_by(const Network& network, std::size_t node) {
  const std::vector<Shape> shapes = value_shapes(network);
  std::size_t value = inputs_of(network, node).front();
  // Looks for the image in earlier values, too, because activations keep the order.
  while (shapes[value].size() == 1 && value > 0) {
    const Layer& layer = network.nodes[value - 1].layer;
    if (!std::holds_alternative<Flatten>(layer) && !std::holds_alternative<Activation>(layer))
      return std::nullopt;
    value = inputs_of(network, value - 1).front();
  }
  if (shapes[value].size() != 3) return std::nullopt;
  return shapes[value];
}

/// Returns the extents [rows, height, width, channels] of a tensor that reads images.
std::optional<Shape> extents_over_images(const Network& network, const ParameterBlock& block) {
  const Layer& layer = network.nodes[block.node].layer;
  if (std::holds_alternative<Conv2d>(layer) && block.shape.size() == 4) return block.shape;
  if (!std::holds_alternative<Dense>(layer) || block.shape.size() != 2) return std::nullopt;
  const auto image = image_read_by(network, block.node);
  if (!image || element_count(*image) != block.shape[1]) return std::nullopt;
  return Shape{block.shape[0], (*image)[0], (*image)[1], (*image)[2]};
}

/// Returns the number that the model adds to an element of the file's tensor; if none, -0, because
/// adding -0 changes nothing, not even the sign of 0.
float added_to(const Match& match, std::size_t element) {
  return match.added == nullptr ? -0.0f : match.added->values[element % match.block->shape.back()];
}

/// Whether a source changes more than the tensor's name.
bool is_arranged(const TensorSource& source) {
  return source != TensorSource{.block = source.block, .name = source.name};
}

}  // namespace

std::optional<Arrangement> arrangement_of(const Network& network, const ParameterBlock& block,
                                          const std::optional<TensorSource>& source,
                                          const Shape& stored) {
  const TensorSource how = source.value_or(TensorSource{});
  Shape extents = block.shape;
  if (how.channels_first) {
    const auto images = extents_over_images(network, block);
    if (!images) return std::nullopt;
    extents = *images;
  }
  // Rows lie along the first extent; in the file, along the last extent if transposed.
  const Shape row(extents.begin() + 1, extents.end());
  Shape row_in_file = row;
  if (how.channels_first) {
    const bool is_flat = block.shape.size() == 2;
    row_in_file = is_flat ? Shape{element_count(row)} : Shape{row[2], row[0], row[1]};
  }
  if (how.transposed && row_in_file.size() != 1) return std::nullopt;
  Shape file = source ? without_ones(stored, row_in_file.size() + 1) : stored;
  if (file.size() != row_in_file.size() + 1) return std::nullopt;
  const auto rows_at = how.transposed ? file.end() - 1 : file.begin();
  const std::size_t rows = *rows_at;
  file.erase(rows_at);
  const std::size_t begin = how.first_row.value_or(0);
  const bool has_rows =
      how.first_row ? begin <= rows && rows - begin >= extents[0] : rows == extents[0];
  if (file != row_in_file || !has_rows) return std::nullopt;

  const std::size_t row_size = element_count(row);
  const std::size_t step = how.transposed ? rows : 1;  // the distance of neighbours in a row
  Arrangement result{.extents = extents,
                     .strides = std::vector<std::size_t>(extents.size()),
                     .first = begin * (how.transposed ? 1 : row_size)};
  result.strides[0] = how.transposed ? 1 : row_size;
  if (how.channels_first) {
    const std::size_t width = row[1], area = row[0] * row[1];
    result.strides = {result.strides[0], width * step, step, area * step};
    return result;
  }
  std::size_t stride = step;
  for (std::size_t axis = extents.size(); axis-- > 1;) {
    result.strides[axis] = stride;
    stride *= extents[axis];
  }
  return result;
}

StoredByName by_name(const StoredTensors& file) {
  StoredByName there;
  for (const StoredTensor& tensor : file.tensors) there[tensor.name] = &tensor;
  return there;
}

std::vector<TensorSource> sources_in(const StoredTensors& file,
                                     const std::vector<TensorSource>& sources) {
  const auto format = file.metadata.find("format");
  const bool is_own = format != file.metadata.end() && format->second == "privgrad";
  return is_own ? std::vector<TensorSource>() : sources;
}

std::vector<Match> matches_of(const TensorNames& names, const Network& network,
                              const std::vector<ParameterBlock>& blocks,
                              const std::vector<TensorSource>& sources, const StoredByName& there) {
  std::vector<Match> matches;
  for (const ParameterBlock& block : blocks) {
    Match match{.block = &block, .name = block.name};
    for (const TensorSource& source : sources) {
      if (source.block == block.name) match.source = source;
    }
    const auto given = names.find(block.name);
    match.is_anew = given != names.end() && !given->second;
    if (given != names.end() && given->second) {
      if (!match.source || is_arranged(*given->second)) {
        match.source = *given->second;
      } else {
        match.source->name = given->second->name;
      }
    }
    if (match.source) match.name = match.source->name;
    const auto found = there.find(match.name);
    if (found != there.end() && !match.is_anew) {
      match.found = found->second;
      match.arrangement = arrangement_of(network, block, match.source, match.found->shape);
      if (match.source) {
        const auto added = there.find(match.source->plus_first_row_of);
        if (added != there.end()) match.added = added->second;
      }
    }
    matches.push_back(std::move(match));
  }
  return matches;
}

std::vector<float> arranged(const Match& match) {
  std::vector<float> values(element_count(match.block->shape));
  match.arrangement->each([&](std::size_t i, std::size_t place) {
    values[i] = match.found->values[place] + added_to(match, i);
  });
  return values;
}

void arrange_back(const Match& match, std::span<const float> values, char* in_file) {
  match.arrangement->each([&](std::size_t i, std::size_t place) {
    const float value = values[i] - (match.added == nullptr ? 0.0f : added_to(match, i));
    std::memcpy(in_file + place * sizeof value, &value, sizeof value);
  });
}

}  // namespace privgrad::core
