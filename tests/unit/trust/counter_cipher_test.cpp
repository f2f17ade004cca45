#include "privgrad/trust/counter_cipher.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "privgrad/trust/aes_instructions.hpp"
#include "support.hpp"

using namespace privgrad::core;

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::uint8_t> read(CounterCipher& cipher, std::uint64_t domain, std::uint64_t block,
                               std::size_t size) {
  std::vector<std::uint8_t> out(size);
  cipher.read(domain, block, out);
  return out;
}

/// Encrypts by OpenSSL, one block at a time.
std::vector<std::uint8_t> encrypted_counters(std::span<const std::uint8_t, 16> key,
                                             std::uint64_t domain, std::uint64_t block,
                                             std::size_t size) {
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  REQUIRE(EVP_EncryptInit_ex(context.get(), EVP_aes_128_ecb(), nullptr, key.data(), nullptr) == 1);
  std::vector<std::uint8_t> out;
  for (; out.size() < size; ++block) {
    std::array<std::uint8_t, 16> counter{}, encrypted{};
    for (std::size_t i = 0; i < 8; ++i) {
      counter[i] = static_cast<std::uint8_t>(domain >> (56 - 8 * i));
      counter[8 + i] = static_cast<std::uint8_t>(block >> (56 - 8 * i));
    }
    int written = 0;
    REQUIRE(EVP_EncryptUpdate(context.get(), encrypted.data(), &written, counter.data(), 16) == 1);
    REQUIRE(written == 16);
    out.insert(out.end(), encrypted.begin(), encrypted.end());
  }
  out.resize(size);
  return out;
}

}  // namespace

// NIST SP 800-38A, F.5.1 (CTR-AES128.Encrypt): the output blocks.
TEST_CASE("AES instructions give the standard's blocks", "[cipher]") {
  if (!has_aes_instructions()) {
    WARN("this processor has none");
    return;
  }
  const auto key = bytes_of("2b7e151628aed2a6abf7158809cf4f3c");
  const AesRoundKeys keys = aes_round_keys(std::span<const std::uint8_t, 16>(key.data(), 16));
  const auto expected = bytes_of(
      "ec8cdf7398607cb0f2d21675ea9ea1e4"
      "362b7c3c6773516318a077d7fc5073ae"
      "6a2cc3787889374fbeb4c81b17ba6c44"
      "e89c399ff0f198c6d40a31db156cabfe");
  for (const AesVariant& variant : aes_variants()) {
    INFO(variant.instruction_set);
    // Enough blocks for the code for the widest registers to compute the expected four.
    std::vector<std::uint8_t> out(1024);
    variant.counter_blocks(keys, 0xf0f1f2f3f4f5f6f7, 0xf8f9fafbfcfdfeff, out);
    CHECK(std::equal(expected.begin(), expected.end(), out.begin()));
  }
}

// Compared with OpenSSL, which encrypts each counter as a separate block, so it does not carry from
// the block's number into the domain's either.
TEST_CASE("each set of AES instructions gives OpenSSL's bytes", "[cipher]") {
  if (!has_aes_instructions()) {
    CHECK(aes_variants().empty());
    return;
  }
  std::array<std::uint8_t, 16> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(37 * i + 5);
  const AesRoundKeys keys = aes_round_keys(key);
  CHECK(!aes_variants().empty());
  for (const AesVariant& variant : aes_variants()) {
    INFO(variant.instruction_set);
    for (const std::uint64_t domain : {std::uint64_t{0}, 0x8123456789abcdef, ~std::uint64_t{0}}) {
      for (const std::uint64_t block :
           {std::uint64_t{0}, (std::uint64_t{1} << 32) - 3, ~std::uint64_t{0} - 20}) {
        for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 127u, 128u, 255u, 256u, 511u, 512u,
                                       513u, 1000u, 4096u, 4097u}) {
          const auto expected = encrypted_counters(key, domain, block, size);
          std::vector<std::uint8_t> out(size + 64, 0xa5);
          variant.counter_blocks(keys, domain, block, std::span(out).first(size));
          INFO(domain << ' ' << block << ' ' << size);
          CHECK(std::equal(expected.begin(), expected.end(), out.begin()));
          CHECK(std::count(out.end() - 64, out.end(), 0xa5) == 64);  // nothing after the end
        }
      }
    }
  }
}

// Noise must not depend on the machine: neither with a seed nor in a resumed run.
TEST_CASE("a cipher has the same bytes with the processor's instructions and without", "[cipher]") {
  const RandomKey key = RandomKey::from_seed(3);
  CounterCipher fast(key);
  CounterCipher plain(key, CounterCipher::Use::openssl);
  for (const std::uint64_t domain : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (const std::uint64_t block :
         {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{1} << 40}) {
      for (const std::size_t size : {1u, 15u, 16u, 17u, 127u, 128u, 129u, 4096u, 10'000u}) {
        CHECK(read(fast, domain, block, size) == read(plain, domain, block, size));
      }
    }
  }
}

TEST_CASE("an address holds the same bytes however it is reached", "[cipher]") {
  const RandomKey key = RandomKey::from_seed(4);
  for (const auto use : {CounterCipher::Use::fastest, CounterCipher::Use::openssl}) {
    CounterCipher cipher(key, use);
    const auto all = read(cipher, 5, 100, 64 * 16);
    for (const std::size_t block : {0u, 7u, 8u, 63u, 1u}) {
      const auto some = read(cipher, 5, 100 + block, 16);
      CHECK(std::equal(some.begin(), some.end(),
                       all.begin() + static_cast<std::ptrdiff_t>(16 * block)));
    }
    CHECK(read(cipher, 6, 100, 64 * 16) != all);
  }
}
