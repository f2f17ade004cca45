#include "privgrad/model/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian numbers");

constexpr int kDeepestHeader = 4;  // {NAME: {"shape": [...]}} has three levels
constexpr std::size_t kMostExtents = 16;

/// Returns a tensor's name in a form that is safe in messages.
std::string shown_name(std::string_view name) { return "'" + shown_line(name.substr(0, 80)) + "'"; }

template <class Number>
void append(std::string& file, std::span<const Number> numbers) {
  file.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

Json header_json(std::string_view text) {
  if (const std::string wrong = json_problem(kDeepestHeader, text); !wrong.empty())
    throw IoError("its header " + wrong);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw IoError("its header is not JSON");
  if (!json.is_object()) throw IoError("its header is not a JSON object");
  return json;
}

std::size_t whole_number(const Json& json, const std::string& where) {
  if (!json.is_number_unsigned())
    throw IoError(where + " holds something that is not a whole number");
  return json.get<std::size_t>();
}

/// \returns the size in bytes of a number of this type.
std::size_t bytes_of(const std::string& type, const std::string& where) {
  static const std::map<std::string, std::size_t> all = {
      {"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
      {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"C64", 8}};
  const auto found = all.find(type);
  if (found != all.end()) return found->second;
  throw IoError(where + " has numbers of the type " + shown_name(type) +
                ", which the format does not have");
}

TensorEntry tensor_from(const Json& json, const std::string& where, std::size_t data_bytes) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    throw IoError(where + " has no valid dtype, shape and data_offsets");
  }
  TensorEntry entry;
  if (json.at("dtype").is_string()) entry.type = json.at("dtype").get<std::string>();
  const Json& shape = json.at("shape");
  const Json& offsets = json.at("data_offsets");
  if (!shape.is_array() || shape.size() > kMostExtents || !offsets.is_array() ||
      offsets.size() != 2) {
    throw IoError(where + " has no valid shape or data_offsets");
  }
  std::size_t bytes = bytes_of(entry.type, where);
  for (const Json& one : shape) {
    const std::size_t extent = whole_number(one, where);
    entry.shape.push_back(extent);
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw IoError(where + " has a shape that is too large");
  }
  entry.begin = whole_number(offsets[0], where);
  entry.end = whole_number(offsets[1], where);
  if (entry.begin > entry.end || entry.end > data_bytes)
    throw IoError(where + " lies outside the file");
  if (entry.end - entry.begin != bytes) {
    throw IoError(where + " has " + std::to_string(entry.end - entry.begin) + " bytes, but " +
                  privgrad::to_text(entry.shape) + " of them need " + std::to_string(bytes));
  }
  return entry;
}

/// Refuses overlaps and gaps, because readers may disagree about the bytes there.
void check_cover(const TensorHeader& header, std::size_t data_bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (const auto& [name, entry] : header.tensors) parts.emplace_back(entry.begin, entry.end);
  std::ranges::sort(parts);
  std::size_t end = 0;
  for (const auto& [begin, next] : parts) {
    if (begin < end) throw IoError("its header describes tensors that overlap");
    if (begin > end) throw IoError("its header leaves a gap between tensors");
    end = next;
  }
  if (end != data_bytes) throw IoError("it has bytes that belong to no tensor");
}

}  // namespace

std::string fitted_name(std::size_t transform, std::string_view name) {
  return std::string(kFittedPrefix) + std::to_string(transform) + "." + std::string(name);
}

std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           std::span<const FittedTransform> preprocessing,
                           const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::string data;
  const auto add = [&](const std::string& name, const char* type, const Shape& shape,
                       std::size_t bytes) {
    if (header.contains(name)) throw IoError("two tensors have the name " + name);
    header[name] = {
        {"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
  };
  for (std::size_t i = 0; i < preprocessing.size(); ++i) {
    for (const FittedTensor& tensor : preprocessing[i].values) {
      const std::span<const double> values(tensor.values);
      add(fitted_name(i, tensor.name), "F64", tensor.shape, values.size_bytes());
      append(data, values);
    }
  }
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const auto values = parameters.subspan(block.offset, element_count(block.shape));
    add(block.name, "F32", block.shape, values.size_bytes());
    append(data, values);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned

  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file.reserve(sizeof length + text.size() + data.size());
  file += text;
  file += data;
  return file;
}

namespace {

/// Recognises files of torch.save: a ZIP archive or, before PyTorch 1.6, a pickle. A pickle
/// contains code, which is never run here.
bool is_of_torch_save(std::string_view beginning) {
  return beginning.starts_with("PK\x03\x04") || beginning.starts_with("\x80\x02");
}

}  // namespace

TensorHeader parse_tensor_header(std::string_view beginning, std::size_t file_bytes) {
  std::uint64_t length = 0;
  if (beginning.size() < sizeof length) throw IoError("is incomplete: its header is cut off");
  std::memcpy(&length, beginning.data(), sizeof length);
  if (is_of_torch_save(beginning)) {
    throw IoError(
        "is a file of torch.save (.pt, .pth), a pickle, which can run code when it is read; make "
        "safetensors of it in Python: safetensors.torch.save_file(torch.load(FILE, "
        "weights_only=True), \"model.safetensors\")");
  }
  if (length > file_bytes - sizeof length) {
    throw IoError("is incomplete, or not a model: its header has " + std::to_string(length) +
                  " bytes, the file " + std::to_string(file_bytes));
  }
  if (length > kMostTensorHeader - sizeof length || length > beginning.size() - sizeof length)
    throw IoError("has a header of " + std::to_string(length) + " bytes, which no run writes");
  const Json json = header_json(beginning.substr(sizeof length, length));
  TensorHeader header;
  header.data_begin = sizeof length + length;
  const std::size_t data_bytes = file_bytes - header.data_begin;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.emplace(name,
                             tensor_from(value, "its tensor " + shown_name(name), data_bytes));
      continue;
    }
    if (!value.is_object()) throw IoError("its metadata is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw IoError("its metadata " + shown_name(key) + " is not text");
      header.metadata.emplace(key, text.get<std::string>());
    }
  }
  check_cover(header, data_bytes);
  return header;
}

}  // namespace privgrad::core
