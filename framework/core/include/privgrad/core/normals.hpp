#pragma once

#include <cstdint>
#include <span>

#include "privgrad/core/box_muller.hpp"
#include "privgrad/core/counter_cipher.hpp"
#include "privgrad/core/random_key.hpp"

namespace privgrad::core {

/// One stream of the core's Gaussian noise: element i of stream s is a fixed number under a key, so
/// threads, shards and resumed runs neither repeat nor skip a draw, on any processor.
///
/// Each stream has an AES-256 key of its own, derived from the run's. 1024 normals at a time take
/// 6 KiB of CounterCipher's domain 0 and become normals by Box-Muller (box_muller.hpp). A pair
/// whose u has 12 leading zero bits, one in 4096, is made again with 64 bits more, from the block
/// of domain 1 that has the pair's number.
///
/// Distribution: u and the angle are midpoints of cells of an exactly uniform word. Moving them to
/// the uniform point of the cell that they stand for moves a draw by at most
/// 2^-53 / (u r) + 2^-42 (pi / 4) r, r being the length of its pair, so a true normal variable lies
/// within 3e-13 max(1, r) of it for 1e-3 < r < 10: less than half a unit in the last place of a
/// float, for draws above 1e-5 r. Pairs with r < 1e-3 have a probability of 5e-7; theirs lies
/// within 2e-8. Up to 11 standard deviations the refined words keep it within half such a unit. The
/// largest possible value is kLargestNormal = 12.7356; a normal variable exceeds it in absolute
/// value with probability 4e-37.
///
/// Threads: one object must not be shared; make one per task, it costs 2 microseconds.
class NormalStream {
 public:
  NormalStream(const RandomKey& key, std::uint64_t stream);

  /// Fills `out` with the elements first, first + 1, ...; below 2^64. Elements come in chunks of
  /// 1024: ranges that begin and end at multiples of it save making a chunk for a part of it.
  void fill(std::uint64_t first, std::span<double> out);

 private:
  void make_chunk(std::uint64_t chunk, std::span<double, kNormalsPerChunk> out);

  CounterCipher cipher_;
  BoxMullerFunction* transform_;
};

/// NormalStream(key, stream).fill(first, out).
void fill_normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                  std::span<double> out);

}  // namespace privgrad::core
