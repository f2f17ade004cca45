#include "privgrad/trust/counter_cipher.hpp"

#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <variant>

#include "privgrad/error.hpp"
#include "privgrad/trust/aes_instructions.hpp"

namespace privgrad::core {
namespace {

constexpr std::array<std::uint8_t, 8192> kZeros{};

void require(bool done, const char* what) {
  if (!done) throw NumericError(std::string("OpenSSL could not ") + what + ": no noise");
}

void store_big_endian(std::uint64_t word, std::uint8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(word >> (56 - 8 * i));
}

using Key = std::span<const std::uint8_t, 16>;

class ByInstructions {
 public:
  explicit ByInstructions(Key key)
      : keys_(aes_round_keys(key)), counter_blocks_(aes_variants().front().counter_blocks) {}
  ByInstructions(const ByInstructions&) = delete;
  ByInstructions& operator=(const ByInstructions&) = delete;
  ~ByInstructions() { sodium_memzero(&keys_, sizeof keys_); }

  void read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out) {
    counter_blocks_(keys_, domain, block, out);
  }

 private:
  AesRoundKeys keys_;
  AesCounterFunction* counter_blocks_;
};

class ByOpenSsl {
 public:
  explicit ByOpenSsl(Key key) : context_(EVP_CIPHER_CTX_new()) {
    require(context_ != nullptr, "allocate a cipher context");
    require(EVP_EncryptInit_ex(context_, EVP_aes_128_ctr(), nullptr, key.data(), nullptr) == 1,
            "set an AES-128 key");
  }
  ByOpenSsl(const ByOpenSsl&) = delete;
  ByOpenSsl& operator=(const ByOpenSsl&) = delete;
  ~ByOpenSsl() { EVP_CIPHER_CTX_free(context_); }  // also wipes the key

  void read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out) {
    constexpr std::size_t kBlockBytes = CounterCipher::kBlockBytes;
    if (!positioned_ || domain != domain_ || block != next_block_) {
      std::array<std::uint8_t, kBlockBytes> counter{};
      store_big_endian(domain, counter.data());
      store_big_endian(block, counter.data() + 8);
      require(EVP_EncryptInit_ex(context_, nullptr, nullptr, nullptr, counter.data()) == 1,
              "set a counter");
    }
    positioned_ = out.size() % kBlockBytes == 0;
    domain_ = domain;
    next_block_ = block + out.size() / kBlockBytes;
    while (!out.empty()) {
      const std::size_t size = std::min(out.size(), kZeros.size());
      int written = 0;
      require(EVP_EncryptUpdate(context_, out.data(), &written, kZeros.data(),
                                static_cast<int>(size)) == 1,
              "run AES-128 in counter mode");
      out = out.subspan(size);
    }
  }

 private:
  EVP_CIPHER_CTX* context_;
  std::uint64_t domain_ = 0;
  std::uint64_t next_block_ = 0;
  bool positioned_ = false;
};

}  // namespace

struct CounterCipher::State {
  State(Key key, bool by_instructions) {
    if (by_instructions) {
      cipher.emplace<ByInstructions>(key);
    } else {
      cipher.emplace<ByOpenSsl>(key);
    }
  }
  std::variant<std::monostate, ByInstructions, ByOpenSsl> cipher;
};

CounterCipher::CounterCipher(const RandomKey& key, Use use)
    : state_(std::make_unique<State>(Key(key.bytes_.data(), Key::extent),
                                     use == Use::fastest && has_aes_instructions())) {}

CounterCipher::CounterCipher(CounterCipher&&) noexcept = default;
CounterCipher& CounterCipher::operator=(CounterCipher&&) noexcept = default;
CounterCipher::~CounterCipher() = default;

void CounterCipher::read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out) {
  if (auto* fast = std::get_if<ByInstructions>(&state_->cipher)) {
    fast->read(domain, block, out);
  } else {
    std::get<ByOpenSsl>(state_->cipher).read(domain, block, out);
  }
}

}  // namespace privgrad::core
