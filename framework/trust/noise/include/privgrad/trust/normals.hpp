// Streams of float32 Gaussian noise: element i is a fixed number under a key.
#pragma once

#include <cstdint>
#include <span>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"

namespace privgrad::core {

/// One stream of Gaussian noise for sums in floating point (arithmetic: float): element i of stream
/// s is the zeta_i of RoundedGaussianStream, rounded to the nearest multiple of 2^-24 and then to
/// float32, whose numbers are that far apart below 1. So a draw lies within 2^-25 and a rounding of
/// float32 of an exact standard normal, its tails have no end, and it is a fixed number under a key on
/// any processor. Finer steps would take longer: ten times as long at 2^-30.
///
/// The streams are under a key of their own, derived from the given one, so that no exact release has
/// noise in common with one in floating point: whoever saw both could subtract it.
///
/// Threads: one object must not be shared; make one per task, it costs 2 microseconds.
class NormalStream {
 public:
  NormalStream(const RandomKey& key, std::uint64_t stream);

  /// Fills `out` with the elements first, first + 1, ...; below 2^64. Elements come in chunks of
  /// 1024: ranges that begin and end at multiples of it save making a chunk for a part of it.
  void fill(std::uint64_t first, std::span<float> out);

 private:
  RoundedGaussianStream stream_;
};

/// NormalStream(key, stream).fill(first, out).
void fill_normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                  std::span<float> out);

}  // namespace privgrad::core
