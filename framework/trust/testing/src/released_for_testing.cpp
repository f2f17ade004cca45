#include <algorithm>
#include <array>
#include <utility>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/testing.hpp"
#include "rounded_release.hpp"
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
  std::array<std::uint8_t, 32> key{};  // the cipher uses the first half
  std::ranges::copy(order.key(), key.begin());
  RoundedGaussianStream::of_own_key(RandomKey::from_secret_bytes(key))
      .release(first, order.sigma(), order.shift(), sums, out);
}

std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum) {
  return TrustBase::copy(sum);
}

std::vector<float> rounded_for_testing(std::vector<std::int64_t> cells, const RandomKey& key,
                                       std::span<const double> sigmas, unsigned shift, double width,
                                       std::size_t first, Executor& executor) {
  RoundedNoise noise{key, 0, sigmas[0], shift, width, first};
  for (std::size_t j = 1; j < sigmas.size(); ++j)
    noise.further.push_back({RoundedGaussianStream::own_key(key, j), sigmas[j]});
  const RoundedRelease release = release_rounded(std::move(cells), nullptr, noise, executor);
  return {release.values.get(), release.values.get() + release.size};
}

}  // namespace privgrad::core
