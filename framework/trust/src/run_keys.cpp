#include "privgrad/trust/run_keys.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::core {

void RunKeys::save(StateWriter& out) const {
  out.begin("keys");
  out.word(now_ ? 1 : 0);
  if (!now_) return;
  out.array(std::span<const std::uint8_t>(lasting_.secret_bytes()));
  out.array(std::span<const std::uint8_t>(now_->secret_bytes()));
  out.array(std::span<const std::uint8_t>(seal().secret_bytes()));
}

RunKeys RunKeys::restored(StateReader& in, const std::optional<RandomKey>& constant,
                          std::string bound_to) {
  in.begin("keys");
  const bool is_chain = in.word() == 1;
  if (is_chain == constant.has_value()) in.fail("a seed, or a key, is missing or too many");
  if (!is_chain) return RunKeys::constant(*constant);
  const auto key = [&] {
    const std::vector<std::uint8_t> bytes = in.array<std::uint8_t>(32);
    return RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32>(bytes.data(), 32));
  };
  const RandomKey lasting = key();
  const RandomKey now = key();
  RunKeys keys(lasting, now, std::move(bound_to));
  const RandomKey sealed = key(), seal = keys.seal();
  if (!std::ranges::equal(sealed.secret_bytes(), seal.secret_bytes())) {
    throw PrivacyError(
        "the keys in the run's private folder are sealed with other inputs than it says that the "
        "run began with; it can only go on as it began");
  }
  return keys;
}

}  // namespace privgrad::core
