#include "exact_part.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/box_muller.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr std::size_t kChunk = kNormalsPerChunk;
/// Elements of a part of work: a whole number of chunks of noise.
constexpr std::size_t kPart = 32 * kChunk;

bool is_whole(const CorrelatedRecipes& recipes) {
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    if (recipes.keep(step) != 0.0 && recipes.keep(step) != 1.0) return false;
    for (const EarlierNoise& earlier : recipes.earlier(step)) {
      if (earlier.share != std::rint(earlier.share) || std::fabs(earlier.share) > 0x1p30)
        return false;
    }
  }
  return true;
}

/// The smallest and the largest noise of a step's own nodes.
std::pair<double, double> noise_range(const CorrelatedRecipes& recipes) {
  double least = recipes.own_multiplier(0), most = least;
  for (std::uint64_t step = 1; step < recipes.steps(); ++step) {
    least = std::min(least, recipes.own_multiplier(step));
    most = std::max(most, recipes.own_multiplier(step));
  }
  return {least, most};
}

/// F: as many fractional bits as leave the largest noise below 2^59 units.
int fraction_bits(const CorrelatedRecipes& recipes) {
  constexpr int kMost = 32;
  const double cells = noise_range(recipes).second * static_cast<double>(kExactLevels);
  return std::clamp(58 - std::ilogb(cells), 0, kMost);
}

/// What the releases of earlier steps left for later ones.
template <class Memory>
class Kept {
 public:
  struct Step {
    std::uint64_t step = 0;
    double carried = 1.0;  // K(step, now)
    Memory memory;
  };

  void carry(double keep) {
    for (Step& one : steps_) one.carried *= keep;
  }

  const Step& at(std::uint64_t step) const {
    const auto found = std::find_if(steps_.begin(), steps_.end(),
                                    [=](const Step& one) { return one.step == step; });
    if (found != steps_.end()) return *found;
    throw PrivacyError("a step continues the noise of step " + std::to_string(step) +
                       ", which was released without");
  }

  /// Memory of a step that none continues any more, or a new one.
  Memory take(std::size_t size) {
    if (spare_.empty()) return Memory(size);
    Memory memory = std::move(spare_.back());
    spare_.pop_back();
    return memory;
  }

  void add(std::uint64_t step, Memory memory) {
    steps_.push_back({.step = step, .carried = 1.0, .memory = std::move(memory)});
  }

  void forget_after(std::uint64_t step, const CorrelatedRecipes& recipes) {
    for (std::size_t i = steps_.size(); i-- > 0;) {
      if (recipes.last_use(steps_[i].step) > step) continue;
      spare_.push_back(std::move(steps_[i].memory));
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Step& one : steps_) sum += one.memory.bytes();
    for (const Memory& one : spare_) sum += one.bytes();
    return sum;
  }

 private:
  std::vector<Step> steps_;
  std::vector<Memory> spare_;
};

/// The node whose stream a step's one draw comes from: it is the step's alone.
std::uint64_t node_of(const CorrelatedRecipes& recipes, std::uint64_t step) {
  return recipes.noise(step).front().node;
}

void for_each_part(std::size_t size, Executor& executor,
                   const std::function<void(std::size_t, std::size_t)>& body) {
  executor.for_each_chunk((size + kPart - 1) / kPart, [&](std::size_t part) {
    body(part * kPart, std::min(size, (part + 1) * kPart));
  });
}

/// Has memory come nearer while noise is made.
template <class T>
void fetch(const T* values, std::size_t size) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  for (std::size_t i = 0; i < size; i += kLine) __builtin_prefetch(values + i, 1);
}

// --- whole recipes

class WholePart final : public ExactPart {
 public:
  WholePart(const CorrelatedRecipes& recipes, std::size_t size, RandomKey key, double noise_factor)
      : recipes_(recipes),
        key_(key),
        unit_(static_cast<double>(kExactLevels) * noise_factor),
        shift_(release_shift(noise_range(recipes).first * unit_)),
        sum_(size, 0) {}

  void release(std::uint64_t step, std::span<const std::int64_t> cells, double width,
               std::span<float> released, Executor& executor) override {
    kept_.carry(recipes_.keep(step));
    std::vector<Term> terms;
    for (const auto& [from, share] : recipes_.earlier(step)) {
      const auto& kept = kept_.at(from);
      const double factor = share * kept.carried;
      if (factor != 0.0)
        terms.push_back(
            {kept.memory.z.data(), static_cast<std::uint64_t>(static_cast<std::int64_t>(factor))});
    }
    const bool is_kept = recipes_.last_use(step) > step;
    Noise memory = is_kept ? kept_.take(sum_.size()) : Noise(0);
    const double factor = recipes_.scale(step) * std::ldexp(width, static_cast<int>(shift_));
    for_each_part(sum_.size(), executor, [&](std::size_t begin, std::size_t end) {
      RoundedGaussianStream noise(key_, node_of(recipes_, step));
      for (; begin < end; begin += kChunk) {
        const std::size_t size = std::min(kChunk, end - begin);
        release_chunk({step, begin, size, factor}, cells, terms, noise,
                      is_kept ? memory.z.data() + begin : nullptr, released.data() + begin);
      }
    });
    if (is_kept) kept_.add(step, std::move(memory));
    kept_.forget_after(step, recipes_);
  }

  std::size_t memory_bytes() const override {
    return sum_.capacity() * sizeof(std::uint64_t) + kept_.bytes();
  }

 private:
  /// z = R 2^h - s, of a step.
  struct Noise {
    explicit Noise(std::size_t size) : z(size) {}
    std::size_t bytes() const { return z.capacity() * sizeof(std::uint64_t); }
    std::vector<std::uint64_t> z;
  };
  struct Term {
    const std::uint64_t* z;
    std::uint64_t factor;  // modulo 2^64
  };
  struct Piece {
    std::uint64_t step;
    std::size_t begin, size;
    double factor;
  };

  /// s = keep s + x.
  void add(std::uint64_t step, std::span<const std::int64_t> cells, std::size_t begin,
           std::size_t end) {
    const std::uint64_t kept = recipes_.keep(step) == 0.0 ? 0 : ~std::uint64_t{0};
    std::uint64_t* sum = sum_.data();
    const std::int64_t* x = cells.data();
    in_wide_registers([=] {
      for (std::size_t i = begin; i < end; ++i)
        sum[i] = (sum[i] & kept) + static_cast<std::uint64_t>(x[i]);
    });
  }

  void release_chunk(const Piece& piece, std::span<const std::int64_t> cells,
                     std::span<const Term> terms, RoundedGaussianStream& noise, std::uint64_t* z,
                     float* released) {
    const std::size_t size = piece.size;
    for (const Term& term : terms) fetch(term.z + piece.begin, size);
    if (z != nullptr) fetch(z, size);
    add(piece.step, cells, piece.begin, piece.begin + size);
    std::array<std::int64_t, kChunk> memory;
    std::int64_t* out = memory.data();
    const std::uint64_t* sum = sum_.data() + piece.begin;
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::int64_t>(sum[i]);
    });
    for (const Term& term : terms) {
      const std::uint64_t* from = term.z + piece.begin;
      const std::uint64_t factor = term.factor;
      in_wide_registers([=] {
        for (std::size_t i = 0; i < size; ++i) {
          out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(out[i]) + factor * from[i]);
        }
      });
    }
    const double sigma = recipes_.own_multiplier(piece.step) * unit_;
    noise.release(piece.begin, sigma, shift_, std::span(memory).first(size),
                  std::span(memory).first(size));
    const unsigned shift = shift_;
    const double factor = piece.factor;
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i)
        released[i] = static_cast<float>(factor * static_cast<double>(out[i]));
      if (z == nullptr) return;
      for (std::size_t i = 0; i < size; ++i)
        z[i] = (static_cast<std::uint64_t>(out[i]) << shift) - sum[i];
    });
  }

  const CorrelatedRecipes& recipes_;
  RandomKey key_;
  double unit_;  // cells of noise of multiplier 1
  unsigned shift_;
  std::vector<std::uint64_t> sum_;  // s, modulo 2^64
  Kept<Noise> kept_;
};

// --- other recipes

/// A constant in fixed point, of 60 fractional bits.
std::int64_t fixed(double constant) {
  if (!(std::fabs(constant) < 4.0)) {
    throw ConfigError(
        "a recipe multiplies earlier data by 4 or more, which exact arithmetic has no "
        "place for; use aggregator.arithmetic: float");
  }
  return std::llrint(std::ldexp(constant, 60));
}

/// constant * value / 2^60, rounded down, modulo 2^128.
Wide times(std::int64_t constant, Wide value) {
  const auto high = static_cast<std::int64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  const Wide upper = static_cast<Wide>(high) * constant;
  const Wide lower = static_cast<Wide>(static_cast<UnsignedWide>(low)) * constant;
  return static_cast<Wide>((static_cast<UnsignedWide>(upper) << 4) +
                           static_cast<UnsignedWide>(lower >> 60));
}

Wide sum_of(Wide a, Wide b) {
  return static_cast<Wide>(static_cast<UnsignedWide>(a) + static_cast<UnsignedWide>(b));
}

class FractionPart final : public ExactPart {
 public:
  FractionPart(const CorrelatedRecipes& recipes, std::size_t size, RandomKey key,
               double noise_factor)
      : recipes_(recipes),
        key_(key),
        bits_(fraction_bits(recipes)),
        unit_(std::ldexp(static_cast<double>(kExactLevels) * noise_factor, bits_)),
        shift_(release_shift(noise_range(recipes).first * unit_)),
        sum_(size, 0) {}

  void release(std::uint64_t step, std::span<const std::int64_t> cells, double width,
               std::span<float> released, Executor& executor) override {
    const std::vector<Term> terms = terms_of(step);
    const bool is_kept = recipes_.last_use(step) > step;
    Release memory = is_kept ? kept_.take(sum_.size()) : Release(0);
    const double sigma = recipes_.own_multiplier(step) * unit_;
    const double factor =
        recipes_.scale(step) * std::ldexp(width, static_cast<int>(shift_) - bits_);
    const double high = std::ldexp(1.0, 64 - static_cast<int>(shift_));
    for_each_part(sum_.size(), executor, [&](std::size_t begin, std::size_t end) {
      RoundedGaussianStream noise(key_, node_of(recipes_, step));
      std::array<Wide, kChunk> data;
      std::array<std::int64_t, kChunk> low;
      for (; begin < end; begin += kChunk) {
        const std::size_t size = std::min(kChunk, end - begin);
        new_data(step, cells, terms, begin, std::span(data).first(size));
        for (std::size_t i = 0; i < size; ++i) low[i] = static_cast<std::int64_t>(data[i]);
        // D = high 2^64 + low: round((D + Z) / 2^h) = high 2^(64 - h) + round((low + Z) / 2^h).
        for (std::size_t i = 0; i < size; ++i) data[i] = (data[i] - low[i]) >> 64;
        noise.release(begin, sigma, shift_, std::span(low).first(size), std::span(low).first(size));
        for (std::size_t i = 0; i < size; ++i) {
          double sum = static_cast<double>(low[i]) +
                       high * static_cast<double>(static_cast<std::int64_t>(data[i]));
          for (const Term& term : terms) sum += term.factor * term.memory->released[begin + i];
          released[begin + i] = static_cast<float>(factor * sum);
          if (!is_kept) continue;
          memory.released[begin + i] = sum;
          memory.sum[begin + i] = sum_[begin + i];
        }
      }
    });
    if (is_kept) kept_.add(step, std::move(memory));
    kept_.forget_after(step, recipes_);
  }

  std::size_t memory_bytes() const override {
    return sum_.capacity() * sizeof(Wide) + kept_.bytes();
  }

 private:
  /// s and R of a step; R, in cells of 2^h, is public.
  struct Release {
    explicit Release(std::size_t size) : sum(size), released(size) {}
    std::size_t bytes() const {
      return sum.capacity() * sizeof(Wide) + released.capacity() * sizeof(double);
    }
    std::vector<Wide> sum;
    std::vector<double> released;
  };
  struct Term {
    const Release* memory;
    double factor;
    std::int64_t constant;  // factor, fixed()
  };

  std::vector<Term> terms_of(std::uint64_t step) {
    kept_.carry(recipes_.keep(step));
    std::vector<Term> terms;
    for (const auto& [from, share] : recipes_.earlier(step)) {
      const auto& kept = kept_.at(from);
      const double factor = share * kept.carried;
      terms.push_back({&kept.memory, factor, fixed(factor)});
    }
    return terms;
  }

  /// s = keep s + x.
  void add(std::uint64_t step, std::int64_t cell, Wide& sum) const {
    const double keep = recipes_.keep(step);
    const Wide kept = keep == 1.0 ? sum : keep == 0.0 ? Wide{0} : times(fixed(keep), sum);
    sum = sum_of(kept, static_cast<Wide>(cell) * (Wide{1} << bits_));
  }

  /// D, of elements from `begin` on.
  void new_data(std::uint64_t step, std::span<const std::int64_t> cells,
                std::span<const Term> terms, std::size_t begin, std::span<Wide> data) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      Wide& sum = sum_[begin + i];
      add(step, cells[begin + i], sum);
      data[i] = sum;
      for (const Term& term : terms)
        data[i] = sum_of(data[i], -times(term.constant, term.memory->sum[begin + i]));
    }
  }

  const CorrelatedRecipes& recipes_;
  RandomKey key_;
  int bits_;     // F
  double unit_;  // units of noise of multiplier 1
  unsigned shift_;
  std::vector<Wide> sum_;  // s
  Kept<Release> kept_;
};

}  // namespace

ExactPart::~ExactPart() = default;

std::unique_ptr<ExactPart> ExactPart::make(const CorrelatedRecipes& recipes, std::size_t size,
                                           RandomKey key, double noise_factor) {
  if (is_whole(recipes)) return std::make_unique<WholePart>(recipes, size, key, noise_factor);
  return std::make_unique<FractionPart>(recipes, size, key, noise_factor);
}

double ExactPart::relative_error(const CorrelatedRecipes& recipes, std::size_t size) {
  if (is_whole(recipes)) return 0.0;
  const auto steps = static_cast<double>(recipes.steps());
  double keep = 0.0, most_terms = 0.0, most_shares = 0.0;
  bool multiplies = false;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    const double kept = std::fabs(recipes.keep(step));
    keep = std::max(keep, kept);
    multiplies = multiplies || (kept != 0.0 && recipes.keep(step) != 1.0);
    double shares = 0.0;
    for (const EarlierNoise& earlier : recipes.earlier(step)) shares += std::fabs(earlier.share);
    most_shares = std::max(most_shares, shares);
    most_terms = std::max(most_terms, static_cast<double>(recipes.earlier(step).size()));
  }
  // A keep above 1 lets everything grow, roundings as well: nothing is proved of it.
  if (keep > 1.0) return std::numeric_limits<double>::infinity();
  const double memory = keep < 1.0 ? std::min(steps, 1.0 / (1.0 - keep)) : steps;  // A
  const double coordinates = std::sqrt(static_cast<double>(size));
  const double of_sum = multiplies ? memory * (1.0 + most_shares) : 0.0;
  const double error = (of_sum + most_terms) * (coordinates + memory);  // E
  const double sigma = std::ldexp(noise_range(recipes).first * static_cast<double>(kExactLevels),
                                  fraction_bits(recipes));
  return std::sqrt(steps) * error / sigma;
}

}  // namespace privgrad::core
