#include "privgrad/host/sha256.hpp"

#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

#include "open_file.hpp"
#include "privgrad/error.hpp"

namespace privgrad::host {

namespace {

void require(bool done) {
  if (!done) throw PluginError("OpenSSL cannot compute a SHA-256 here");
}

}  // namespace

// By OpenSSL, and not by libsodium: it uses the processor's own SHA instructions, and half of a
// program's start went into these hashes.
std::string sha256_of_file(const OpenFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  require(hash && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1);
  std::vector<unsigned char> block(std::min<std::uint64_t>(file.size(), 1 << 18));
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), count);
    require(EVP_DigestUpdate(hash.get(), block.data(), count) == 1);
    at += count;
  }
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(hash.get(), digest.data(), nullptr) == 1);
  std::array<char, 2 * digest.size() + 1> text{};
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
