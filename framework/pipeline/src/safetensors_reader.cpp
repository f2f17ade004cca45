#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/pipeline/safetensors.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_depth.hpp"
#include "privgrad/trust/sha256.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian numbers");

constexpr std::uint64_t kMostTensorHeader = std::uint64_t{16} << 20;  // 100000 tensors and more
constexpr std::size_t kMostTensorFile = std::size_t{1} << 36;
constexpr int kDeepestHeader = 4;  // {NAME: {"shape": [...]}} has three

/// Names come from the file: shortened, and shown as one line.
std::string shown_name(std::string_view name) { return "'" + one_line(name, 80) + "'"; }

/// Finds a key that an object has twice, of which a parser would keep either.
class KeysGivenTwice final : public nlohmann::json_sax<Json> {
 public:
  const std::string& found() const { return found_; }

  bool key(string_t& name) override {
    if (seen_.back().insert(name).second) return true;
    found_ = name;
    return false;
  }
  bool start_object(std::size_t) override {
    seen_.emplace_back();
    return true;
  }
  bool end_object() override {
    seen_.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> seen_;
  std::string found_;
};

Json parsed_header(std::string_view text) {
  if (text.empty() || text.front() != '{') throw IoError("the header is no JSON object");
  if (nested_deeper_than(kDeepestHeader, text)) throw IoError("the header is nested too deep");
  KeysGivenTwice twice;
  if (!Json::sax_parse(text, &twice)) {
    throw IoError(twice.found().empty()
                      ? "the header is no JSON object"
                      : "the header names " + shown_name(twice.found()) + " twice");
  }
  return Json::parse(text);
}

enum class NumberType { f32 = 1, f16, bf16 };

/// Where a tensor's numbers lie.
struct Entry {
  std::string name;
  Shape shape;
  NumberType type = NumberType::f32;
  std::size_t begin = 0, end = 0;  // bytes behind the header
};

NumberType number_type(const std::string& name, const Json& said) {
  const std::string text = said.is_string() ? said.get<std::string>() : std::string();
  if (text == "F32") return NumberType::f32;
  if (text == "F16") return NumberType::f16;
  if (text == "BF16") return NumberType::bf16;
  throw IoError("tensor " + shown_name(name) + " has numbers of the type " + shown_name(text) +
                ", allowed are F32, F16 and BF16");
}

std::size_t bytes_of(NumberType type) { return type == NumberType::f32 ? 4 : 2; }

std::size_t whole_number(const std::string& name, const Json& said) {
  if (said.is_number_unsigned()) return said.get<std::size_t>();
  throw IoError("tensor " + shown_name(name) + ": shape or data_offsets hold no whole number");
}

Entry entry_of(const std::string& name, const Json& said) {
  const bool is_entry = said.is_object() && said.size() == 3 && said.contains("dtype") &&
                        said.contains("shape") && said.at("shape").is_array() &&
                        said.contains("data_offsets") && said.at("data_offsets").is_array() &&
                        said.at("data_offsets").size() == 2;
  if (!is_entry) {
    throw IoError("tensor " + shown_name(name) +
                  " is not described by dtype, shape and two data_offsets");
  }
  Entry entry;
  entry.name = name;
  entry.type = number_type(name, said.at("dtype"));
  for (const Json& extent : said.at("shape")) entry.shape.push_back(whole_number(name, extent));
  entry.begin = whole_number(name, said.at("data_offsets")[0]);
  entry.end = whole_number(name, said.at("data_offsets")[1]);
  std::size_t bytes = 0;
  const bool fits =
      entry.begin <= entry.end &&
      !__builtin_mul_overflow(element_count(entry.shape), bytes_of(entry.type), &bytes) &&
      bytes == entry.end - entry.begin;
  if (fits) return entry;
  throw IoError("tensor " + shown_name(name) + " has a shape of " +
                one_line(privgrad::to_text(entry.shape), 80) + " and data that does not fit it");
}

/// In the order of their data, which they share among them without a gap.
std::vector<Entry> entries_of(const Json& header, std::size_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, said] : header.items()) {
    if (name != "__metadata__") entries.push_back(entry_of(name, said));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      throw IoError("the data of tensor " + shown_name(entry.name) +
                    (entry.begin < at ? " overlaps another tensor's" : " begins behind a gap"));
    }
    at = entry.end;
  }
  if (at == data_bytes) return entries;
  throw IoError("the header describes " + std::to_string(at) + " bytes of data, and there are " +
                std::to_string(data_bytes));
}

std::map<std::string, std::string> metadata_of(const Json& header) {
  std::map<std::string, std::string> metadata;
  if (!header.contains("__metadata__")) return metadata;
  const Json& said = header.at("__metadata__");
  if (!said.is_object()) throw IoError("__metadata__ is no object of texts");
  for (const auto& [key, value] : said.items()) {
    if (!value.is_string()) throw IoError("__metadata__ is no object of texts");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent (15 stands for 2^0), 10 of fraction.
float from_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const auto fraction = static_cast<float>(half & 1023);
  float value = 0.0f;
  if (exponent == 31) {
    value = std::numeric_limits<float>::infinity();  // or no number: neither is finite
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024.0f, exponent - 25);
  }
  return (half >> 15) != 0 ? -value : value;
}

std::vector<float> numbers_of(const Entry& entry, std::string_view data) {
  std::vector<float> values((entry.end - entry.begin) / bytes_of(entry.type));
  const char* from = data.data() + entry.begin;
  if (entry.type == NumberType::f32) {
    if (!values.empty()) std::memcpy(values.data(), from, values.size() * sizeof(float));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, sizeof bits);
      values[i] = entry.type == NumberType::f16
                      ? from_half(bits)
                      : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
  }
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return values;
  throw IoError("tensor " + shown_name(entry.name) +
                " holds a number that is not finite, at place " +
                std::to_string(bad - values.begin()));
}

}  // namespace

StoredTensors read_safetensors(std::string_view bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) throw IoError("is no safetensors file: it is cut off");
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.remove_prefix(sizeof length);
  if (length > bytes.size() || length > kMostTensorHeader) {
    throw IoError("is no safetensors file, or is cut off: its header would have " +
                  std::to_string(length) + " bytes");
  }
  const std::string_view data = bytes.substr(length);
  StoredTensors read;
  try {
    const Json header = parsed_header(bytes.substr(0, length));
    read.metadata = metadata_of(header);
    for (Entry& entry : entries_of(header, data.size())) {
      std::vector<float> values = numbers_of(entry, data);
      read.tensors.push_back({std::move(entry.name), std::move(entry.shape), std::move(values)});
    }
  } catch (const ConfigError& problem) {  // of a shape
    throw IoError(problem.what());
  }
  return read;
}

TensorFile read_safetensors_file(const std::filesystem::path& file) {
  const std::string bytes = read_whole(file, kMostTensorFile);
  try {
    return {read_safetensors(bytes), sha256_hex(bytes)};
  } catch (const IoError& problem) {
    throw IoError(file.string() + ": " + problem.what());
  }
}

}  // namespace privgrad::core
