#include "privgrad/trust/run_keys.hpp"

#include <algorithm>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::core {

void RunKeys::save(StateWriter& out) const {
  out.begin("keys");
  out.put(now_.has_value());
  if (now_) out.put(lasting_, *now_, seal());
}

RunKeys RunKeys::restored(StateReader& in, const std::optional<RandomKey>& constant,
                          std::string bound_to) {
  in.begin("keys");
  const bool is_chain = in.flag();
  if (is_chain == constant.has_value()) in.fail("a seed, or a key, is missing or too many");
  if (!is_chain) return RunKeys::constant(*constant);
  const RandomKey lasting = in.key();
  const RandomKey now = in.key();
  RunKeys keys(lasting, now, std::move(bound_to));
  const RandomKey sealed = in.key(), seal = keys.seal();
  if (!std::ranges::equal(sealed.secret_bytes(), seal.secret_bytes())) {
    throw PrivacyError(
        "the keys in the run's private folder are sealed with other inputs than those recorded "
        "there; a run can only be resumed unchanged");
  }
  return keys;
}

}  // namespace privgrad::core
