#include "privgrad/trust/random_key.hpp"

#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kBlockBytes = 64;

void require_sodium() {
  // May be called repeatedly and from any thread; both 0 and 1 mean that libsodium is ready.
  if (sodium_init() < 0)
    throw NumericError("libsodium could not be initialised: no secure randomness");
}

std::uint64_t load_little_endian(const std::uint8_t* from) {
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = (word << 8) | from[i];
  return word;
}

void store_little_endian(std::uint64_t word, std::uint8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

/// (word + 1/2) / 2^64, in [2^-65, 1], with full relative precision near 0, where the tails of the
/// normal come from.
double open_uniform(std::uint64_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-64; }

/// Two independent N(0, 1) samples from two independent words.
void box_muller(std::uint64_t first, std::uint64_t second, double* out) {
  const double radius = std::sqrt(-2.0 * std::log(open_uniform(first)));
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(second >> 11) * 0x1p-53);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

class KeyedStream final : public RandomStream {
 public:
  KeyedStream(RandomKey key, std::uint64_t stream) : key_(key), stream_(stream) {}

  std::uint64_t uniform_below(std::uint64_t bound) override {
    if (bound == 0) throw ConfigError("uniform_below needs a bound above 0");
    // Words below 2^64 mod bound would make small results likelier; they are redrawn (fewer than
    // two draws on average).
    const std::uint64_t rejected_below = (0 - bound) % bound;
    std::uint64_t word = next();
    while (word < rejected_below) word = next();
    return word % bound;
  }

  double uniform() override { return static_cast<double>(next() >> 11) * 0x1p-53; }

  void fill_normal(std::span<float> out) override {
    double pair[2];
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % 2 == 0) {
        const std::uint64_t first = next();
        box_muller(first, next(), pair);
      }
      out[i] = static_cast<float>(pair[i % 2]);
    }
  }

 private:
  std::uint64_t next() {
    if (used_ == buffer_.size()) {
      key_.fill_bytes(stream_, block_, buffer_);
      block_ += buffer_.size() / kBlockBytes;
      used_ = 0;
    }
    const std::uint64_t word = load_little_endian(buffer_.data() + used_);
    used_ += sizeof word;
    return word;
  }

  RandomKey key_;
  std::uint64_t stream_;
  std::uint64_t block_ = 0;
  std::array<std::uint8_t, 16 * kBlockBytes> buffer_{};
  std::size_t used_ = buffer_.size();
};

class KeyedSource final : public RandomSource {
 public:
  explicit KeyedSource(RandomKey key) : key_(key) {}
  std::unique_ptr<RandomStream> stream(std::uint64_t index) const override {
    return std::make_unique<KeyedStream>(key_, index);
  }

 private:
  RandomKey key_;
};

}  // namespace

RandomKey RandomKey::from_operating_system() {
  require_sodium();
  std::array<std::uint8_t, 32> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  return RandomKey(bytes);
}

RandomKey RandomKey::from_seed(std::uint64_t seed) {
  require_sodium();
  std::array<std::uint8_t, 32> bytes{};
  store_little_endian(seed, bytes.data());
  return RandomKey(bytes).derive("privgrad research seed");
}

RandomKey RandomKey::from_public_hex(std::string_view hex) {
  require_sodium();
  std::array<std::uint8_t, 32> bytes{};
  std::size_t length = 0;
  if (!is_sha256_hex(hex) ||
      sodium_hex2bin(bytes.data(), bytes.size(), hex.data(), hex.size(), nullptr, &length,
                     nullptr) != 0 ||
      length != bytes.size()) {
    throw ConfigError("a key is 64 lower-case hex digits");
  }
  return RandomKey(bytes);
}

std::string RandomKey::public_hex() const {
  std::array<char, 2 * sizeof bytes_ + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), bytes_.data(), bytes_.size());
}

RandomKey RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32> from) {
  require_sodium();
  std::array<std::uint8_t, 32> bytes{};
  std::copy(from.begin(), from.end(), bytes.begin());
  return RandomKey(bytes);
}

RandomKey RandomKey::derive(std::string_view purpose) const {
  std::array<std::uint8_t, 32> bytes{};
  crypto_generichash(bytes.data(), bytes.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     bytes_.data(), bytes_.size());
  return RandomKey(bytes);
}

void RandomKey::fill_bytes(std::uint64_t stream, std::uint64_t block,
                           std::span<std::uint8_t> out) const {
  std::array<std::uint8_t, crypto_stream_chacha20_NONCEBYTES> nonce{};
  static_assert(sizeof nonce == sizeof stream);
  store_little_endian(stream, nonce.data());
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  crypto_stream_chacha20_xor_ic(out.data(), out.data(), out.size(), nonce.data(), block,
                                bytes_.data());
}

std::size_t unforeseen(std::size_t below) {
  require_sodium();
  return randombytes_uniform(static_cast<std::uint32_t>(below));
}

std::unique_ptr<RandomSource> make_random_source(const RandomKey& key) {
  return std::make_unique<KeyedSource>(key);
}

}  // namespace privgrad::core
