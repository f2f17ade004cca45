#include "folder.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "privgrad/error.hpp"

namespace pretrained {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr double kMostSize = 1e9;
constexpr int kMostDepth = 64;  ///< Levels of brackets; Json writes recursively.

/// \returns the first `size` bytes of a file, or fewer if it is shorter.
std::string beginning_of(const std::string& file, std::size_t size) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!in.is_open() || in.bad())
    throw privgrad::ConfigError("pretrained: " + file + ": cannot be read");
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

Json object_in(const std::string& text, const std::string& file, const char* what) {
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMostDepth)
      throw privgrad::ConfigError("pretrained: " + file + ": is nested deeper than " +
                                  std::to_string(kMostDepth) + " levels");
    return true;
  };
  Json json = Json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (!json.is_object()) throw privgrad::ConfigError("pretrained: " + file + ": " + what);
  return json;
}

/// Reads the names in the header of a safetensors file: 8 bytes of length, then JSON.
std::vector<std::string> tensors_in(const std::string& file) {
  const std::string length = beginning_of(file, 8);
  std::uint64_t size = 0;
  for (std::size_t i = length.size(); i-- > 0;)
    size = size << 8 | static_cast<unsigned char>(length[i]);
  const char* const what = "is not a safetensors file";
  if (length.size() < 8 || size > kMostBytes)
    throw privgrad::ConfigError("pretrained: " + file + ": " + what);
  std::vector<std::string> names;
  const Json header = object_in(beginning_of(file, 8 + size).substr(8), file, what);
  for (const auto& entry : header.items()) names.push_back(entry.key());
  return names;
}

}  // namespace

Folder::Folder(const std::string& path)
    : path_(path),
      text_(beginning_of(path + "/config.json", kMostBytes)),
      config_(object_in(text_, path + "/config.json", "is not a JSON object")),
      tensors_(tensors_in(path + "/model.safetensors")) {
  type_ = text("model_type", "");
}

std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 80;
  std::string line;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      line += c;
      continue;
    }
    constexpr const char* kDigits = "0123456789abcdef";
    line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text.size() > kMost ? line + "..." : line;
}

void Folder::refuse(const std::string& what) const {
  throw privgrad::ConfigError("pretrained: " + path_ + "/config.json: " + what);
}

const Json* Folder::find(const std::string& name) {
  known_.insert(name);
  const auto found = config_.find(name);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

std::size_t Folder::size(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) refuse("lacks " + name);
  return size(name, 0);
}

std::size_t Folder::size(const std::string& name, std::size_t otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_unsigned() || value->get<double>() < 1.0 ||
      value->get<double>() > kMostSize)
    refuse(name + " must be a whole number from 1 to 1e9");
  return value->get<std::size_t>();
}

double Folder::real(const std::string& name, double otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(name + " must be a number");
  return value->get<double>();
}

std::string Folder::text(const std::string& name, const std::string& otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(name + " must be a text");
  return value->get<std::string>();
}

bool Folder::boolean(const std::string& name, bool otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(name + " must be true or false");
  return value->get<bool>();
}

void Folder::need(const std::string& name, const Json& value) {
  const Json* const found = find(name);
  if (found != nullptr && *found != value)
    refuse(name + " is " + shown(found->dump()) + ", but only " + value.dump() + " is supported");
}

void Folder::refuse_unknown() const {
  for (const auto& [name, value] : config_.items()) {
    if (known_.contains(name)) continue;
    refuse("has the unknown member '" + shown(name) +
           "', which may change the network; if it does not, remove it from a copy of the file");
  }
}

std::string Folder::prefix(const std::string& name) const {
  const bool has = std::ranges::any_of(
      tensors_, [&](const std::string& tensor) { return tensor.starts_with(name + "."); });
  return has ? name + "." : "";
}

}  // namespace pretrained
