#include "privgrad/trust/discrete_gaussian.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

std::string purpose_of(std::uint64_t stream) {
  return "discrete normals " + std::to_string(stream);
}

/// True with probability exp(-p), for a coin that is true with probability p (CKS, Algorithm 1,
/// case p <= 1): the first false coin, of probability p / k for k = 1, 2, ..., has an odd k.
template <class Coin>
bool exp_minus(RandomWords& words, const Coin& coin) {
  std::uint64_t k = 1;
  while (coin() && (k == 1 || words.below(k) == 0)) ++k;
  return k % 2 == 1;
}

bool exp_minus_one(RandomWords& words) {
  return exp_minus(words, [] { return true; });
}

/// True with probability exp(-(whole + part / sigma)^2 / 2), part < sigma. The square is expanded
/// to whole^2 / 2 + whole (part / sigma) + (part / sigma)^2 / 2, with one coin for each term, or
/// for each unit of a term (CKS, Algorithm 1, case above 1).
bool exp_minus_half_square(RandomWords& words, std::uint64_t whole, std::uint64_t part,
                           std::uint64_t sigma) {
  const auto fraction = [&] { return words.below(sigma) < part; };
  const auto half = [&] { return (words.next() >> 63) != 0; };
  for (std::uint64_t i = 0; i < whole * whole / 2; ++i) {
    if (!exp_minus_one(words)) return false;
  }
  if (whole % 2 == 1 && !exp_minus(words, half)) return false;
  if (part == 0) return true;
  for (std::uint64_t i = 0; i < whole; ++i) {
    if (!exp_minus(words, fraction)) return false;
  }
  return exp_minus(words, [&] { return half() && fraction() && fraction(); });
}

}  // namespace

void RandomWords::refill() {
  cipher_.read(domain_, block_, {reinterpret_cast<std::uint8_t*>(words_.data()), sizeof words_});
  block_ += sizeof words_ / CounterCipher::kBlockBytes;
  if constexpr (std::endian::native == std::endian::big) {  // words are little-endian in the stream
    for (std::uint64_t& word : words_) word = __builtin_bswap64(word);
  }
  used_ = 0;
}

DiscreteGaussianStream::DiscreteGaussianStream(const RandomKey& key, std::uint64_t stream,
                                               std::uint64_t sigma)
    : words_(key.derive(purpose_of(stream))), sigma_(sigma) {
  if (sigma >= 1 && sigma <= kLargestDiscreteSigma) return;
  throw ConfigError("the discrete Gaussian's sigma is " + std::to_string(sigma) +
                    " cells, allowed is 1 to 2^52");
}

void DiscreteGaussianStream::fill(std::uint64_t chunk, std::span<std::int64_t> out) {
  words_.start(chunk);
  for (std::int64_t& value : out) value = draw();
}

std::int64_t DiscreteGaussianStream::draw() {
  constexpr std::uint64_t kMostWhole = 511;
  for (;;) {
    // Algorithm 2: size = part + sigma whole is geometric, P(size) ~ exp(-size / sigma).
    const std::uint64_t part = words_.below(sigma_);
    if (!exp_minus(words_, [&] { return words_.below(sigma_) < part; })) continue;
    std::uint64_t whole = 0;
    while (exp_minus_one(words_)) ++whole;
    const bool negative = (words_.next() >> 63) != 0;
    const bool second_zero = negative && part == 0 && whole == 0;
    if (second_zero || whole > kMostWhole) continue;
    // Algorithm 3: kept with probability exp(-(size - sigma)^2 / (2 sigma^2)).
    const bool kept = whole > 0   ? exp_minus_half_square(words_, whole - 1, part, sigma_)
                      : part == 0 ? exp_minus_half_square(words_, 1, 0, sigma_)
                                  : exp_minus_half_square(words_, 0, sigma_ - part, sigma_);
    if (!kept) continue;
    const auto size = static_cast<std::int64_t>(whole * sigma_ + part);
    return negative ? -size : size;
  }
}

Event grid_release_event(std::uint64_t levels, std::uint64_t sigma, Adjacency adjacency) {
  // Both sides of the quotient are integers below 2^53, thus exact; it and its square are rounded.
  const double ratio = sensitivity_of_unit_bound(adjacency) * static_cast<double>(levels) /
                       static_cast<double>(sigma);
  const double rho = 0.5 * ratio * ratio * (1.0 + 4.0 * std::numeric_limits<double>::epsilon());
  return Event::zcdp(rho);
}

std::uint64_t sigma_in_cells(double noise_multiplier, std::uint64_t levels) {
  const auto cells = static_cast<double>(levels);
  const double product = noise_multiplier * cells;
  if (!(product <= static_cast<double>(kLargestDiscreteSigma) - 1.0)) {
    throw ConfigError("a noise multiplier of " + format_number(noise_multiplier) + " is " +
                      format_number(product) + " cells of the grid, allowed are less than 2^52");
  }
  const double whole = std::ceil(product);
  // If the rounded product is an integer below the exact product, the next integer is needed.
  const bool above = whole == product && std::fma(noise_multiplier, cells, -product) > 0.0;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(whole) + (above ? 1 : 0));
}

}  // namespace privgrad::core
