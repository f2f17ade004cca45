#include "exact_part.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "parts.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/fixed_point.hpp"
#include "privgrad/trust/noise_words.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/wide_registers.hpp"
#include "whole_numbers.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kChunk = kNormalsPerChunk;
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

/// Returns the smallest and the largest noise of a step's own nodes.
std::pair<double, double> noise_range(const CorrelatedRecipes& recipes) {
  double least = recipes.own_multiplier(0), most = least;
  for (std::uint64_t step = 1; step < recipes.steps(); ++step) {
    least = std::min(least, recipes.own_multiplier(step));
    most = std::max(most, recipes.own_multiplier(step));
  }
  return {least, most};
}

/// Returns the largest sum of |shares| of a step, and the largest number of shares of a step.
std::pair<double, double> most_shares(const CorrelatedRecipes& recipes) {
  double shares = 0.0, terms = 0.0;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    double sum = 0.0;
    for (const EarlierNoise& earlier : recipes.earlier(step)) sum += std::fabs(earlier.share);
    shares = std::max(shares, sum);
    terms = std::max(terms, static_cast<double>(recipes.earlier(step).size()));
  }
  return {shares, terms};
}

/// Whether running sums are multiplied by anything other than 0 and 1.
bool multiplies(const CorrelatedRecipes& recipes) {
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    if (recipes.keep(step) != 0.0 && recipes.keep(step) != 1.0) return true;
  }
  return false;
}

/// E of exact_part.hpp without its last term, in units of 2^-F cells.
double roundings(const CorrelatedRecipes& recipes, std::size_t size) {
  const auto [shares, terms] = most_shares(recipes);
  const double memory = recipes.remembered_steps();  // A
  const double of_sum = multiplies(recipes) ? memory * (1.0 + shares) : 0.0;
  return (of_sum + terms) * (std::sqrt(static_cast<double>(size)) + memory);
}

/// Returns a bound on the effect of rounding to F fractional bits on all releases, in units of the
/// noise.
double error_with(int bits, const CorrelatedRecipes& recipes, std::size_t size) {
  // There is no bound for constants that fixed() cannot hold, or for sums that grow by themselves.
  if (most_shares(recipes).first >= 4.0 || !std::isfinite(recipes.remembered_steps()))
    return std::numeric_limits<double>::infinity();
  const double memory = recipes.remembered_steps();
  const double of_constants =
      multiplies(recipes) ? 64.0 * memory * memory * most_shares(recipes).first : 0.0;
  const double sigma =
      std::ldexp(noise_range(recipes).first * static_cast<double>(kExactLevels), bits);
  const double error = roundings(recipes, size) + std::ldexp(of_constants, bits - 32);
  return std::sqrt(static_cast<double>(recipes.steps())) * error / sigma;
}

/// The number of fractional bits of running sums, and whether the sums have 128 bits in total.
struct FixedPoint {
  bool is_wide;
  int bits;
};

/// Running sums have 64 bits if the largest possible sums leave enough bits for a cell's fraction;
/// otherwise 128 bits, up to 32 of them for the fraction. In both, noise is below 2^59 units.
FixedPoint fixed_point(const CorrelatedRecipes& recipes, const ExactPart::Size& size) {
  const auto [least, most] = noise_range(recipes);
  constexpr auto kCells = static_cast<double>(kExactLevels);
  const int of_noise = std::clamp(58 - std::ilogb(most * kCells), 0, 32);
  constexpr double kMostBound = 2.0;  // the bound on a difference of two gradients
  const double largest = recipes.remembered_steps() * (1.0 + most_shares(recipes).first) *
                         kMostBound * kCells * static_cast<double>(size.most_rows);
  const int of_sums = std::isfinite(largest) ? 61 - std::ilogb(largest) : -1;
  const int bits = std::min(of_noise, of_sums);
  constexpr double kFine = 2e-7;
  if (bits >= 0 && error_with(bits, recipes, size.coordinates) * most <= kFine)
    return {false, bits};
  return {true, of_noise};
}

/// The values that earlier releases have stored for later ones.
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

  /// Reuses the memory of a step that no later step continues, or allocates memory.
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

  void save(StateWriter& out) const {
    out.word(steps_.size());
    for (const Step& one : steps_) {
      out.word(one.step);
      out.real(one.carried);
      one.memory.save(out);
    }
  }

  void restore(StateReader& in, std::size_t size) {
    steps_.clear();
    for (std::uint64_t left = in.word(); left > 0; --left) {
      const std::uint64_t step = in.word();
      const double carried = in.real();
      Memory memory(0);
      memory.restore(in, size);
      steps_.push_back({.step = step, .carried = carried, .memory = std::move(memory)});
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

/// Returns the node whose stream provides a step's draw: it belongs only to this step.
std::uint64_t node_of(const CorrelatedRecipes& recipes, std::uint64_t step) {
  return recipes.noise(step).front().node;
}

// --- whole recipes

class WholePart final : public ExactPart {
 public:
  WholePart(const CorrelatedRecipes& recipes, const Slice& slice, RandomKey key,
            double noise_factor)
      : recipes_(recipes),
        first_(slice.first),
        key_(key),
        unit_(static_cast<double>(kExactLevels) * noise_factor),
        shift_(release_shift(noise_range(recipes).first * unit_)),
        sum_(slice.size, 0) {}

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
      for (std::size_t size = 0; begin < end; begin += size) {
        size = std::min(kChunk - (first_ + begin) % kChunk, end - begin);
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

  void use_key(const RandomKey& key) override { key_ = key; }

  void save(StateWriter& out) const override {
    out.begin("exact part");
    out.sliced(sum_);
    kept_.save(out);
  }

  void restore(StateReader& in) override {
    in.begin("exact part");
    sum_ = in.sliced<std::uint64_t>(sum_.size());
    kept_.restore(in, sum_.size());
  }

 private:
  /// The values z = R 2^h - s of one step.
  struct Noise {
    explicit Noise(std::size_t size) : z(size) {}
    std::size_t bytes() const { return z.capacity() * sizeof(std::uint64_t); }
    void save(StateWriter& out) const { out.sliced(z); }
    void restore(StateReader& in, std::size_t size) { z = in.sliced<std::uint64_t>(size); }
    std::vector<std::uint64_t> z;
  };
  struct Term {
    const std::uint64_t* z;
    std::uint64_t factor;  // the term's factor, modulo 2^64
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
    noise.release(first_ + piece.begin, sigma, shift_, std::span(memory).first(size),
                  std::span(memory).first(size));
    const unsigned shift = shift_;
    const double factor = piece.factor;
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) out[i] = wrapped(out[i], shift);
    });
    std::array<double, kChunk> real;
    double* doubles = real.data();
    to_doubles(out, size, doubles);
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) released[i] = static_cast<float>(factor * doubles[i]);
      if (z == nullptr) return;
      for (std::size_t i = 0; i < size; ++i)
        z[i] = (static_cast<std::uint64_t>(out[i]) << shift) - sum[i];
    });
  }

  const CorrelatedRecipes& recipes_;
  std::size_t first_;  // coordinate
  RandomKey key_;
  double unit_;  // one unit of noise multiplier, in cells
  unsigned shift_;
  std::vector<std::uint64_t> sum_;  // s, modulo 2^64
  Kept<Noise> kept_;
};

// --- other recipes

/// Returns a + b modulo 2^64 or 2^128.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

Int128 sum_of(Int128 a, Int128 b) {
  return static_cast<Int128>(static_cast<UnsignedInt128>(a) + static_cast<UnsignedInt128>(b));
}

/// cell * 2^bits; bits are below 64.
template <class Int>
Int shifted(std::int64_t cell, int bits) {
  if constexpr (sizeof(Int) == sizeof(cell)) return cell << bits;
  // Computed in 64-bit words: a variable shift of 128 bits would take longer than the rest of the
  // loop.
  const auto high = static_cast<std::uint64_t>(cell >> (63 - bits) >> 1);
  const auto low = static_cast<std::uint64_t>(cell) << bits;
  return static_cast<Int>((static_cast<UnsignedInt128>(high) << 64) | low);
}

/// sums = times_keep(sums) + cells 2^bits; `data` gets the same values. (The loop, like subtract(),
/// is a separate function so that its variables stay in registers.)
template <class Int, class TimesKeep>
[[gnu::noinline]] void add_to_kept(const TimesKeep& times_keep, const std::int64_t* cells, int bits,
                                   std::span<Int> sums, Int* data) {
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = data[i] = sum_of(times_keep(sums[i]), shifted<Int>(cells[i], bits));
}

/// data = data - product(from), which subtract_from(data, from) computes.
template <class Int, class SubtractFrom>
[[gnu::noinline]] void subtract(const SubtractFrom& subtract_from, const Int* from,
                                std::span<Int> data) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = subtract_from(data[i], from[i]);
}

/// Returns the part above the lowest 64 bits, in units of 2^64.
double upper_part(std::int64_t) { return 0.0; }

double upper_part(Int128 value) {
  return static_cast<double>(
      static_cast<std::int64_t>((value - static_cast<std::int64_t>(value)) >> 64));
}

/// \tparam Int  std::int64_t or Int128.
template <class Int>
class FractionPart final : public ExactPart {
 public:
  FractionPart(const CorrelatedRecipes& recipes, const Slice& slice, int bits, RandomKey key,
               double noise_factor)
      : recipes_(recipes),
        first_(slice.first),
        key_(key),
        bits_(bits),
        unit_(std::ldexp(static_cast<double>(kExactLevels) * noise_factor, bits_)),
        shift_(release_shift(noise_range(recipes).first * unit_)),
        sum_(slice.size, 0) {}

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
      std::array<Int, kChunk> data;
      std::array<std::int64_t, kChunk> low;
      std::array<double, kChunk> upper, real;
      for (std::size_t size = 0; begin < end; begin += size) {
        size = std::min(kChunk - (first_ + begin) % kChunk, end - begin);
        new_data(step, cells, terms, begin, std::span(data).first(size));
        for (std::size_t i = 0; i < size; ++i) low[i] = static_cast<std::int64_t>(data[i]);
        // D = upper 2^64 + low: round((D + Z) / 2^h) = upper 2^(64 - h) + round((low + Z) / 2^h).
        for (std::size_t i = 0; i < size; ++i) upper[i] = upper_part(data[i]);
        noise.release(first_ + begin, sigma, shift_, std::span(low).first(size),
                      std::span(low).first(size));
        to_doubles(low.data(), size, real.data());
        add_terms(terms, begin, high, real, std::span(upper).first(size));
        to_floats(std::span(upper).first(size), factor, released.data() + begin);
        if (!is_kept) continue;
        to_floats(std::span(upper).first(size), 1.0, memory.released.data() + begin);
        std::copy_n(sum_.begin() + static_cast<std::ptrdiff_t>(begin), size,
                    memory.sum.begin() + static_cast<std::ptrdiff_t>(begin));
      }
    });
    if (is_kept) kept_.add(step, std::move(memory));
    kept_.forget_after(step, recipes_);
  }

  std::size_t memory_bytes() const override {
    return sum_.capacity() * sizeof(Int) + kept_.bytes();
  }

  void use_key(const RandomKey& key) override { key_ = key; }

  void save(StateWriter& out) const override {
    out.begin("exact part");
    out.sliced(sum_);
    kept_.save(out);
  }

  void restore(StateReader& in) override {
    in.begin("exact part");
    sum_ = in.sliced<Int>(sum_.size());
    kept_.restore(in, sum_.size());
  }

 private:
  /// The values s and R of a step. R, in cells of 2^h, is public: rounding is post-processing.
  struct Release {
    explicit Release(std::size_t size) : sum(size), released(size) {}
    std::size_t bytes() const {
      return sum.capacity() * sizeof(Int) + released.capacity() * sizeof(float);
    }
    void save(StateWriter& out) const {
      out.sliced(sum);
      out.sliced(released);
    }
    void restore(StateReader& in, std::size_t size) {
      sum = in.sliced<Int>(size);
      released = in.sliced<float>(size);
    }
    std::vector<Int> sum;
    std::vector<float> released;
  };
  struct Term {
    const Release* memory;
    double factor;
    std::int64_t constant;  // the term's factor, from fixed()
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

  /// Computes s = keep s + x, and D, for the elements from `begin` on.
  void new_data(std::uint64_t step, std::span<const std::int64_t> cells,
                std::span<const Term> terms, std::size_t begin, std::span<Int> data) {
    const double keep = recipes_.keep(step);
    const std::span<Int> sums = std::span(sum_).subspan(begin, data.size());
    const auto add = [&](const auto& times_keep) {
      add_to_kept<Int>(times_keep, cells.data() + begin, bits_, sums, data.data());
    };
    if (keep == 1.0) {
      add([](Int sum) { return sum; });
    } else if (const std::int64_t constant = fixed(keep); is_fraction(constant)) {
      add([by = fraction(constant)](Int sum) { return times_fraction(by, sum); });
    } else {
      add([=](Int sum) { return times(constant, sum); });
    }
    for (const Term& term : terms) {
      const auto subtracted = [&](const auto& from) {
        subtract<Int>(from, term.memory->sum.data() + begin, data);
      };
      const std::int64_t constant = term.constant;
      if (is_fraction(constant)) {
        subtracted([by = fraction(constant)](Int out, Int sum) {
          return sum_of(out, -times_fraction(by, sum));
        });
      } else if (is_fraction(-constant)) {
        subtracted([by = fraction(-constant)](Int out, Int sum) {
          return sum_of(out, times_fraction_up(by, sum));
        });
      } else {
        subtracted([=](Int out, Int sum) { return sum_of(out, -times(constant, sum)); });
      }
    }
  }

  /// Replaces `upper` by R for the elements from `begin` on: joins the upper and lower part of each
  /// value as real numbers, and adds the terms.
  static void add_terms(std::span<const Term> terms, std::size_t begin, double high,
                        std::span<const double> lower, std::span<double> upper) {
    const double* real = lower.data();
    double* out = upper.data();
    const std::size_t size = upper.size();
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) out[i] = real[i] + high * out[i];
    });
    for (const Term& term : terms) {
      const float* from = term.memory->released.data() + begin;
      const double factor = term.factor;
      in_wide_registers([=] {
        for (std::size_t i = 0; i < size; ++i) out[i] += factor * static_cast<double>(from[i]);
      });
    }
  }

  static void to_floats(std::span<const double> values, double factor, float* floats) {
    in_wide_registers([=] {
      for (std::size_t i = 0; i < values.size(); ++i)
        floats[i] = static_cast<float>(factor * values[i]);
    });
  }

  const CorrelatedRecipes& recipes_;
  std::size_t first_;  // coordinate
  RandomKey key_;
  int bits_;     // F
  double unit_;  // one unit of noise multiplier, in fixed-point units
  unsigned shift_;
  std::vector<Int> sum_;  // s
  Kept<Release> kept_;
};

}  // namespace

ExactPart::~ExactPart() = default;

std::unique_ptr<ExactPart> ExactPart::make(const CorrelatedRecipes& recipes, const Size& size,
                                           RandomKey key, double noise_factor, const Slice& slice) {
  if (is_whole(recipes)) return std::make_unique<WholePart>(recipes, slice, key, noise_factor);
  const auto [is_wide, bits] = fixed_point(recipes, size);
  if (is_wide)
    return std::make_unique<FractionPart<Int128>>(recipes, slice, bits, key, noise_factor);
  return std::make_unique<FractionPart<std::int64_t>>(recipes, slice, bits, key, noise_factor);
}

double ExactPart::relative_error(const CorrelatedRecipes& recipes, const Size& size) {
  if (is_whole(recipes)) return 0.0;
  return error_with(fixed_point(recipes, size).bits, recipes, size.coordinates);
}

}  // namespace privgrad::core
