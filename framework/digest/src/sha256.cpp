#include "privgrad/digest/sha256.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kDigestBytes = 32;

void require(bool done) {
  if (!done) throw NumericError("OpenSSL cannot compute a SHA-256 here");
}

}  // namespace

// Uses OpenSSL, although keys are derived by libsodium, because OpenSSL uses the processor's SHA
// instructions. All examples are hashed before a run begins, and all plugins before a program
// starts.
struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    require(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
  EVP_MD_CTX* context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

void Sha256::add(std::span<const std::uint8_t> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, kDigestBytes> digest{};
  require(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 2 * kDigestBytes && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace privgrad::core
