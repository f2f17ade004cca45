#include "privgrad/model/initial_weights.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kWeightsKey = "model.weights";
constexpr std::size_t kLongestText = 200;

struct Match;
/// Whether the file's tensor has the shape that the model expects, so that its values can be put in
/// the model's order.
bool can_be_arranged(const Match& match);

/// One of the model's tensors, and its counterpart in the file.
struct Match {
  const ParameterBlock* block = nullptr;
  std::string name;                     ///< The tensor's name in the file.
  const StoredTensor* found = nullptr;  ///< Null if the model initializes it.
  /// The model's note on its place and order in the file; null: none.
  const TensorSource* source = nullptr;
  const StoredTensor* added = nullptr;  ///< The table whose first row is added; null: none.

  bool fits() const {
    if (found == nullptr) return true;
    return source == nullptr ? found->shape == block->shape : can_be_arranged(*this);
  }
};

/// The shape without leading extents of 1, which some files have.
Shape without_ones(Shape shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

/// The shape that the tensor should have in the file; a table may have more rows.
Shape stored_shape(const Match& match) {
  const Shape& shape = match.block->shape;
  if (!match.source->kernel_last || shape.size() != 4) return shape;
  return {shape[0], shape[3], shape[1], shape[2]};
}

bool can_be_arranged(const Match& match) {
  if (match.source->kernel_last && match.block->shape.size() != 4) return false;
  Shape stored = without_ones(match.found->shape);
  const Shape wanted = stored_shape(match);
  if (stored.size() == 2 && wanted.size() == 2 && stored[0] > wanted[0]) stored[0] = wanted[0];
  if (stored != without_ones(wanted)) return false;
  if (match.source->plus_first_row_of.empty()) return true;
  return match.added != nullptr && match.added->shape.size() == 2 && match.added->shape[0] > 0 &&
         match.added->shape[1] == wanted.back();
}

/// Reorders values from [channels, inputs, area] to [channels, area, inputs], or back.
void exchange(std::span<const float> from, std::size_t channels, std::size_t rows,
              std::size_t columns, std::span<float> to) {
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const std::size_t first = channel * rows * columns;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j)
        to[first + j * rows + i] = from[first + i * columns + j];
    }
  }
}

/// The values of a tensor that fits, in the model's order.
std::vector<float> arranged(const Match& match) {
  std::vector<float> values = match.found->values;
  if (match.source == nullptr) return values;
  const Shape& shape = match.block->shape;
  values.resize(element_count(shape));
  if (match.source->kernel_last)
    exchange(match.found->values, shape[0], shape[3], shape[1] * shape[2], values);
  if (match.added != nullptr) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += match.added->values[i % shape.back()];
  }
  return values;
}

/// The inverse of arranged(), for other values of the tensor.
std::vector<float> stored(const Match& match, std::span<const float> values) {
  std::vector<float> result(values.begin(), values.end());
  if (match.source == nullptr) return result;
  const Shape& shape = match.block->shape;
  if (match.source->kernel_last) exchange(values, shape[0], shape[1] * shape[2], shape[3], result);
  if (match.added != nullptr) {
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] -= match.added->values[i % shape.back()];
  }
  return result;
}

std::string words_of(const Match& match) {
  std::string line = "  " + match.block->name + ", " + privgrad::to_text(match.block->shape) + ": ";
  if (match.found == nullptr) return line + "begins anew";
  return line + "'" + one_line(match.name, 80) + "', " +
         one_line(privgrad::to_text(match.found->shape), 80) +
         (match.fits() ? "" : ", which does not fit");
}

/// A table of all tensors of the model and of the file, because an error seldom concerns a single
/// tensor.
std::string table_of(const std::vector<Match>& matches, const StoredTensors& file) {
  constexpr std::size_t kMostUnused = 20;
  std::string table;
  std::set<std::string> used;
  for (const Match& match : matches) {
    table += "\n" + words_of(match);
    if (match.found != nullptr) used.insert(match.found->name);
  }
  std::size_t unused = 0;
  for (const StoredTensor& tensor : file.tensors) {
    if (used.count(tensor.name) != 0 || ++unused > kMostUnused) continue;
    table += "\n  not used: '" + one_line(tensor.name, 80) + "', " +
             one_line(privgrad::to_text(tensor.shape), 80);
  }
  if (unused > kMostUnused)
    table += "\n  and " + std::to_string(unused - kMostUnused) + " more that are not used";
  return table;
}

std::string with_nearest(const std::string& name, const std::vector<std::string>& there) {
  const std::string nearest = nearest_name(name, there);
  return nearest.empty() ? "" : "; did you mean '" + one_line(nearest, 80) + "'?";
}

std::vector<std::string> names_of(const std::vector<ParameterBlock>& blocks) {
  std::vector<std::string> names;
  names.reserve(blocks.size());
  for (const ParameterBlock& block : blocks) names.push_back(block.name);
  return names;
}

void check_names(const Manifest& manifest, const std::vector<ParameterBlock>& blocks,
                 const std::map<std::string, const StoredTensor*>& there) {
  const std::vector<std::string> own = names_of(blocks);
  std::vector<std::string> in_file;
  in_file.reserve(there.size());
  for (const auto& [name, tensor] : there) in_file.push_back(name);
  for (const auto& [name, named] : manifest.weights->names) {
    const std::string key = std::string(kWeightsKey) + ".map." + name;
    if (std::find(own.begin(), own.end(), name) == own.end())
      throw error_at(manifest, key, "is not a tensor of the model" + with_nearest(name, own));
    if (named && there.count(*named) == 0) {
      throw error_at(manifest, key,
                     "is '" + one_line(*named, 80) + "', which the file does not contain" +
                         with_nearest(*named, in_file));
    }
  }
}

using Stored = std::map<std::string, const StoredTensor*>;

Stored by_name(const StoredTensors& file) {
  Stored there;
  for (const StoredTensor& tensor : file.tensors) there[tensor.name] = &tensor;
  return there;
}

/// \param names  model.weights.map.
std::vector<Match> matches_of(const std::map<std::string, std::optional<std::string>>& names,
                              const std::vector<ParameterBlock>& blocks,
                              const std::vector<TensorSource>& sources, const Stored& there) {
  std::vector<Match> matches;
  for (const ParameterBlock& block : blocks) {
    Match match{.block = &block, .name = block.name};
    for (const TensorSource& source : sources) {
      if (source.block == block.name) match.source = &source;
    }
    if (match.source != nullptr) {
      match.name = match.source->name;
      if (const auto added = there.find(match.source->plus_first_row_of); added != there.end())
        match.added = added->second;
    }
    const auto given = names.find(block.name);
    const bool is_anew = given != names.end() && !given->second;
    if (given != names.end() && given->second) match.name = *given->second;
    if (const auto found = there.find(match.name); found != there.end() && !is_anew)
      match.found = found->second;
    matches.push_back(std::move(match));
  }
  return matches;
}

/// The metadata is not trusted: it is shortened, put on one line, and proves nothing.
std::optional<WeightsOrigin> origin_of(const std::map<std::string, std::string>& metadata) {
  const auto said = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string()
                                   : one_line(shown_line(found->second), kLongestText);
  };
  // Exported files have the format name of their folder.
  if (said("format") != "privgrad" && said("trained_by") != "privgrad") return std::nullopt;
  WeightsOrigin origin{.name = said("name"),
                       .mode = said("mode"),
                       .epsilon = said("epsilon"),
                       .delta = said("delta"),
                       .unit = said("unit"),
                       .adjacency = said("adjacency"),
                       .unaccounted = {},
                       .account = std::nullopt};
  if (metadata.count("account") != 0) origin.account = said("account");
  const auto list = metadata.find("unaccounted");
  const Json items =
      list == metadata.end() ? Json() : Json::parse(list->second, nullptr, /*exceptions*/ false);
  const bool is_list =
      items.is_array() &&
      std::all_of(items.begin(), items.end(), [](const Json& item) { return item.is_string(); });
  if (!is_list) {
    origin.unaccounted = {"what is not accounted for is not said"};
  } else {
    for (const Json& item : items)
      origin.unaccounted.push_back(one_line(shown_line(item.get<std::string>()), kLongestText));
  }
  return origin;
}

}  // namespace

void InitialWeights::put_into(std::span<float> parameters) const {
  for (const LoadedBlock& block : blocks) {
    std::copy(block.values.begin(), block.values.end(),
              parameters.begin() + static_cast<std::ptrdiff_t>(block.offset));
  }
}

WeightsFacts facts_of(const TensorFile& file) {
  WeightsFacts facts;
  facts.sha256 = file.sha256;
  facts.origin = origin_of(file.metadata);
  return facts;
}

InitialWeights fit_weights(const Manifest& manifest, const Network& network,
                           const std::vector<TensorSource>& sources, const TensorFile& file) {
  const std::vector<ParameterBlock> blocks = parameter_blocks(network);
  const Stored there = by_name(file);
  check_names(manifest, blocks, there);
  const std::vector<Match> matches = matches_of(manifest.weights->names, blocks, sources, there);
  InitialWeights weights;
  weights.facts = facts_of(file);
  std::size_t misfits = 0;
  std::set<std::string> used;
  for (const Match& match : matches) {
    if (!match.fits()) ++misfits;
    if (match.found == nullptr) {
      weights.facts.begun_anew.push_back(match.block->name);
      continue;
    }
    for (const StoredTensor* const tensor : {match.found, match.added}) {
      if (tensor == nullptr) continue;
      if (!tensor->problem.empty())
        throw IoError(manifest.weights->file.string() + ": its tensor '" +
                      one_line(tensor->name, 80) + "' " + tensor->problem);
      used.insert(tensor->name);
    }
    weights.facts.loaded.push_back(match.block->name);
    if (match.fits()) weights.blocks.push_back({match.block->offset, arranged(match)});
  }
  const auto refuse = [&](const std::string& what) {
    return error_at(manifest, kWeightsKey, what + table_of(matches, file));
  };
  if (misfits > 0) {
    throw refuse(std::to_string(misfits) +
                 " tensor(s) of the file do not fit the model; map a tensor to null to begin with "
                 "the model's own values");
  }
  if (used.empty()) {
    throw refuse(
        "no tensor of the file has a name of the model's tensors; map their names in `map`");
  }
  weights.facts.unused = file.tensors.size() - used.size();
  return weights;
}

namespace {

/// A safetensors file with its metadata replaced.
std::string with_metadata(const std::string& bytes, const TensorHeader& header,
                          const std::map<std::string, std::string>& metadata) {
  Json tensors{{"__metadata__", metadata}};
  for (const auto& [name, entry] : header.tensors) {
    tensors[name] = {
        {"dtype", entry.type}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = tensors.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + text + bytes.substr(header.data_begin);
}

}  // namespace

std::string weights_with(std::string bytes, const ModelFile& model,
                         const std::vector<TensorSource>& sources) {
  const TensorHeader header = parse_tensor_header(bytes, bytes.size());
  const StoredTensors file = read_safetensors(bytes);
  const std::vector<ParameterBlock> blocks = parameter_blocks(model.network);
  const std::span<const float> parameters(model.parameters);
  bool has_changed = false;
  for (const Match& match : matches_of({}, blocks, sources, by_name(file))) {
    if (match.found == nullptr) continue;
    const bool is_read =
        match.found->problem.empty() && (match.added == nullptr || match.added->problem.empty());
    const auto values = parameters.subspan(match.block->offset, element_count(match.block->shape));
    if (is_read && match.fits() && std::ranges::equal(arranged(match), values)) continue;
    const TensorEntry& entry = header.tensors.at(match.name);
    if (!is_read || !match.fits() || entry.type != "F32") {
      throw IoError("the tensor '" + one_line(match.name, 80) + "' is " + entry.type + " of " +
                    privgrad::to_text(entry.shape) + ", and cannot hold the trained one");
    }
    const std::vector<float> in_file = stored(match, values);
    std::memcpy(bytes.data() + header.data_begin + entry.begin, in_file.data(),
                in_file.size() * sizeof(float));
    has_changed = true;
  }
  if (!has_changed) return bytes;
  std::map<std::string, std::string> metadata = model.metadata;
  metadata["trained_by"] = "privgrad";
  const auto format = header.metadata.find("format");
  metadata["format"] = format == header.metadata.end() ? "pt" : format->second;
  return with_metadata(bytes, header, metadata);
}

bool saw_protected_rows(const WeightsOrigin& origin) {
  const auto& listed = origin.unaccounted;
  return origin.epsilon != "inf" || origin.account ||
         std::find(listed.begin(), listed.end(), "initial_weights") != listed.end();
}

WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights) {
  const auto is_shown_only = [](const std::string& what) {
    return what == "training metrics" || what == "test metrics";
  };
  const bool is_charged = weights.origin && weights.origin->account && manifest.account &&
                          *weights.origin->account == manifest.account->opened &&
                          std::all_of(weights.origin->unaccounted.begin(),
                                      weights.origin->unaccounted.end(), is_shown_only);
  if (is_charged) return WeightsClaim::charged_in_account;
  // If the file states that it is not public, the manifest's declaration does not count, because
  // its author may have forgotten the origin of the model.
  const bool is_public =
      manifest.weights->is_public && !(weights.origin && saw_protected_rows(*weights.origin));
  return is_public ? WeightsClaim::declared_public : WeightsClaim::unaccounted;
}

std::string_view to_text(WeightsClaim claim) {
  switch (claim) {
    case WeightsClaim::declared_public:
      return "declared_public";
    case WeightsClaim::charged_in_account:
      return "charged_in_account";
    case WeightsClaim::unaccounted:
      return "unaccounted";
  }
  return "?";
}

Json to_json(const WeightsFacts& weights) {
  Json json{{"sha256", weights.sha256},
            {"loaded", weights.loaded},
            {"begun_anew", weights.begun_anew},
            {"unused", weights.unused},
            {"origin", nullptr}};
  if (!weights.origin) return json;
  const WeightsOrigin& origin = *weights.origin;
  json["origin"] = {{"name", origin.name},
                    {"mode", origin.mode},
                    {"epsilon", origin.epsilon},
                    {"delta", origin.delta},
                    {"unit", origin.unit},
                    {"adjacency", origin.adjacency},
                    {"unaccounted", origin.unaccounted},
                    {"account", origin.account ? Json(*origin.account) : Json(nullptr)}};
  return json;
}

WeightsFacts weights_from_json(const Json& json) {
  WeightsFacts weights{.sha256 = json.at("sha256").get<std::string>(),
                       .loaded = json.at("loaded").get<std::vector<std::string>>(),
                       .begun_anew = json.at("begun_anew").get<std::vector<std::string>>(),
                       .unused = json.at("unused").get<std::uint64_t>(),
                       .origin = std::nullopt};
  const Json& said = json.at("origin");
  if (said.is_null()) return weights;
  weights.origin = {.name = said.at("name").get<std::string>(),
                    .mode = said.at("mode").get<std::string>(),
                    .epsilon = said.at("epsilon").get<std::string>(),
                    .delta = said.at("delta").get<std::string>(),
                    .unit = said.at("unit").get<std::string>(),
                    .adjacency = said.at("adjacency").get<std::string>(),
                    .unaccounted = said.at("unaccounted").get<std::vector<std::string>>(),
                    .account = std::nullopt};
  if (!said.at("account").is_null())
    weights.origin->account = said.at("account").get<std::string>();
  return weights;
}

}  // namespace privgrad::core
