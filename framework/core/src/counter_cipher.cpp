#include "privgrad/core/counter_cipher.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr std::array<std::uint8_t, 8192> kZeros{};

void require(bool done, const char* what) {
  if (!done) throw NumericError(std::string("OpenSSL could not ") + what + ": no noise");
}

void store_big_endian(std::uint64_t word, std::uint8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(word >> (56 - 8 * i));
}

}  // namespace

struct CounterCipher::State {
  State() : context(EVP_CIPHER_CTX_new()) {
    require(context != nullptr, "allocate a cipher context");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_CIPHER_CTX_free(context); }  // also wipes the key

  EVP_CIPHER_CTX* context;
  std::uint64_t domain = 0;
  std::uint64_t next_block = 0;
  bool positioned = false;
};

CounterCipher::CounterCipher(const RandomKey& key) : state_(std::make_unique<State>()) {
  require(EVP_EncryptInit_ex(state_->context, EVP_aes_128_ctr(), nullptr, key.bytes_.data(),
                             nullptr) == 1,
          "set an AES-128 key");
}

CounterCipher::CounterCipher(CounterCipher&&) noexcept = default;
CounterCipher& CounterCipher::operator=(CounterCipher&&) noexcept = default;
CounterCipher::~CounterCipher() = default;

void CounterCipher::read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out) {
  State& state = *state_;
  if (!state.positioned || domain != state.domain || block != state.next_block) {
    std::array<std::uint8_t, kBlockBytes> counter{};
    store_big_endian(domain, counter.data());
    store_big_endian(block, counter.data() + 8);
    require(EVP_EncryptInit_ex(state.context, nullptr, nullptr, nullptr, counter.data()) == 1,
            "set a counter");
  }
  state.positioned = out.size() % kBlockBytes == 0;
  state.domain = domain;
  state.next_block = block + out.size() / kBlockBytes;
  while (!out.empty()) {
    const std::size_t size = std::min(out.size(), kZeros.size());
    int written = 0;
    require(EVP_EncryptUpdate(state.context, out.data(), &written, kZeros.data(),
                              static_cast<int>(size)) == 1,
            "run AES-128 in counter mode");
    out = out.subspan(size);
  }
}

}  // namespace privgrad::core
