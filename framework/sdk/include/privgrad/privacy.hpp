// Adjacency, privacy unit, and the types of private (Bounded) and released (Released) sums.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/finite.hpp"

namespace privgrad {

/// Which two data sets must be hard to tell apart. Every manifest must state its adjacency; there
/// is no default.
enum class Adjacency {
  add_or_remove_one = 1,  ///< One has one example more. The size of the data is itself private.
  replace_one,            ///< One example is replaced by any other. The size is public.
  zero_out,               ///< One example's contribution is replaced by zero. The size is public.
};

PRIVGRAD_API std::string_view to_text(Adjacency adjacency);

/// \throws ConfigError for any text except the names of the three adjacencies.
PRIVGRAD_API Adjacency adjacency_from_text(std::string_view text);

/// Returns the largest difference between the sums of two neighbouring data sets, if each
/// contribution has an L2 norm of at most 1: 1 for add_or_remove_one and zero_out, 2 for
/// replace_one (triangle inequality: one contribution leaves, another enters).
PRIVGRAD_API double sensitivity_of_unit_bound(Adjacency adjacency);

/// The privacy unit: whose data may differ between neighbours.
enum class PrivacyUnit { example = 1, client };

PRIVGRAD_API std::string_view to_text(PrivacyUnit unit);

/// The only connection between private and released values. Declared here so that Bounded and
/// Released can name it as their only maker; the core defines the class and does not install it.
class TrustBase;

/// A sum over privacy units in which no unit's contribution has an L2 norm above l2_bound().
///
/// The sum is still private: only the core, which adds the noise, can read its values. Plugins can
/// only hold it, move it and ask for its bound.
class PRIVGRAD_API Bounded {
 public:
  Bounded(Bounded&&) noexcept = default;
  Bounded& operator=(Bounded&&) noexcept = default;
  Bounded(const Bounded&) = delete;
  Bounded& operator=(const Bounded&) = delete;
  ~Bounded() = default;

  double l2_bound() const noexcept { return l2_bound_; }
  PrivacyUnit unit() const noexcept { return unit_; }
  std::size_t size() const noexcept { return values_.size(); }

 private:
  friend class TrustBase;
  Bounded(std::vector<float> values, double l2_bound, PrivacyUnit unit)
      : values_(std::move(values)), l2_bound_(l2_bound), unit_(unit) {}

  std::vector<float> values_;
  double l2_bound_;
  PrivacyUnit unit_;
};

/// A value to which noise has been added and for which the ledger has been charged.
///
/// Only the core makes such values. Anything computed from Released and public values costs nothing
/// more (post-processing: Dwork and Roth 2014, Proposition 2.1), so an interface that receives no
/// other data-dependent values needs no privacy review. This protects against mistakes, not against
/// hostile native code: see SECURITY.md.
class PRIVGRAD_API Released {
 public:
  Released(Released&&) noexcept = default;
  Released& operator=(Released&&) noexcept = default;
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() = default;

  /// The noised sum divided by the plan's constant divisor: float32, shape [size of the
  /// contribution].
  std::span<const float> values() const noexcept {
    return {values_.get(), values_ == nullptr ? 0 : size_};
  }

  /// Whether no value is infinite or NaN. Determined when the values were made, so the call costs
  /// nothing.
  bool is_finite() const noexcept { return is_finite_; }

  /// Standard deviation of the noise in each coordinate of values().
  double noise_stddev() const noexcept { return noise_stddev_; }

 private:
  friend class TrustBase;
  Released(std::vector<float> values, double noise_stddev)
      : size_(values.size()), noise_stddev_(noise_stddev), is_finite_(all_finite(values)) {
    const auto memory = std::make_shared<const std::vector<float>>(std::move(values));
    values_ = {memory, memory->data()};
  }
  /// \param values  [size]; owns the memory of the values.
  Released(std::shared_ptr<const float[]> values, std::size_t size, double noise_stddev,
           bool is_finite)
      : values_(std::move(values)),
        size_(size),
        noise_stddev_(noise_stddev),
        is_finite_(is_finite) {}

  std::shared_ptr<const float[]> values_;
  std::size_t size_;
  double noise_stddev_;
  bool is_finite_;
};

}  // namespace privgrad
