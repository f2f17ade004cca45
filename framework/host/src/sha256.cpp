#include "privgrad/host/sha256.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

#include "open_file.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace privgrad::host {

std::string sha256_of_file(const OpenFile& file) {
  core::Sha256 hash;
  std::vector<std::uint8_t> block(std::min<std::uint64_t>(file.size(), 1 << 18));
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), count);
    hash.add(std::span<const std::uint8_t>(block).first(count));
    at += count;
  }
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& file) try {
  std::error_code failure;
  auto path = std::filesystem::canonical(file, failure);
  return sha256_of_file(OpenFile(failure ? file : path));
} catch (const PluginError& problem) {
  throw PluginError(file.string() + ": " + problem.what());
}

}  // namespace privgrad::host
