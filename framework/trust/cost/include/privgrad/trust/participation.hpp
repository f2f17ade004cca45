// The groups of rows that take part in each step, and a linear mechanism's sensitivity to each
// group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/random.hpp"
#include "privgrad/sampler.hpp"

namespace privgrad::core {

/// The rows that take part in each step of a run, in groups that always take part together. Who
/// takes part is public: it depends only on row numbers and random numbers (PublicOrder).
class Participation {
 public:
  /// \param members_of_steps  the groups in each step, distinct numbers below `groups`.
  /// \throws PluginError for other numbers.
  Participation(std::uint64_t groups,
                const std::vector<std::vector<std::uint32_t>>& members_of_steps);

  /// Returns the participation that `order` draws from `random`.
  /// \throws PluginError for groups that do not exist or are named twice in a step; and as
  ///   PublicOrder::groups() does.
  static Participation drawn(PublicOrder& order, std::uint64_t steps, const RandomSource& random);

  std::uint64_t steps() const { return begins_.size() - 1; }
  std::uint64_t groups() const { return groups_; }
  /// Returns the groups in a step, in increasing order.
  /// \param step  below steps().
  std::span<const std::uint32_t> at(std::uint64_t step) const {
    return std::span(members_).subspan(begins_[step], begins_[step + 1] - begins_[step]);
  }
  /// Whether the groups of all these rows take part in the step.
  bool covers(std::uint64_t step, std::span<const std::uint32_t> rows,
              const PublicOrder& order) const;
  /// The number of steps that each group takes part in.
  std::vector<std::uint64_t> counts() const;

 private:
  explicit Participation(std::uint64_t groups) : groups_(groups) {}
  void add_step(std::vector<std::uint32_t> members);

  std::uint64_t groups_;
  // where each step's members begin, followed by the end of the last step's members
  std::vector<std::uint64_t> begins_{0};
  std::vector<std::uint32_t> members_;
};

/// The squared sensitivity of a linear mechanism to each group's rows, for a given order. Releases
/// are added one after the other, each of the form sum_t C_rt x_t + sigma_r zeta_r with a node
/// zeta_r of its own.
///
/// A row of group g changes release r by at most the sum over its steps of |C_rt|, for
/// contributions of norm 1 (triangle inequality; an equality if no entry is negative). All releases
/// together are one Gaussian mechanism: the sum over r of (that change / sigma_r)^2 is one over the
/// squared noise multiplier, even if each x depends on earlier releases (Denisov, McMahan, Rush,
/// Smith and Thakurta 2022, Theorem 2.1). The same holds for the first r releases, for every r.
class SquaredSensitivity {
 public:
  /// \param participation  must outlive this.
  explicit SquaredSensitivity(const Participation& participation);

  /// Adds one step's data to the next release, with this coefficient. A release may contain each
  /// step at most once.
  void add_entry(std::uint64_t step, double coefficient);
  /// Completes the release.
  /// \param noise  its sigma, > 0.
  void end_release(double noise);

  /// The squared sensitivity to each group, over all releases so far; the relative rounding error
  /// is below 2^-50 times the number of steps.
  std::span<const double> of_groups() const { return squares_; }
  /// The largest of of_groups().
  double worst() const { return worst_; }

 private:
  const Participation& participation_;
  std::vector<double> squares_;
  std::vector<double> change_;          // of each group, in the release that is being made
  std::vector<std::uint32_t> touched_;  // groups whose change is not 0
  double worst_ = 0.0;
};

}  // namespace privgrad::core
