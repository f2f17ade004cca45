// Streams of float32 Gaussian noise: element i is a fixed number under a key.
#pragma once

#include <cstdint>
#include <span>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"

namespace privgrad::core {

/// One stream of Gaussian noise for sums in floating point (arithmetic: float). Element i of stream
/// s is the zeta_i of RoundedGaussianStream, rounded to the nearest multiple of 2^-24, the spacing
/// of float32 just below 1, and then to float32. A draw thus lies within 2^-25 and one float32
/// rounding of an exact standard normal, its tails are not truncated, and the key fixes it on any
/// processor. Finer steps would take longer: ten times as long at 2^-30.
///
/// The streams use a key of their own, derived from the given one, so that no exact release shares
/// its noise with a floating-point release: the difference of the two would cancel the noise.
///
/// Threads: one object must not be shared; make one per task, which costs 2 microseconds.
class NormalStream {
 public:
  NormalStream(const RandomKey& key, std::uint64_t stream);

  /// Fills `out` with the elements first, first + 1, ...; their numbers must be below 2^64. They
  /// are generated in chunks of 1024; ranges that begin and end at multiples of 1024 waste nothing.
  void fill(std::uint64_t first, std::span<float> out);

 private:
  RoundedGaussianStream stream_;
};

}  // namespace privgrad::core
