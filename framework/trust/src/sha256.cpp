#include "privgrad/trust/sha256.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>

namespace privgrad::core {

struct Sha256::State {
  crypto_hash_sha256_state hash{};
};

Sha256::Sha256() : state_(std::make_unique<State>()) { crypto_hash_sha256_init(&state_->hash); }
Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  crypto_hash_sha256_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

void Sha256::add(std::span<const std::uint8_t> bytes) {
  crypto_hash_sha256_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state_->hash, digest.data());
  std::array<char, 2 * digest.size() + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == std::size_t{2} * crypto_hash_sha256_BYTES &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace privgrad::core
