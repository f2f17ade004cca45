#include "privgrad/pipeline/safetensors.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace privgrad::core {

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian numbers");

std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const std::size_t begin = block.offset * sizeof(float);
    const std::size_t end = begin + element_count(block.shape) * sizeof(float);
    header[block.name] = {{"dtype", "F32"}, {"shape", block.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned

  const std::uint64_t length = text.size();
  std::string file(sizeof length + text.size() + parameters.size_bytes(), '\0');
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, text.data(), text.size());
  std::memcpy(file.data() + sizeof length + text.size(), parameters.data(),
              parameters.size_bytes());
  return file;
}

}  // namespace privgrad::core
