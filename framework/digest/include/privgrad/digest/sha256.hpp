// SHA-256 of bytes that come in pieces, as hex.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace privgrad::core {

/// SHA-256 (FIPS 180-4) of bytes that are added in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::string_view bytes);
  void add(std::span<const std::uint8_t> bytes);

  /// \returns 64 lower-case hex digits. Nothing can be added afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// \returns the SHA-256 of the text, 64 lower-case hex digits.
std::string sha256_hex(std::string_view text);

/// Whether the text has the form of a result of sha256_hex().
bool is_sha256_hex(std::string_view text);

}  // namespace privgrad::core
