// The events that the accountant `rdp` has composed, with the log moments that need no
// search.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/event.hpp"
#include "privgrad/run_count.hpp"
#include "privgrad/upward.hpp"
#include "renyi.hpp"

namespace rdp {

// Quadrature nodes are stored for up to kKeptSettings distinct settings, and moments up to a total
// of kKeptMoments; all others are recomputed when needed.
inline constexpr std::size_t kKeptSettings = 16384;
inline constexpr std::size_t kKeptMoments = std::size_t{1} << 22U;

/// The kinds of releases whose log moments are not multiples of a (a - 1).
enum class CostKind {
  laplace,
  poisson_gaussian,
  poisson_laplace,
  poisson_discrete,
  subset_gaussian
};

struct Setting {
  CostKind kind = CostKind::laplace;
  /// The noise divided by the sensitivity, which is the adjacency's or the event's own.
  double noise = 0.0;
  double fraction = 1.0;  ///< The sampled share of the data.
  /// The sensitivity of a discrete Gaussian, whose noise is in the grid's units.
  double sensitivity = 1.0;
  auto operator<=>(const Setting&) const = default;  // NOLINT(modernize-use-nullptr): clang 14 errs
};

class Moments {
 public:
  explicit Moments(const Setting& setting) : impl_(make(setting)) {}

  double at(double order) {
    return std::visit(
        privgrad::Overloaded{[&](double scale) { return laplace_log_moment(scale, order); },
                             [&](auto& sampled) { return sampled.log_moment(order); }},
        impl_);
  }

 private:
  using Impl = std::variant<double, SampledGaussian, SampledLaplace, SubsetGaussian>;
  static Impl make(const Setting& setting) {
    switch (setting.kind) {
      case CostKind::laplace:
        return setting.noise;
      case CostKind::poisson_gaussian:
        return SampledGaussian(setting.fraction, setting.noise);
      case CostKind::poisson_laplace:
        return SampledLaplace(setting.fraction, setting.noise);
      case CostKind::poisson_discrete:
        return SampledGaussian::discrete(setting.fraction, setting.noise, setting.sensitivity);
      case CostKind::subset_gaussian:
        return SubsetGaussian(setting.fraction, setting.noise);
    }
    throw privgrad::PluginError("rdp: a setting of no kind");
  }
  Impl impl_;
};

struct Selection;

/// Everything composed so far, with its log moments at any order, except the moments of selections.
class Spent {
 public:
  void add_concentrated(double rho, std::uint64_t count) {
    if (count == 0 || rho == 0.0) return;
    rho_.add(privgrad::multiply_up(count, rho));
    only_bounded_ = false;
  }
  void add(const Setting& setting, std::uint64_t count) {
    if (count == 0) return;
    const auto [place, is_new] = index_.try_emplace(setting, settings_.size());
    if (is_new) {
      settings_.push_back(setting);
      counts_.push_back(0);
      any_subset_ |= setting.kind == CostKind::subset_gaussian;
      only_bounded_ &=
          setting.kind == CostKind::laplace || setting.kind == CostKind::poisson_laplace;
    }
    std::uint64_t& total = counts_[place->second];
    if (__builtin_add_overflow(total, count, &total)) {
      throw privgrad::ConfigError("rdp: the number of releases does not fit in 64 bits");
    }
  }

  void add(const privgrad::RepeatAndSelectEvent& event, std::vector<Spent> candidates,
           std::uint64_t count);

  bool nothing() const;
  bool infinite() const;

  /// Whether the moments are convex in the order. Exact moments of mechanisms are convex; bounds
  /// need not be.
  bool convex() const;

  std::vector<Selection>& selections() { return selections_; }

  /// Returns the divergence of order infinity without selections: the sum of the pure epsilons.
  double pure_epsilon() const {
    if (!only_bounded_) return std::numeric_limits<double>::infinity();
    privgrad::UpwardSum sum;
    for (std::size_t i = 0; i < settings_.size(); ++i) {
      const Setting& one = settings_[i];
      sum.add(privgrad::multiply_up(counts_[i],
                                    one.kind == CostKind::laplace
                                        ? privgrad::round_up(1.0 / one.noise, 2.0)
                                        : SampledLaplace(one.fraction, one.noise).pure_epsilon()));
    }
    return sum.total();
  }

  /// Returns K of everything except the selections, and stores the result. Moments are added in the
  /// order in which settings first occurred, so results do not depend on earlier queries.
  double log_moment(double order) {
    privgrad::UpwardSum sum;
    const double concentrated = concentrated_log_moment(rho_.total(), order);
    sum.add(concentrated);
    const auto times = [&](std::size_t i, double moment) {
      sum.add(privgrad::multiply_up(counts_[i], moment));
    };
    if ((kept_.size() + 1) * settings_.size() > kKeptMoments) {
      kept_.clear();
      if (settings_.size() > kKeptMoments) {
        for (std::size_t i = 0; i < settings_.size(); ++i) times(i, moment(i, order));
        return sum.total();
      }
    }
    std::vector<double>& moments = kept_[order];
    while (moments.size() < settings_.size()) moments.push_back(moment(moments.size(), order));
    for (std::size_t i = 0; i < settings_.size(); ++i) times(i, moments[i]);
    return sum.total();
  }

 private:
  double moment(std::size_t i, double order) {
    if (i >= kKeptSettings) return Moments(settings_[i]).at(order);
    while (sources_.size() <= i) sources_.emplace_back(settings_[sources_.size()]);
    return sources_[i].at(order);
  }

  privgrad::UpwardSum rho_;
  std::map<Setting, std::size_t> index_;
  std::vector<Setting> settings_;
  std::vector<std::uint64_t> counts_;
  bool any_subset_ = false;
  bool only_bounded_ = true;
  /// The moments of the first kKeptSettings settings.
  std::vector<Moments> sources_;
  std::map<double, std::vector<double>> kept_;  ///< The moments of the settings so far, by order.
  std::vector<Selection> selections_;
};

/// A release of the best of a random number of runs, and how often such a release was made.
struct Selection {
  privgrad::RepeatAndSelectEvent event;
  std::vector<Spent> candidates;
  std::uint64_t count = 0;
  double log_inverse_gamma = 0.0;         ///< Unused for a Poisson number of runs.
  std::optional<double> log_ratio = {};   ///< Set once the value is known.
  std::map<double, double> moments = {};  ///< The moments by order.

  /// Whether the selection costs nothing, for any number of runs.
  bool nothing() const {
    return std::ranges::all_of(candidates, [](const Spent& one) { return one.nothing(); });
  }
};

inline void Spent::add(const privgrad::RepeatAndSelectEvent& event, std::vector<Spent> candidates,
                       std::uint64_t count) {
  for (Selection& known : selections_) {
    if (privgrad::Event(known.event) != privgrad::Event(event)) continue;
    if (__builtin_add_overflow(known.count, count, &known.count))
      throw privgrad::ConfigError("rdp: the number of releases does not fit in 64 bits");
    return;
  }
  Selection one{.event = event, .candidates = std::move(candidates), .count = count};
  if (!event.is_poisson())
    one.log_inverse_gamma = privgrad::log_inverse_gamma(event.mean, event.shape);
  selections_.push_back(std::move(one));
}

inline bool Spent::nothing() const {
  return settings_.empty() && rho_.total() == 0.0 &&
         std::ranges::all_of(selections_, [](const Selection& one) { return one.nothing(); });
}

inline bool Spent::infinite() const {
  return std::isinf(rho_.total()) || std::ranges::any_of(selections_, [](const Selection& one) {
           return std::ranges::any_of(one.candidates,
                                      [](const Spent& candidate) { return candidate.infinite(); });
         });
}

inline bool Spent::convex() const {
  return !any_subset_ && std::ranges::all_of(selections_, [](const Selection& one) {
    return !one.event.is_poisson() &&
           std::ranges::all_of(one.candidates,
                               [](const Spent& candidate) { return candidate.convex(); });
  });
}

}  // namespace rdp
