// Compares the rate at which the core generates noise with the rate of its cipher. See
// README.md.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "clock.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/discrete_gaussian.hpp"
#include "privgrad/trust/noise_words.hpp"
#include "privgrad/trust/normals.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"
#include "processor.hpp"

namespace {

using Json = nlohmann::ordered_json;
using privgrad::bench::best_seconds;
using privgrad::core::CounterCipher;
using privgrad::core::DiscreteGaussianStream;
using privgrad::core::kDiscreteChunk;
using privgrad::core::kNormalsPerChunk;
using privgrad::core::NormalStream;
using privgrad::core::NormalWords;
using privgrad::core::RandomKey;
using privgrad::core::RoundedGaussianStream;
using privgrad::core::rounding_variants;
using privgrad::core::RoundingTier;
using privgrad::core::RoundingVariant;
using privgrad::core::RoundingWay;

constexpr std::size_t kChunks = 32;
constexpr double kNormals = kChunks * kNormalsPerChunk;

/// Returns the bytes per second of AES-128 in counter mode, read in the same way as for noise.
double cipher_rate(const RandomKey& key) {
  CounterCipher cipher(key);
  std::vector<std::uint8_t> bytes(sizeof(NormalWords));
  std::uint64_t block = 0;
  const double seconds = best_seconds(400, [&] {
    for (std::size_t i = 0; i < kChunks; ++i, block += bytes.size() / CounterCipher::kBlockBytes)
      cipher.read(0, block, bytes);
  });
  return kChunks * sizeof(NormalWords) / seconds;
}

/// Returns normals per second in total: `streams` streams of `size` normals, into the same memory.
double noise_rate(const RandomKey& key, std::size_t size) {
  std::vector<float> out(size);
  std::uint64_t stream = 0;
  const double seconds =
      best_seconds(static_cast<int>(std::max(std::size_t{20}, (std::size_t{1} << 24) / size)), [&] {
        NormalStream(key, stream++).fill(0, out);
        asm volatile("" : : "r"(out.data()) : "memory");
      });
  return static_cast<double>(size) / seconds;
}

/// Returns discrete normals per second, from key to integer.
double discrete_rate(const RandomKey& key, std::uint64_t sigma) {
  DiscreteGaussianStream stream(key, 0, sigma);
  std::array<std::int64_t, kDiscreteChunk> out{};
  std::uint64_t chunk = 0;
  const double seconds = best_seconds(100, [&] {
    for (std::size_t i = 0; i < kChunks; ++i) {
      stream.fill(chunk++, out);
      asm volatile("" : : "r"(out.data()) : "memory");
    }
  });
  return kChunks * kDiscreteChunk / seconds;
}

/// Returns the seconds per element of releases with rounded Gaussian noise, on 64 KiB of sums.
double release_seconds(RoundedGaussianStream& stream, std::span<const double> sigmas,
                       unsigned shift) {
  std::vector<std::int64_t> sums(std::size_t{1} << 13), out(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = static_cast<std::int64_t>(i * 0x9e3779b97f4a7c15 >> 20);
  std::uint64_t first = 0;
  const double seconds = best_seconds(400, [&] {
    stream.release(first, sigmas, shift, sums, out);
    first += sums.size();
  });
  return seconds / static_cast<double>(sums.size());
}

/// Returns elements per second, and the shares of elements that needed the slower tiers.
Json rounded_rates(const RandomKey& key, double sigma, unsigned shift, const RoundingWay& way) {
  RoundedGaussianStream stream(key, 0, way);
  const double seconds = release_seconds(stream, {&sigma, 1}, shift);
  const auto share = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(stream.counts().elements);
  };
  Json rates;
  rates["million_per_second"] = 1e-6 / seconds;
  rates["undecided_by_vectors"] = share(stream.counts().fine);
  rates["undecided_by_96_bits"] = share(stream.counts().exact);
  return rates;
}

/// Returns rates by sigma in coarse cells, for fine and coarse cells; and for each tier alone.
Json rounded(const RandomKey& key, const RoundingWay& way) {
  Json result;
  for (const int size : {-1, 8, 9, 10, 11, 12, 13, 14, 16, 20, 30}) {
    for (const unsigned shift : {0u, 16u}) {
      const std::string name =
          "sigma 2^" + std::to_string(size) + (shift == 0 ? "" : ", coarse cells of 2^16");
      result[name] =
          rounded_rates(key, std::ldexp(1.0, size + static_cast<int>(shift)), shift, way);
    }
  }
  return result;
}

/// Returns nanoseconds per element of releases with several terms, for sigma 2^26 and coarse cells
/// of 2^17 fine cells: the sigmas are those of the inverse square root of prefix sums (BISR).
Json of_terms(const RandomKey& key, const RoundingVariant& variant) {
  Json result;
  for (const std::size_t terms : {1u, 2u, 4u, 8u, 16u}) {
    std::vector<RandomKey> keys;
    std::vector<double> sigmas;
    for (std::size_t j = 0; j < terms; ++j) {
      const auto number = static_cast<double>(j);
      keys.push_back(RoundedGaussianStream::own_key(key, j));
      sigmas.push_back(j == 0 ? 0x1p26 : sigmas.back() * (number - 1.5) / number);
    }
    auto stream = RoundedGaussianStream::of_own_keys(keys, {{}, &variant});
    const double seconds = release_seconds(stream, sigmas, 17);
    Json row;
    row["nanoseconds"] = seconds * 1e9;
    row["undecided_by_vectors"] =
        static_cast<double>(stream.counts().fine) / static_cast<double>(stream.counts().elements);
    result[std::to_string(terms)] = row;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  const RandomKey key = RandomKey::from_seed(1);
  Json result;
  result["processor"] = processor();
  result["build"] = PRIVGRAD_BENCH_BUILD;
  result["threads"] = 1;
  for (const RoundingVariant& variant : rounding_variants()) {
    // `plain` would measure the C library's fused multiply-adds
    if (variant.instruction_set == "plain") continue;
    result["rounded_gaussian_by_terms"][std::string(variant.instruction_set)] =
        of_terms(key, variant);
  }
  if (argc > 1 && argv[1] == std::string("terms")) {
    std::cout << result.dump(2) << '\n';
    return EXIT_SUCCESS;
  }
  const double cipher = cipher_rate(key);
  const double per_second = noise_rate(key, std::size_t{1} << 15);
  const double bytes_per_normal = double{sizeof(NormalWords)} / kNormalsPerChunk;
  result["million_normals_per_second"] = per_second * 1e-6;
  result["cipher_gigabytes_per_second"] = cipher * 1e-9;
  result["bytes_per_normal"] = bytes_per_normal;
  result["ratio_to_cipher"] = cipher / bytes_per_normal / per_second;
  for (const std::size_t size : {100u, 10'000u, 1'000'000u, 10'000'000u}) {
    result["million_normals_per_second_by_size"][std::to_string(size)] =
        noise_rate(key, size) * 1e-6;
  }
  for (const std::uint64_t sigma : {1u, 1000u, 1u << 24}) {
    result["nanoseconds_per_discrete_normal_by_sigma"][std::to_string(sigma)] =
        1e9 / discrete_rate(key, sigma);
  }
  for (const RoundingVariant& variant : rounding_variants()) {
    if (variant.instruction_set == "plain") continue;
    const std::string level(variant.instruction_set);
    result["rounded_gaussian"][level] = rounded(key, {{}, &variant});
    result["rounded_gaussian_doubles"][level] =
        rounded_rates(key, 1024.0, 0, {RoundingTier::doubles, &variant});
  }
  result["rounded_gaussian_fine"] = rounded_rates(key, 1024.0, 0, {RoundingTier::fine});
  result["rounded_gaussian_exact"] = rounded_rates(key, 1024.0, 0, {RoundingTier::exact});
  std::cout << result.dump(2) << '\n';
  return EXIT_SUCCESS;
} catch (const std::exception& problem) {
  std::cerr << "noise: " << problem.what() << '\n';
  return EXIT_FAILURE;
}
