#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "privgrad/trust/box_muller.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// One stream of the core's Gaussian noise: element i of stream s is a fixed number under a key, so
/// threads, shards and resumed runs neither repeat nor skip a draw, on any processor.
///
/// Each stream has an AES key of its own, derived from the run's. 1024 normals at a time take
/// 4 KiB of CounterCipher's domain 0 and become normals by Box-Muller (box_muller.hpp). A pair
/// whose u has 12 leading bits that are all 0 or all 1, one in 2048, is made again with 64 bits
/// more, from the block of domain 1 that has the pair's number.
///
/// Distribution: u and the angle are midpoints of cells of an exactly uniform word. Moving them to
/// the uniform point of the cell that they stand for multiplies the length r of a pair by
/// 1 +- 2^-33 / (u r^2), at most 3e-8 for r > 0.1 and 2.4e-7 where no further bits are taken, and
/// turns the pair by at most 2^-30 pi / 4 = 8e-10. Together with the arithmetic's 3e-7, a true
/// normal variable lies within 6e-7 |x| + 8e-10 r of a draw x: a few roundings of float32, which is
/// what is released, and no more in the tails, where further bits are taken. The largest possible
/// value is kLargestNormal = 11.596; a normal variable exceeds it in absolute value with
/// probability 5e-31.
///
/// Threads: one object must not be shared; make one per task, it costs 2 microseconds.
class NormalStream {
 public:
  NormalStream(const RandomKey& key, std::uint64_t stream);

  /// Fills `out` with the elements first, first + 1, ...; below 2^64. Elements come in chunks of
  /// 1024: ranges that begin and end at multiples of it save making a chunk for a part of it.
  void fill(std::uint64_t first, std::span<float> out);

 private:
  void make_chunk(std::uint64_t chunk, std::span<float, kNormalsPerChunk> out);

  CounterCipher& refinements();

  RandomKey key_;
  CounterCipher cipher_;
  std::optional<CounterCipher> refinements_;  // made when the first pair needs it
  BoxMullerFunction* transform_;
};

/// NormalStream(key, stream).fill(first, out).
void fill_normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                  std::span<float> out);

}  // namespace privgrad::core
