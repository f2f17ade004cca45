#include "privgrad/trust/rounded_gaussian.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "native_words.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint64_t kWords = 0;  // domain of the cipher
constexpr std::uint64_t kBlocksPerChunk = sizeof(NormalWords) / CounterCipher::kBlockBytes;
constexpr std::size_t kPairs = NormalWords::kPairs;

void require_sigma(double sigma) {
  if (sigma >= kSmallestRoundedSigma && sigma <= kLargestRoundedSigma) return;  // false for NaN
  throw ConfigError("rounded Gaussian noise: sigma is " + std::to_string(sigma) +
                    " cells, allowed is 2^-64 to 2^60");
}

void require_shift(unsigned shift) {
  if (shift <= kLargestReleaseShift) return;
  throw ConfigError("rounded Gaussian noise: the shift is " + std::to_string(shift) +
                    ", allowed is 0 to 62");
}

void require_sizes(std::size_t sums, std::size_t out) {
  if (sums == out) return;
  throw ConfigError("rounded Gaussian noise: " + std::to_string(sums) + " sums and room for " +
                    std::to_string(out) + ", allowed is as many");
}

/// The largest sizes of a scale for which a tier decides so much that it is the best to begin with:
/// it leaves about 2^(size - 21), 2^(size - 29) and 2^(size - 44).
constexpr int kSizeForFloats = 14;
constexpr int kSizeForDoubles = 25;
constexpr int kSizeForFine = 43;

RoundingTier first_tier(const RoundingScale& scale, const std::optional<RoundingTier>& wanted) {
  if (!wanted) {
    return scale.size <= kSizeForFloats    ? RoundingTier::floats
           : scale.size <= kSizeForDoubles ? RoundingTier::doubles
           : scale.size <= kSizeForFine    ? RoundingTier::fine
                                           : RoundingTier::exact;
  }
  const bool too_large = (*wanted == RoundingTier::floats && scale.size > kLargestSizeOfFloats) ||
                         (*wanted == RoundingTier::doubles && scale.size > kLargestSizeOfDoubles);
  return too_large ? RoundingTier::fine : *wanted;
}

std::uint64_t remainder_of(std::int64_t sum, unsigned shift) {
  return static_cast<std::uint64_t>(sum) & ((std::uint64_t{1} << shift) - 1);
}

/// An element that the vectorised tiers left, and its sum, which may be overwritten before it is
/// decided.
struct Open {
  std::size_t element;
  std::int64_t sum;
};

/// The elements of a chunk that are not decided yet: some, or all.
class OpenElements {
 public:
  void collect(const RoundedChunk& rounded, std::span<const std::int64_t, kNormalsPerChunk> sums) {
    constexpr std::size_t kTogether = 16;  // nearly always none of them
    for (std::size_t begin = 0; begin < kPairs; begin += kTogether) {
      std::uint32_t some = 0;
      for (std::size_t i = begin; i < begin + kTogether; ++i) some |= rounded.undecided[i];
      if (some == 0) continue;
      for (std::size_t i = begin; i < begin + kTogether; ++i) {
        if ((rounded.undecided[i] & 1) != 0) add(i, sums);
        if ((rounded.undecided[i] & 2) != 0) add(kPairs + i, sums);
      }
    }
  }

  std::span<const Open> all() const { return {open_.data(), size_}; }

 private:
  void add(std::size_t element, std::span<const std::int64_t, kNormalsPerChunk> sums) {
    open_[size_++] = {element, sums[element]};
  }

  std::array<Open, kNormalsPerChunk> open_;  // the first size_ of them
  std::size_t size_ = 0;
};

}  // namespace

class RoundedGaussianStream::State {
 public:
  State(const RandomKey& key, const RoundingWay& way) : words_(key), extensions_(key), way_(way) {}

  using Sums = std::span<const std::int64_t, kNormalsPerChunk>;
  using Out = std::span<std::int64_t, kNormalsPerChunk>;

  /// The elements [begin, end) of a chunk; what it writes for others is of no use.
  void release(std::uint64_t chunk, std::size_t begin, std::size_t end, const RoundingScale& scale,
               Sums sums, Out out) {
    NormalWords words;
    words_.read(kWords, chunk * kBlocksPerChunk, bytes_of(words));
    to_native(words);
    RoundedChunk rounded;
    const RoundingTier tier = round(words, scale, sums, rounded);
    OpenElements open;
    open.collect(rounded, sums);
    way_.variant->add(rounded, scale.shift, sums, out);
    for (const auto& [element, sum] : open.all()) {
      if (element < begin || element >= end) continue;
      const std::size_t i = element % kPairs;
      const RoundingAddress address{chunk * kPairs + i, words.radius[i], words.angle[i],
                                    element >= kPairs};
      const std::int64_t k = round_one(address, scale, remainder_of(sum, scale.shift), tier);
      out[element] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum >> scale.shift) +
                                               static_cast<std::uint64_t>(k));
    }
    counts_.elements += end - begin;
  }

  const Counts& counts() const { return counts_; }

 private:
  /// \returns the tier that what is left goes to.
  RoundingTier round(const NormalWords& words, const RoundingScale& scale, Sums sums,
                     RoundedChunk& rounded) const {
    const RoundingTier first = first_tier(scale, way_.first);
    if (first == RoundingTier::floats) {
      way_.variant->floats(words, scale, sums, rounded);
    } else if (first == RoundingTier::doubles) {
      way_.variant->doubles(words, scale, sums, rounded);
    } else {
      rounded.k.fill(0);
      rounded.undecided.fill(3);
      return first;
    }
    return RoundingTier::fine;
  }

  std::int64_t round_one(const RoundingAddress& address, const RoundingScale& scale,
                         std::uint64_t remainder, RoundingTier tier) {
    if (tier == RoundingTier::fine) {
      ++counts_.fine;
      const RoundingBits bits = read_extension(address.pair, 0, extensions_);
      if (const auto k = way_.variant->fine(address, scale, remainder, bits)) return *k;
    }
    ++counts_.exact;
    return round_exactly(address, scale, remainder, extensions_);
  }

  CounterCipher words_;
  CounterCipher extensions_;  // apart from the other, which reads on fastest where it stopped
  RoundingWay way_;
  Counts counts_;
};

RoundedGaussianStream::RoundedGaussianStream(const RandomKey& key, std::uint64_t stream)
    : RoundedGaussianStream(key, stream, RoundingWay{}) {}

RoundedGaussianStream::RoundedGaussianStream(const RandomKey& key, std::uint64_t stream,
                                             const RoundingWay& way)
    : state_(std::make_unique<State>(own_key(key, stream), way)) {}

RoundedGaussianStream::RoundedGaussianStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

RoundedGaussianStream RoundedGaussianStream::of_own_key(const RandomKey& own_key) {
  return RoundedGaussianStream(std::make_unique<State>(own_key, RoundingWay{}));
}

RandomKey RoundedGaussianStream::own_key(const RandomKey& key, std::uint64_t stream) {
  return key.derive("rounded normals " + std::to_string(stream));
}

RoundedGaussianStream::RoundedGaussianStream(RoundedGaussianStream&&) noexcept = default;
RoundedGaussianStream& RoundedGaussianStream::operator=(RoundedGaussianStream&&) noexcept = default;
RoundedGaussianStream::~RoundedGaussianStream() = default;

const RoundedGaussianStream::Counts& RoundedGaussianStream::counts() const {
  return state_->counts();
}

void RoundedGaussianStream::release(std::uint64_t first, double sigma, unsigned shift,
                                    std::span<const std::int64_t> sums,
                                    std::span<std::int64_t> out) {
  require_sigma(sigma);
  require_shift(shift);
  require_sizes(sums.size(), out.size());
  const RoundingScale scale(sigma, shift);
  while (!sums.empty()) {
    const std::uint64_t chunk = first / kNormalsPerChunk;
    const std::size_t begin = first % kNormalsPerChunk;
    const std::size_t size = std::min(sums.size(), kNormalsPerChunk - begin);
    if (size == kNormalsPerChunk) {
      state_->release(chunk, 0, size, scale, sums.first<kNormalsPerChunk>(),
                      out.first<kNormalsPerChunk>());
    } else {
      std::array<std::int64_t, kNormalsPerChunk> whole{};
      const auto part = std::span(whole).subspan(begin, size);
      std::copy_n(sums.begin(), size, part.begin());
      state_->release(chunk, begin, begin + size, scale, whole, whole);
      std::copy(part.begin(), part.end(), out.begin());
    }
    first += size;
    sums = sums.subspan(size);
    out = out.subspan(size);
  }
}

unsigned release_shift(double sigma) {
  constexpr int kWhole = 11;
  constexpr int kCoarse = 10;
  require_sigma(sigma);
  const int size = std::ilogb(sigma) + 1;  // sigma < 2^size
  return size <= kWhole ? 0u : static_cast<unsigned>(size - kCoarse);
}

}  // namespace privgrad::core
