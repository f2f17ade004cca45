#include "privgrad/model/exported_weights.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "arrangement.hpp"
#include "privgrad/manifest/manifest_problems.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

struct Written {
  std::string name, type;
  Shape shape;
  std::string_view bytes;
};

std::string_view raw_bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string file_of(const std::vector<Written>& tensors,
                    const std::map<std::string, std::string>& metadata) {
  Json header{{"__metadata__", metadata}};
  std::size_t end = 0;
  for (const Written& tensor : tensors) {
    const std::size_t begin = end;
    end += tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file.reserve(file.size() + text.size() + end);
  file += text;
  for (const Written& tensor : tensors) file += tensor.bytes;
  return file;
}

/// \throws IoError if two tensors of the model come from the same place in the file, which cannot
///   store both of them after training.
void refuse_shared_places(const std::vector<Match>& matches) {
  std::map<const StoredTensor*, std::vector<bool>> taken;
  const auto take = [&](const StoredTensor* tensor, std::size_t place) {
    std::vector<bool>& places = taken[tensor];
    places.resize(element_count(tensor->shape));
    if (places[place]) {
      throw IoError("the tensor '" + one_line(tensor->name, 80) +
                    "' is the source of two tensors of the model, and cannot hold both");
    }
    places[place] = true;
  };
  std::set<const StoredTensor*> added;
  for (const Match& match : matches) {
    if (match.found == nullptr || !match.arrangement) continue;
    match.arrangement->each([&](std::size_t, std::size_t place) { take(match.found, place); });
    if (match.added != nullptr) added.insert(match.added);
  }
  for (const StoredTensor* const tensor : added) take(tensor, 0);
}

}  // namespace

std::vector<std::size_t> lacking_in(std::string_view bytes, const ModelFile& model,
                                    const std::vector<TensorSource>& sources,
                                    const TensorNames& names) {
  const StoredTensors file = read_safetensors(bytes);
  const std::vector<ParameterBlock> blocks = parameter_blocks(model.network);
  const StoredByName there = by_name(file);
  std::vector<std::size_t> lacking;
  const auto matches = matches_of(names, model.network, blocks, sources_in(file, sources), there);
  for (const Match& match : matches) {
    if (match.found == nullptr)
      lacking.push_back(static_cast<std::size_t>(match.block - blocks.data()));
  }
  return lacking;
}

std::string weights_with(std::string bytes, const ModelFile& model,
                         const std::vector<TensorSource>& sources, const TensorNames& names,
                         Lacking lacking) {
  const TensorHeader header = parse_tensor_header(bytes, bytes.size());
  const StoredTensors file = read_safetensors(bytes);
  const std::vector<ParameterBlock> blocks = parameter_blocks(model.network);
  const StoredByName there = by_name(file);
  const auto matches = matches_of(names, model.network, blocks, sources_in(file, sources), there);
  const std::span<const float> parameters(model.parameters);
  std::set<std::string> used, replaced;
  std::vector<Written> written;
  bool has_changed = false;
  for (const Match& match : matches) {
    const auto values = parameters.subspan(match.block->offset, element_count(match.block->shape));
    if (match.found == nullptr) {
      if (lacking == Lacking::is_left_out) continue;
      written.push_back({match.block->name, "F32", match.block->shape, raw_bytes_of(values)});
      replaced.insert(match.block->name);
      has_changed = true;
      continue;
    }
    used.insert(match.name);
    const bool is_read =
        match.found->problem.empty() && (match.added == nullptr || match.added->problem.empty());
    if (is_read && match.fits() && std::ranges::equal(arranged(match), values)) continue;
    const TensorEntry& entry = header.tensors.at(match.name);
    if (!is_read || !match.fits() || entry.type != "F32") {
      throw IoError("the tensor '" + one_line(match.name, 80) + "' is " + entry.type + " of " +
                    privgrad::to_text(entry.shape) + ", and cannot hold the trained one");
    }
    arrange_back(match, values, bytes.data() + header.data_begin + entry.begin);
    has_changed = true;
  }
  if (!has_changed) return bytes;
  refuse_shared_places(matches);
  for (const std::string& name : replaced) {
    if (used.contains(name)) {
      throw IoError("the file has another tensor of the model under the name '" + name +
                    "', which in the model belongs to a tensor that was initialised anew");
    }
  }
  std::vector<Written> kept;
  for (const auto& [name, entry] : header.tensors) {
    if (replaced.contains(name)) continue;
    kept.push_back(
        {name, entry.type, entry.shape,
         std::string_view(bytes).substr(header.data_begin + entry.begin, entry.end - entry.begin)});
  }
  std::ranges::sort(kept, {}, [](const Written& tensor) { return tensor.bytes.data(); });
  kept.insert(kept.end(), written.begin(), written.end());
  std::map<std::string, std::string> metadata = model.metadata;
  metadata["trained_by"] = "privgrad";
  const auto format = header.metadata.find("format");
  metadata["format"] = format == header.metadata.end() ? "pt" : format->second;
  return file_of(kept, metadata);
}

}  // namespace privgrad::core
