#include "privgrad/host/sha256.hpp"

#include <sodium.h>

#include <array>
#include <fstream>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::host {

std::string sha256_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw PluginError(file.string() + ": cannot be read");
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<char> block(1 << 16);
  do {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(block.data()),
                              static_cast<unsigned long long>(in.gcount()));
  } while (in);
  if (in.bad()) throw PluginError(file.string() + ": cannot be read to its end");
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
}

}  // namespace privgrad::host
