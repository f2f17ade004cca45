#include "privgrad/data/kept_features.hpp"

#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "bytes_of.hpp"
#include "privgrad/abi.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kRowsOfHash = 256;

std::string hash_of_features(const Dataset& data) {
  Sha256 hash;
  std::vector<std::uint32_t> rows;
  std::vector<float> features, targets;
  for (std::size_t first = 0; first < data.rows(); first += kRowsOfHash) {
    rows.resize(std::min(kRowsOfHash, data.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    features.resize(rows.size() * data.row_size());
    targets.resize(rows.size());
    data.gather(rows, features, targets);
    hash.add(bytes_of(features));
  }
  return hash.hex();
}

}  // namespace

nlohmann::json key_of_code(const std::string& role, const Component& component,
                           const Params& params) {
  return {{"privgrad", PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
                           PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH)},
          {"abi", PRIVGRAD_ABI_TAG},
          {"c_library", ::gnu_get_libc_version()},
          {"instructions", name_of(instruction_set())},
          {role, component.full_name()},
          {role + "_file", component.plugin->sha256},
          {role + "_parameters", sha256_hex(to_yaml(params.value()))}};
}

FeatureKey key_of_features(nlohmann::json about, std::string what, std::size_t row_size,
                           const Dataset& data) {
  about["rows"] = data.rows();
  about["row_size"] = row_size;
  about["shape"] = data.shape().features;
  about["features"] = hash_of_features(data);
  return {about.dump(), std::move(what), data.rows(), row_size};
}

void replace_features(const Shape& shape, std::vector<float> outputs, Dataset& data) {
  const std::size_t size = element_count(shape);
  std::vector<std::size_t> no_numbers;
  for (std::size_t row = 0; row < data.rows(); ++row) {
    const auto out = std::span(outputs).subspan(row * size, size);
    if (all_finite(out)) continue;
    std::ranges::fill(out, 0.0f);
    no_numbers.push_back(row);
  }
  data.replace_features(shape, std::move(outputs));
  const std::span<float> written = data.features();
  for (const std::size_t row : no_numbers) {
    const auto out = written.subspan(row * size, size);
    std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace privgrad::core
