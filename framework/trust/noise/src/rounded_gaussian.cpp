#include "privgrad/trust/rounded_gaussian.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "native_words.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint64_t kWords = 0;  // the cipher's domain for words
constexpr std::uint64_t kBlocksPerChunk = sizeof(NormalWords) / CounterCipher::kBlockBytes;
constexpr std::size_t kPairs = NormalWords::kPairs;

bool in_range(double size) {  // a NaN is out of range
  return size >= kSmallestRoundedSigma && size <= kLargestRoundedSigma;
}

void require_sigma(double sigma) {
  if (in_range(sigma)) return;
  throw ConfigError("rounded Gaussian noise: sigma is " + std::to_string(sigma) +
                    " cells, allowed is 2^-64 to 2^60");
}

void require_sigmas(std::span<const double> sigmas, std::size_t streams) {
  if (sigmas.size() != streams)
    throw ConfigError("rounded Gaussian noise: " + std::to_string(sigmas.size()) + " sigmas for " +
                      std::to_string(streams) + " streams, allowed is one for each");
  require_sigma(sigmas[0]);
  for (std::size_t j = 1; j < sigmas.size(); ++j) {
    if (sigmas[j] == 0.0 || in_range(std::abs(sigmas[j]))) continue;
    throw ConfigError("rounded Gaussian noise: sigma of term " + std::to_string(j) + " is " +
                      std::to_string(sigmas[j]) +
                      " cells, allowed is 0 or a size of 2^-64 to 2^60");
  }
}

/// Two streams with the same cipher key would have the same noise, although they are charged as
/// two.
void require_keys(std::span<const RandomKey> own_keys) {
  if (own_keys.empty() || own_keys.size() > kMostNoiseTerms)
    throw ConfigError("rounded Gaussian noise of " + std::to_string(own_keys.size()) +
                      " streams, allowed is 1 to " + std::to_string(kMostNoiseTerms));
  const auto of_cipher = [&](std::size_t j) { return own_keys[j].secret_bytes().first<16>(); };
  for (std::size_t j = 1; j < own_keys.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (!std::ranges::equal(of_cipher(i), of_cipher(j))) continue;
      throw ConfigError("rounded Gaussian noise: terms " + std::to_string(i) + " and " +
                        std::to_string(j) + " have one key, allowed is a key for each");
    }
  }
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

/// For each tier, the largest RoundingScale::size at which it is worth starting with that tier. The
/// tiers leave a share of about 2^(size - 21), 2^(size - 29) and 2^(size - 44) undecided.
constexpr int kSizeForFloats = 14;
constexpr int kSizeForDoubles = 25;
constexpr int kSizeForFine = 43;

RoundingTier first_tier(const RoundingScale& scale, const std::optional<RoundingTier>& wanted) {
  // The double tier handles one term. Releases of several terms are in cells (release_shift()) for
  // which the float tier suffices.
  const bool several = scale.terms > 1;
  const int size_for_floats = several ? kLargestSizeOfFloats : kSizeForFloats;
  const int size_for_doubles = several ? size_for_floats : kSizeForDoubles;
  if (!wanted) {
    return scale.size <= size_for_floats    ? RoundingTier::floats
           : scale.size <= size_for_doubles ? RoundingTier::doubles
           : scale.size <= kSizeForFine     ? RoundingTier::fine
                                            : RoundingTier::exact;
  }
  const bool too_large =
      (*wanted == RoundingTier::floats && scale.size > kLargestSizeOfFloats) ||
      (*wanted == RoundingTier::doubles && (several || scale.size > kLargestSizeOfDoubles));
  return too_large ? RoundingTier::fine : *wanted;
}

std::uint64_t remainder_of(std::int64_t sum, unsigned shift) {
  return static_cast<std::uint64_t>(sum) & ((std::uint64_t{1} << shift) - 1);
}

/// An element that the vectorised tiers left undecided, with its sum, whose memory may be
/// overwritten before the element is decided.
struct Open {
  std::size_t element;
  std::int64_t sum;
};

class OpenElements {
 public:
  void collect(const RoundedChunk& rounded, std::span<const std::int64_t, kNormalsPerChunk> sums) {
    constexpr std::size_t kTogether = 16;  // pairs, which usually have no undecided element
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

  std::array<Open, kNormalsPerChunk> open_;  // only the first size_ are used
  std::size_t size_ = 0;
};

}  // namespace

class RoundedGaussianStream::State {
 public:
  State(std::span<const RandomKey> keys, const RoundingWay& way) : way_(way) {
    streams_.reserve(keys.size());
    for (const RandomKey& key : keys) streams_.emplace_back(key);
  }

  using Sums = std::span<const std::int64_t, kNormalsPerChunk>;
  using Out = std::span<std::int64_t, kNormalsPerChunk>;

  std::size_t streams() const { return streams_.size(); }

  /// Returns the scale of these sigmas, one for each stream, and sets terms_.
  RoundingScale scale_of(std::span<const double> sigmas, unsigned shift) {
    std::array<double, kMostNoiseTerms> in_use{};
    terms_.clear();
    for (std::size_t j = 0; j < sigmas.size(); ++j) {
      if (sigmas[j] == 0.0) continue;
      in_use[terms_.size()] = sigmas[j];
      terms_.push_back(&streams_[j]);
    }
    return {std::span(in_use).first(terms_.size()), shift};
  }

  /// Releases the elements [begin, end) of a chunk. Values written for other elements are
  /// meaningless.
  void release(std::uint64_t chunk, std::size_t begin, std::size_t end, const RoundingScale& scale,
               Sums sums, Out out) {
    RoundedChunk rounded;
    const RoundingTier tier = round(chunk, scale, sums, rounded);
    OpenElements open;
    open.collect(rounded, sums);
    way_.variant->add(rounded, scale.shift, sums, out);
    for (const auto& [element, sum] : open.all()) {
      if (element < begin || element >= end) continue;
      const std::int64_t k = round_one(chunk, element, scale, remainder_of(sum, scale.shift), tier);
      out[element] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum >> scale.shift) +
                                               static_cast<std::uint64_t>(k));
    }
    counts_.elements += end - begin;
  }

  const Counts& counts() const { return counts_; }

 private:
  struct Stream {
    explicit Stream(const RandomKey& key) : words(key), extensions(key) {}

    CounterCipher words;
    CounterCipher extensions;  // separate from the other cipher, which is fastest if it resumes at
                               // the place at which it stopped
    NormalWords chunk;         // the most recently read words
  };

  const NormalWords& read(std::uint64_t chunk, Stream& stream) {
    stream.words.read(kWords, chunk * kBlocksPerChunk, bytes_of(stream.chunk));
    to_native(stream.chunk);
    return stream.chunk;
  }

  /// \returns the tier that decides the remaining elements.
  RoundingTier round(std::uint64_t chunk, const RoundingScale& scale, Sums sums,
                     RoundedChunk& rounded) {
    const RoundingTier first = first_tier(scale, way_.first);
    const RoundingVariant& variant = *way_.variant;
    if (first == RoundingTier::floats && terms_.size() > 1) {
      FloatSums added{};
      for (std::size_t j = 0; j < terms_.size(); ++j)
        variant.add_term(read(chunk, *terms_[j]), scale, j, added);
      variant.round_terms(added, scale, sums, rounded);
      return RoundingTier::fine;
    }
    for (Stream* const stream : terms_) read(chunk, *stream);
    const NormalWords& words = terms_[0]->chunk;
    if (first == RoundingTier::floats) {
      variant.floats(words, scale, sums, rounded);
    } else if (first == RoundingTier::doubles) {
      variant.doubles(words, scale, sums, rounded);
    } else {
      rounded.k.fill(0);
      rounded.undecided.fill(3);
      return first;
    }
    return RoundingTier::fine;
  }

  std::int64_t round_one(std::uint64_t chunk, std::size_t element, const RoundingScale& scale,
                         std::uint64_t remainder, RoundingTier tier) {
    const std::size_t i = element % kPairs;
    std::array<RoundingAddress, kMostNoiseTerms> addresses;
    std::array<CounterCipher*, kMostNoiseTerms> extensions;
    for (std::size_t j = 0; j < terms_.size(); ++j) {
      Stream& stream = *terms_[j];
      addresses[j] = {chunk * kPairs + i, stream.chunk.radius[i], stream.chunk.angle[i],
                      element >= kPairs};
      extensions[j] = &stream.extensions;
    }
    const auto terms = std::span<const RoundingAddress>(addresses).first(terms_.size());
    if (tier == RoundingTier::fine) {
      ++counts_.fine;
      std::array<RoundingBits, kMostNoiseTerms> bits;
      for (std::size_t j = 0; j < terms.size(); ++j)
        bits[j] = read_extension(terms[j].pair, 0, *extensions[j]);
      if (const auto k = way_.variant->fine(terms, scale, remainder, bits)) return *k;
    }
    ++counts_.exact;
    return round_exactly(terms, scale, remainder, extensions);
  }

  std::vector<Stream> streams_;
  std::vector<Stream*> terms_;  // the streams whose sigma is not 0
  RoundingWay way_;
  Counts counts_;
};

RoundedGaussianStream::RoundedGaussianStream(const RandomKey& key, std::uint64_t stream)
    : RoundedGaussianStream(key, stream, RoundingWay{}) {}

RoundedGaussianStream::RoundedGaussianStream(const RandomKey& key, std::uint64_t stream,
                                             const RoundingWay& way)
    : RoundedGaussianStream(of_own_keys(std::array{own_key(key, stream)}, way)) {}

RoundedGaussianStream::RoundedGaussianStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

RoundedGaussianStream RoundedGaussianStream::of_own_key(const RandomKey& own_key) {
  return of_own_keys({&own_key, 1});
}

RoundedGaussianStream RoundedGaussianStream::of_own_keys(std::span<const RandomKey> own_keys) {
  return of_own_keys(own_keys, RoundingWay{});
}

RoundedGaussianStream RoundedGaussianStream::of_own_keys(std::span<const RandomKey> own_keys,
                                                         const RoundingWay& way) {
  require_keys(own_keys);
  return RoundedGaussianStream(std::make_unique<State>(own_keys, way));
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
  release(first, {&sigma, 1}, shift, sums, out);
}

void RoundedGaussianStream::release(std::uint64_t first, std::span<const double> sigmas,
                                    unsigned shift, std::span<const std::int64_t> sums,
                                    std::span<std::int64_t> out) {
  require_sigmas(sigmas, state_->streams());
  require_shift(shift);
  require_sizes(sums.size(), out.size());
  const RoundingScale scale = state_->scale_of(sigmas, shift);
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
