#include "privgrad/model/initial_weights.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "arrangement.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kWeightsKey = "model.weights";
constexpr std::size_t kLongestText = 200;

/// Returns the rearrangements in words: " as transposed".
std::string words_of(const TensorSource& source) {
  std::string words;
  if (source.transposed) words += " as transposed";
  if (source.channels_first) words += " with channels_first";
  if (source.first_row) words += " from row " + std::to_string(*source.first_row);
  return words;
}

std::string words_of(const Match& match, const std::vector<std::string>& in_file) {
  std::string line = "  " + match.block->name + ", " + privgrad::to_text(match.block->shape) + ": ";
  if (match.found == nullptr) {
    line += "begins anew";
    return match.is_anew ? line : line + did_you_mean(match.name, in_file);
  }
  line +=
      "'" + one_line(match.name, 80) + "', " + one_line(privgrad::to_text(match.found->shape), 80);
  if (match.fits()) return line;
  if (match.arrangement) {
    return line + ", to which the first row of '" + one_line(match.source->plus_first_row_of, 80) +
           "' cannot be added";
  }
  return line + ", which does not fit" + (match.source ? words_of(*match.source) : "");
}

/// Returns a table of all tensors of the model and of the file, because an error seldom concerns a
/// single tensor.
std::string table_of(const std::vector<Match>& matches, const StoredTensors& file) {
  constexpr std::size_t kMostUnused = 20;
  std::string table;
  std::set<std::string> used;
  std::vector<std::string> in_file;
  for (const StoredTensor& tensor : file.tensors) in_file.push_back(tensor.name);
  for (const Match& match : matches) {
    table += "\n" + words_of(match, in_file);
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

std::vector<std::string> names_of(const std::vector<ParameterBlock>& blocks) {
  std::vector<std::string> names;
  names.reserve(blocks.size());
  for (const ParameterBlock& block : blocks) names.push_back(block.name);
  return names;
}

void check_names(const Manifest& manifest, const std::vector<ParameterBlock>& blocks,
                 const StoredByName& there) {
  const std::vector<std::string> own = names_of(blocks);
  std::vector<std::string> in_file;
  in_file.reserve(there.size());
  for (const auto& [name, tensor] : there) in_file.push_back(name);
  for (const auto& [name, source] : manifest.weights->names) {
    const std::string key = std::string(kWeightsKey) + ".map." + name;
    if (std::ranges::find(own, name) == own.end())
      throw error_at(manifest, key, "is not a tensor of the model" + did_you_mean(name, own));
    if (!source) continue;
    std::vector<std::string> all{source->name};
    if (!source->plus_first_row_of.empty()) all.push_back(source->plus_first_row_of);
    for (const std::string& named : all) {
      if (there.count(named) != 0) continue;
      throw error_at(manifest, key,
                     "is '" + one_line(named, 80) + "', which the file does not contain" +
                         did_you_mean(named, in_file));
    }
  }
}

/// Reads metadata, which is not trusted and proves nothing; texts are shortened to one line.
std::optional<WeightsOrigin> origin_of(const std::map<std::string, std::string>& metadata) {
  const auto said = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string()
                                   : one_line(shown_line(found->second), kLongestText);
  };
  // Exported files keep the `format` of the weights file that they replace.
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
    std::ranges::copy(block.values, parameters.begin() + static_cast<std::ptrdiff_t>(block.offset));
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
  const StoredByName there = by_name(file);
  check_names(manifest, blocks, there);
  const std::vector<Match> matches =
      matches_of(manifest.weights->names, network, blocks, sources_in(file, sources), there);
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
  for (const StoredTensor& tensor : file.tensors) {
    if (!used.contains(tensor.name)) weights.unused.push_back(tensor.name);
  }
  weights.facts.unused = weights.unused.size();
  return weights;
}

bool saw_protected_rows(const WeightsOrigin& origin) {
  const auto& listed = origin.unaccounted;
  return origin.epsilon != "inf" || origin.account ||
         std::ranges::find(listed, "initial_weights") != listed.end();
}

WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights) {
  const auto is_shown_only = [](const std::string& what) {
    return what == "training metrics" || what == "test metrics";
  };
  const bool is_charged = weights.origin && weights.origin->account && manifest.account &&
                          *weights.origin->account == manifest.account->opened &&
                          std::ranges::all_of(weights.origin->unaccounted, is_shown_only);
  if (is_charged) return WeightsClaim::charged_in_account;
  // If the file states that it is not public, the manifest's declaration does not count, because
  // the manifest's author may have forgotten the model's origin.
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

}  // namespace privgrad::core
