#include <algorithm>
#include <array>
#include <utility>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/testing.hpp"
#include "trust_base.hpp"

namespace privgrad::core {

Released released_for_testing(std::vector<float> values, double noise_stddev) {
  return TrustBase::released(std::move(values), noise_stddev);
}

NoiseOrder noise_order_for_testing(std::uint64_t number, double sigma, unsigned shift) {
  return TrustBase::noise_order(RandomKey::from_seed(number), sigma, shift);
}

void release_for_testing(const NoiseOrder& order, std::uint64_t first,
                         std::span<const std::int64_t> sums, std::span<std::int64_t> out) {
  std::array<std::uint8_t, 32> key{};  // the cipher takes the first half
  std::copy(order.key().begin(), order.key().end(), key.begin());
  RoundedGaussianStream::of_own_key(RandomKey::from_secret_bytes(key))
      .release(first, order.sigma(), order.shift(), sums, out);
}

std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum) {
  return TrustBase::copy(sum);
}

}  // namespace privgrad::core
