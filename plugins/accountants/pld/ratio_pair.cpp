#include "ratio_pair.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace pld {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();

/// Sums over a law's values from both ends: entry k covers the values before the k-th value, or the
/// values from the k-th on. Each sum has an error of 2 units in the last place, relative to the sum
/// of absolute values.
struct Sums {
  template <class Term>
  Sums(std::size_t count, double beyond, const Term& term)
      : below(count + 1, 0.0), above(count + 1, beyond) {
    long double sum = 0.0L;
    for (std::size_t k = 0; k < count; ++k) {
      sum += term(k);
      below[k + 1] = static_cast<double>(sum);
    }
    sum = beyond;
    for (std::size_t k = count; k-- > 0;) {
      sum += term(k);
      above[k] = static_cast<double>(sum);
    }
  }

  std::vector<double> below, above;
};

/// The loss is the logarithm of the ratio, which takes the values of a law; for the reversed pair
/// it is the negative logarithm, +infinity at the value 0.
class RatioPair final : public LossPair {
 public:
  RatioPair(RatioLaw law, bool is_reversed)
      : law_(std::move(law)),
        is_reversed_(is_reversed),
        q_(size(), 0.0, [this](std::size_t k) { return static_cast<long double>(law_.mass[k]); }),
        p_(size(), law_.beyond, [this](std::size_t k) { return mass(k) * value(k); }),
        difference_(size(), law_.beyond,
                    [this](std::size_t k) { return mass(k) * (value(k) - 1.0L); }),
        largest_difference_(*std::ranges::max_element(difference_.above)) {}

  Tails at(double threshold) const override {
    Tails tails = is_reversed_ ? reversed_at(threshold) : forward_at(threshold);
    tails.relative_error = 4.0 * kUlp;
    tails.difference_error = 8.0 * kUlp * largest_difference_;
    tails.threshold_error = law_.value_error + 4.0 * kUlp * std::fabs(threshold);
    return tails;
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> samples;
    for (std::size_t k = 0; k < size(); ++k) {
      if (law_.value[k] <= 0.0 || law_.mass[k] <= 0.0) continue;
      const double loss = std::log(law_.value[k]);
      const double p = law_.mass[k] * law_.value[k];
      samples.push_back(is_reversed_ ? Sample{-loss, law_.mass[k], p}
                                     : Sample{loss, p, law_.mass[k]});
    }
    if (is_reversed_) std::ranges::reverse(samples);
    return samples;
  }

  bool is_one_of_two_sides() const override { return true; }
  bool symmetric() const override { return false; }

 private:
  std::size_t size() const { return law_.value.size(); }
  long double mass(std::size_t k) const { return law_.mass[k]; }
  long double value(std::size_t k) const { return law_.value[k]; }

  Tails forward_at(double threshold) const {
    const auto first = std::ranges::upper_bound(law_.value, std::exp(threshold));
    const auto k = static_cast<std::size_t>(first - law_.value.begin());
    return {.p_above = p_.above[k],
            .p_below = p_.below[k],
            .q_above = q_.above[k],
            .q_below = q_.below[k],
            .difference = difference_.above[k]};
  }

  Tails reversed_at(double threshold) const {
    const auto end = std::ranges::lower_bound(law_.value, std::exp(-threshold));
    const auto k = static_cast<std::size_t>(end - law_.value.begin());
    return {.p_above = q_.below[k],
            .p_below = q_.above[k],
            .q_above = p_.below[k],
            .q_below = p_.above[k],
            .difference = -difference_.below[k]};
  }

  RatioLaw law_;
  bool is_reversed_;
  Sums q_, p_, difference_;
  double largest_difference_;
};

}  // namespace

LossPairPtr pair_of_ratio(RatioLaw law) {
  return std::make_shared<RatioPair>(std::move(law), false);
}

LossPairPtr reversed_pair_of_ratio(RatioLaw law) {
  return std::make_shared<RatioPair>(std::move(law), true);
}

}  // namespace pld
