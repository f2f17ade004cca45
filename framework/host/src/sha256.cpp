#include "privgrad/host/sha256.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>
#include <vector>

#include "open_file.hpp"
#include "privgrad/error.hpp"

namespace privgrad::host {

std::string sha256_of_file(const OpenFile& file) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<unsigned char> block(std::min<std::uint64_t>(file.size(), 1 << 18));
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), count);
    crypto_hash_sha256_update(&state, block.data(), count);
    at += count;
  }
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
}

std::string sha256_of_file(const std::filesystem::path& file) try {
  std::error_code failure;
  auto path = std::filesystem::canonical(file, failure);
  return sha256_of_file(OpenFile(failure ? file : path));
} catch (const PluginError& problem) {
  throw PluginError(file.string() + ": " + problem.what());
}

}  // namespace privgrad::host
