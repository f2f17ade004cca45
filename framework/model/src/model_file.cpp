#include "privgrad/model/model_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/model/network_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFile = std::size_t{32} << 30;
constexpr std::size_t kMostClasses = 1'000'000;
constexpr std::size_t kMostTransforms = 1000;
constexpr int kDeepestMetadata = 64;

/// Returns the N of a tensor named "preprocessing.N.NAME"; nothing for other names.
std::optional<std::size_t> transform_of(std::string_view name) {
  if (!name.starts_with(kFittedPrefix)) return std::nullopt;
  name.remove_prefix(kFittedPrefix.size());
  const std::string digits(name.substr(0, name.find('.')));
  if (digits.empty() || digits.size() > 4 ||
      !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const std::size_t number = std::stoul(digits);
  return digits == std::to_string(number) ? std::optional(number) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  ModelFile read() {
    header_ = parse_tensor_header(bytes_.substr(0, kMostTensorHeader), bytes_.size());
    check_version();
    ModelFile file;
    file.input = input();
    file.network = network();
    if (file.network.input.classes != file.input.classes)
      throw IoError("its network has other classes than its examples");
    file.classes = classes(file.input.classes);
    if (has("features")) file.features = names("features", element_count(file.input.features));
    if (has("data")) file.data = component(json("data"), "data", 2);
    file.model = component(json("model"), "model", 2);
    file.backend = component(json("backend"), "backend", 2);
    file.preprocessing = preprocessing();
    check_tensors(header_, file.network, file.preprocessing.size());
    file.parameters = parameters(file.network);
    read_fitted(file.preprocessing);
    file.metadata = std::move(header_.metadata);
    return file;
  }

 private:
  void check_version() const {
    const auto text = [&](const char* key) {
      const auto found = header_.metadata.find(key);
      return found == header_.metadata.end() ? std::string() : found->second;
    };
    if (text("format") != "privgrad") throw IoError("is not a model of PrivGrad");
    const std::string version = text("model_format");
    if (version.empty())
      throw IoError("does not describe its application: it was written before version 0.2");
    if (version != "1" && version != "2") {
      throw IoError("is of version " + shown_line(version.substr(0, 40)) +
                    " of model files, this program reads 1 and 2");
    }
  }

  Json json(const std::string& key) const {
    const auto found = header_.metadata.find(key);
    if (found == header_.metadata.end()) throw IoError("its metadata has no '" + key + "'");
    if (const std::string wrong = json_problem(kDeepestMetadata, found->second); !wrong.empty())
      throw IoError("its metadata '" + key + "' " + wrong);
    Json json = Json::parse(found->second, nullptr, false);
    if (json.is_discarded()) throw IoError("its metadata '" + key + "' is not JSON");
    return json;
  }

  ExampleShape input() const {
    const Json shape = json("input");
    if (!shape.is_object() || shape.size() != 2 || !shape.contains("features") ||
        !shape.contains("classes") || !shape["features"].is_array() ||
        shape["features"].size() > 16 || !shape["classes"].is_number_unsigned())
      throw IoError("its metadata 'input' is not a shape of examples");
    ExampleShape input;
    constexpr std::uint64_t kMostFeatures = std::uint64_t{1} << 26;
    std::uint64_t count = 1;
    for (const Json& extent : shape["features"]) {
      if (!extent.is_number_unsigned() || extent == 0 ||
          extent.get<std::uint64_t>() > kMostFeatures ||
          (count *= extent.get<std::uint64_t>()) > kMostFeatures)
        throw IoError("its metadata 'input' is not a shape of examples");
      input.features.push_back(extent.get<std::size_t>());
    }
    input.classes = shape["classes"].get<std::size_t>();
    return input;
  }

  Network network() const {
    try {
      return network_from_json(json("network"));
    } catch (const ConfigError& problem) {
      throw IoError("its network is not valid: " + shown_line(problem.what()));
    }
  }

  bool has(const std::string& key) const { return header_.metadata.count(key) != 0; }

  std::vector<std::string> classes(std::size_t count) const {
    if (count > kMostClasses)
      throw IoError("its metadata 'classes' does not name all of its classes");
    return names("classes", count);
  }

  std::vector<std::string> names(const std::string& key, std::size_t count) const {
    const Json list = json(key);
    if (!list.is_array() || list.size() != count)
      throw IoError("its metadata '" + key + "' does not name the " + key + " that it has");
    std::vector<std::string> all;
    constexpr std::size_t kLongest = 4096;
    for (const Json& one : list) {
      if (!one.is_string() || one.get_ref<const std::string&>().size() > kLongest)
        throw IoError("its metadata '" + key + "' has a name that is not a short text");
      all.push_back(shown_line(one.get<std::string>()));
    }
    return all;
  }

  static SavedComponent component(const Json& json, const std::string& where, std::size_t members) {
    if (!json.is_object() || json.size() != members || !json.contains("kind") ||
        !json["kind"].is_string() || !json.contains("params") || !json["params"].is_object())
      throw IoError("its metadata '" + where + "' is not a component");
    return {shown_line(json["kind"].get<std::string>()), value_from_json(json["params"])};
  }

  std::vector<SavedTransform> preprocessing() const {
    const Json list = json("preprocessing");
    if (!list.is_array() || list.size() > kMostTransforms)
      throw IoError("its metadata 'preprocessing' is not a list of transforms");
    std::vector<SavedTransform> transforms;
    for (const Json& one : list) {
      SavedTransform transform;
      transform.component = component(one, "preprocessing", 3);
      if (!one.contains("is_known") || !one["is_known"].is_boolean())
        throw IoError("its metadata 'preprocessing' is not a list of transforms");
      transform.fitted.is_known = one["is_known"].get<bool>();
      transforms.push_back(std::move(transform));
    }
    return transforms;
  }

  template <class Number>
  void copy(const std::string& name, const TensorEntry& entry, Number* out) const {
    const std::size_t count = (entry.end - entry.begin) / sizeof(Number);
    std::memcpy(out, bytes_.data() + header_.data_begin + entry.begin, entry.end - entry.begin);
    if (std::all_of(out, out + count, [](Number x) { return std::isfinite(x); })) return;
    throw IoError("its tensor '" + shown_line(name) + "' has a value that is not finite");
  }

  std::vector<float> parameters(const Network& network) const {
    std::vector<float> values(parameter_count(network));
    for (const ParameterBlock& block : parameter_blocks(network))
      copy(block.name, header_.tensors.at(block.name), values.data() + block.offset);
    return values;
  }

  /// Reads the learnt values; each transform gets its values in the file's order.
  void read_fitted(std::vector<SavedTransform>& transforms) const {
    std::map<std::size_t, std::string> by_place;
    for (const auto& [name, entry] : header_.tensors) by_place.emplace(entry.begin, name);
    for (const auto& [place, name] : by_place) {
      const auto number = transform_of(name);
      if (!number || header_.tensors.at(name).type != "F64") continue;
      const TensorEntry& entry = header_.tensors.at(name);
      FittedTransform& fitted = transforms.at(*number).fitted;
      if (!fitted.is_known)
        throw IoError("it has tensors of a transform that does not disclose its learnt values");
      FittedTensor tensor{name.substr(fitted_name(*number, "").size()), entry.shape, {}};
      tensor.values.resize((entry.end - entry.begin) / sizeof(double));
      copy(name, entry, tensor.values.data());
      fitted.values.push_back(std::move(tensor));
    }
  }

  std::string_view bytes_;
  TensorHeader header_;
};

}  // namespace

std::vector<std::string> class_names(const ExampleShape& shape,
                                     const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shape.classes; ++i)
    names.push_back(given.empty() ? std::to_string(i) : shown_line(given.at(i)));
  return names;
}

void check_tensors(const TensorHeader& header, const Network& network, std::size_t transforms) {
  std::set<std::string> expected;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const auto found = header.tensors.find(block.name);
    if (found == header.tensors.end()) throw IoError("it has no tensor '" + block.name + "'");
    if (found->second.type != "F32" || found->second.shape != block.shape) {
      throw IoError("its tensor '" + block.name + "' is " + privgrad::to_text(found->second.shape) +
                    (found->second.type == "F32" ? "" : " of another type") + ", its network has " +
                    privgrad::to_text(block.shape) + " of F32 there");
    }
    expected.insert(block.name);
  }
  for (const auto& [name, entry] : header.tensors) {
    if (expected.contains(name)) continue;
    const auto number = transform_of(name);
    if (!number || *number >= transforms) {
      throw IoError("it has a tensor '" + shown_line(name.substr(0, 80)) +
                    "', which neither its network nor its preprocessing has");
    }
    if (entry.type != "F64")
      throw IoError("its tensor '" + shown_line(name.substr(0, 80)) + "' is not F64");
    if (entry.begin == entry.end)
      throw IoError("its tensor '" + shown_line(name.substr(0, 80)) + "' holds no number");
  }
}

ModelFile parse_model_file(std::string_view bytes, const std::string& name) {
  try {
    return Reader(bytes).read();
  } catch (const IoError& problem) {
    throw IoError(name + ": " + problem.what());
  }
}

ModelFile read_model_file(const std::filesystem::path& file) {
  return parse_model_file(read_whole(file, kMostFile), file.string());
}

}  // namespace privgrad::core
