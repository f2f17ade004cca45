#include "rounded_release.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "parts.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "release_memory.hpp"
#include "whole_numbers.hpp"

namespace privgrad::core {
namespace {

bool is_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
  return (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
}

/// values = width * cells, as floats; `to_double` converts a cell to double.
/// \returns whether all values are finite.
template <class ToDouble>
__attribute__((always_inline)) inline bool to_floats(std::span<const std::int64_t> cells,
                                                     double width, float* values,
                                                     const ToDouble& to_double) {
  const std::int64_t* from = cells.data();
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    values[i] = static_cast<float>(to_double(from[i]) * width);
    bad |= is_finite(values[i]) ? 0u : 1u;
  }
  return bad == 0;
}

bool to_floats_plain(std::span<const std::int64_t> cells, double width, float* values) {
  return to_floats(
      cells, width, values,
      [](std::int64_t k) __attribute__((always_inline)) { return static_cast<double>(k); });
}

#if defined(__x86_64__)
/// AVX2 has no conversion from 64-bit integers. The replacement works for a limited range; if a
/// value is outside it, which is rare, all are recomputed.
[[gnu::target("avx2")]] bool to_floats_avx2(std::span<const std::int64_t> cells, double width,
                                            float* values) {
  std::uint64_t seen = 0;
  const bool all_finite = to_floats(
      cells, width, values, [&](std::int64_t k) __attribute__((always_inline)) {
        seen |= beyond_shifted(k);
        return shifted_to_double(k);
      });
  return seen == 0 ? all_finite : to_floats_plain(cells, width, values);
}

[[gnu::target("avx512f,avx512dq,avx512vl")]] bool to_floats_avx512(
    std::span<const std::int64_t> cells, double width, float* values) {
  return to_floats(
      cells, width, values,
      [](std::int64_t k) __attribute__((always_inline)) { return static_cast<double>(k); });
}
#endif

using ToFloats = bool (*)(std::span<const std::int64_t>, double, float*);

/// All variants give the same bits: they round a cell to the nearest double, and the product first
/// to a double and then to a float.
ToFloats find_to_floats() {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) return to_floats_avx512;
  if (instruction_set() >= InstructionSet::avx2) return to_floats_avx2;
#endif
  return to_floats_plain;
}

/// Returns the ends of the pieces for a sum that is already added up: whole noise chunks.
std::vector<std::size_t> ends_of_parts(std::size_t size) {
  constexpr std::size_t kPart = 32 * kNormalsPerChunk;
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < size;) ends.push_back(end = std::min(size, end + kPart));
  return ends;
}

std::size_t largest_piece(std::span<const std::size_t> ends) {
  std::size_t largest = 0, begin = 0;
  for (const std::size_t end : ends) {
    largest = std::max(largest, end - begin);
    begin = end;
  }
  return largest;
}

/// A release, piece by piece.
class Release {
 public:
  Release(std::vector<std::int64_t> cells, std::unique_ptr<DeferredCells> deferred,
          const RoundedNoise& noise)
      : cells_(std::make_shared<std::vector<std::int64_t>>(std::move(cells))),
        deferred_(std::move(deferred)),
        own_ends_(deferred_ == nullptr ? ends_of_parts(cells_->size())
                                       : std::vector<std::size_t>{}),
        ends_(deferred_ == nullptr ? std::span<const std::size_t>(own_ends_) : deferred_->ends()),
        size_(ends_.empty() ? 0 : ends_.back()),
        shift_(noise.shift),
        width_(noise.width),
        first_(noise.first),
        own_keys_{RoundedGaussianStream::own_key(noise.key, noise.node)},
        sigmas_{noise.sigma},
        memory_(deferred_ == nullptr ? std::make_shared<ReleaseMemory>() : deferred_->memory()) {
    for (const auto& [own_key, sigma] : noise.further) {
      own_keys_.push_back(own_key);
      sigmas_.push_back(sigma);
    }
    memory_->resize_pieces(deferred_ == nullptr ? 0 : largest_piece(ends_));
    if (in_place()) {
      values_ = {cells_, reinterpret_cast<float*>(cells_->data())};
    } else {
      values_ = memory_->values(size_);
    }
  }

  RoundedRelease run(Executor& executor) {
    for (std::size_t first = 0; first < ends_.size();) {
      const std::size_t end = end_of_wave(first);
      executor.for_each_chunk(end - first, [&](std::size_t i) { release(first + i); });
      first = end;
    }
    if (in_place() && size_ % 2 != 0) std::memset(values_.get() + size_, 0, sizeof(float));
    return {values_, size_, all_finite_};
  }

 private:
  bool in_place() const { return !cells_->empty(); }
  std::size_t begin_of(std::size_t piece) const { return piece == 0 ? 0 : ends_[piece - 1]; }

  /// Pieces [first, end) may be released in parallel, after all pieces before them.
  ///
  /// In place, element i's value, 4 bytes, overwrites half of cell i / 2. A wave is a set of pieces
  /// that are released in parallel. If it begins at element b, it may end at 2 b: its values then
  /// overwrite only cells that earlier waves have read. A piece that extends beyond 2 b runs alone,
  /// and reads each cell before it overwrites that cell or a later one.
  std::size_t end_of_wave(std::size_t first) const {
    if (!in_place()) return ends_.size();
    std::size_t end = first + 1;
    if (ends_[first] > 2 * begin_of(first)) return end;
    while (end < ends_.size() && ends_[end] <= 2 * begin_of(first)) ++end;
    return end;
  }

  void release(std::size_t piece) {
    const std::size_t begin = begin_of(piece);
    const std::size_t size = ends_[piece] - begin;
    if (deferred_ == nullptr) {
      release(begin, std::span<const std::int64_t>(*cells_).subspan(begin, size));
    } else {
      ReleaseMemory::Piece memory = memory_->take();
      const std::span<std::int64_t> sum(memory.get(), size);
      if (in_place()) {
        std::copy_n(cells_->data() + begin, size, sum.begin());
      } else {
        std::fill(sum.begin(), sum.end(), 0);
      }
      deferred_->add(piece, sum);
      release(begin, sum);
      memory_->give_back(std::move(memory));
    }
    if (in_place()) forget(begin, begin + size);
  }

  /// Releases elements from `begin` on, one noise chunk at a time.
  void release(std::size_t begin, std::span<const std::int64_t> sum) {
    static const ToFloats to_floats = find_to_floats();
    RoundedGaussianStream stream = RoundedGaussianStream::of_own_keys(own_keys_);
    std::array<std::int64_t, kNormalsPerChunk> noised{};
    std::array<float, kNormalsPerChunk> values;
    while (!sum.empty()) {
      const std::size_t place = first_ + begin;
      const std::size_t size = std::min(kNormalsPerChunk - place % kNormalsPerChunk, sum.size());
      float* const to = values_.get() + begin;
      if (deferred_ == nullptr) fetch(sum.data(), size);  // otherwise it was just written
      fetch(to, size);
      const auto out = std::span(noised).first(size);
      stream.release(place, sigmas_, shift_, sum.first(size), out);
      if (!to_floats(out, width_, in_place() ? values.data() : to)) all_finite_ = false;
      // The memory was allocated as integers; copying the bytes makes floats of it.
      if (in_place()) std::memcpy(to, values.data(), size * sizeof(float));
      begin += size;
      sum = sum.subspan(size);
    }
  }

  /// Overwrites the cells after the last value. If that value ends within a cell, run() overwrites
  /// the rest of it.
  void forget(std::size_t begin, std::size_t end) {
    begin = std::max(begin, (size_ + 1) / 2);
    if (begin < end) std::fill_n(cells_->data() + begin, end - begin, 0);
  }

  std::shared_ptr<std::vector<std::int64_t>> cells_;
  std::unique_ptr<DeferredCells> deferred_;
  std::vector<std::size_t> own_ends_;
  std::span<const std::size_t> ends_;
  std::size_t size_;
  unsigned shift_;
  double width_;
  std::size_t first_;
  std::vector<RandomKey> own_keys_;
  std::vector<double> sigmas_;
  std::shared_ptr<ReleaseMemory> memory_;
  std::shared_ptr<float[]> values_;
  std::atomic<bool> all_finite_ = true;
};

}  // namespace

RoundedRelease release_rounded(std::vector<std::int64_t> cells,
                               std::unique_ptr<DeferredCells> deferred, const RoundedNoise& noise,
                               Executor& executor) {
  return Release(std::move(cells), std::move(deferred), noise).run(executor);
}

}  // namespace privgrad::core
