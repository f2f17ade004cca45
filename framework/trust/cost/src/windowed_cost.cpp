#include "windowed_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kGroups = 512;  // processed at a time, so their state stays in the caches

/// The rows of N, in the form that the recurrence needs.
class Rows {
 public:
  struct Older {
    std::uint64_t age;
    double share;  // |N_{t,t-age}|
  };

  explicit Rows(const CorrelatedRecipes& recipes) {
    for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
      for (const NoiseTerm& term : recipes.noise(step).subspan(1)) {
        if (term.multiplier == 0.0) continue;
        older_.push_back({recipes.age(step, term), std::fabs(term.multiplier)});
        if (term.multiplier > 0.0) is_attained_ = false;
      }
      begins_.push_back(older_.size());
      inverse_.push_back(1.0 / recipes.own_multiplier(step));
    }
  }

  std::span<const Older> older(std::uint64_t step) const {
    return std::span(older_).subspan(begins_[step], begins_[step + 1] - begins_[step]);
  }
  /// 1 / N_tt
  double inverse(std::uint64_t step) const { return inverse_[step]; }
  bool is_attained() const { return is_attained_; }

 private:
  std::vector<Older> older_;
  std::vector<std::size_t> begins_{0};
  std::vector<double> inverse_;
  bool is_attained_ = true;
};

/// The changes of some groups in the last steps, and the sums of their squares.
class SomeGroups {
 public:
  explicit SomeGroups(std::uint64_t window) : last_(window + 1) {}

  /// \param first  the number of this object's first group.
  /// \returns the largest sum of squares so far.
  double next(std::uint64_t step, std::span<const std::uint32_t> members, std::uint32_t first,
              const Rows& rows) {
    Changes& now = at(step);
    now.fill(0.0);
    for (const std::uint32_t group : members) now[group - first] = 1.0;
    for (const auto& [age, share] : rows.older(step)) add(share, at(step - age), now);
    return square(rows.inverse(step), now);
  }

  std::span<const double> squares() const { return squares_; }

 private:
  using Changes = std::array<double, kGroups>;

  Changes& at(std::uint64_t step) { return last_[step % last_.size()]; }

  static void add(double share, const Changes& from, Changes& to) {
    const double* older = from.data();
    double* now = to.data();
    in_wide_registers([=] {
      for (std::size_t i = 0; i < kGroups; ++i) now[i] += share * older[i];
    });
  }

  double square(double inverse, Changes& changes) {
    double* now = changes.data();
    double* squares = squares_.data();
    std::array<double, 16> most{};
    double* worst = most.data();
    in_wide_registers([=] {
      for (std::size_t i = 0; i < kGroups; i += 16) {
        for (std::size_t j = 0; j < 16; ++j) {
          const double value = inverse * now[i + j];
          now[i + j] = value;
          const double sum = squares[i + j] + value * value;
          squares[i + j] = sum;
          worst[j] = worst[j] < sum ? sum : worst[j];
        }
      }
    });
    return *std::ranges::max_element(most);
  }

  std::vector<Changes> last_;
  Changes squares_{};
};

/// Groups that take part in the same steps form a class, and only one group of it is computed. If
/// all epochs have the same order, each batch is a class.
class Classes {
 public:
  Classes(const Participation& participation, std::uint64_t steps)
      : of_group_(participation.groups(), 0), sizes_{participation.groups()} {
    for (std::uint64_t step = 0; step < steps; ++step) split(participation.at(step));
  }

  std::size_t size() const { return sizes_.size(); }
  std::uint32_t of_group(std::uint64_t group) const { return of_group_[group]; }

  /// Returns the classes in each step, in increasing order.
  std::vector<std::vector<std::uint32_t>> members(const Participation& participation,
                                                  std::uint64_t steps) const {
    std::vector<std::vector<std::uint32_t>> all(steps);
    std::vector<std::uint64_t> seen(size(), 0);  // the last step with each class, plus 1
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (const std::uint32_t group : participation.at(step)) {
        const std::uint32_t one = of_group_[group];
        if (seen[one] == step + 1) continue;
        seen[one] = step + 1;
        all[step].push_back(one);
      }
      std::ranges::sort(all[step]);
    }
    return all;
  }

 private:
  /// Splits each class into the members that take part in a step and the other members.
  void split(std::span<const std::uint32_t> members) {
    counts_.resize(size(), 0);
    std::vector<std::uint32_t> touched;
    for (const std::uint32_t group : members) {
      if (counts_[of_group_[group]]++ == 0) touched.push_back(of_group_[group]);
    }
    homes_.resize(size());
    for (const std::uint32_t one : touched) {
      homes_[one] = one;
      if (counts_[one] == sizes_[one]) continue;
      homes_[one] = static_cast<std::uint32_t>(size());
      sizes_[one] -= counts_[one];
      sizes_.push_back(counts_[one]);
    }
    for (const std::uint32_t group : members) of_group_[group] = homes_[of_group_[group]];
    for (const std::uint32_t one : touched) counts_[one] = 0;
  }

  std::vector<std::uint32_t> of_group_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint32_t> counts_, homes_;  // for each class, in the current step
};

void refuse_long_work(const CorrelatedRecipes& recipes, std::size_t orders) {
  constexpr double kMostWork = 0x1p37;
  const double work = static_cast<double>(recipes.steps()) * static_cast<double>(orders) *
                      static_cast<double>(recipes.window() + 2);
  if (work <= kMostWork) return;
  throw ConfigError("the cost of " + std::to_string(recipes.steps()) + " steps for " +
                    std::to_string(orders) +
                    " orders of examples takes too long to compute; draw one order for all epochs "
                    "(sampler {kind: shuffle, fresh: false} or sequential)");
}

/// The rows of C = N^-1, for an N with positive entries below its diagonal (windowed_cost.hpp).
class RowsOfInverse {
 public:
  explicit RowsOfInverse(const CorrelatedRecipes& recipes) : recipes_(recipes) {
    for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
      for (const NoiseTerm& term : recipes.noise(step).subspan(1))
        older_.push_back({recipes.age(step, term), term.multiplier});
      begins_.push_back(older_.size());
    }
  }

  static bool are_few(const CorrelatedRecipes& recipes, const Participation& participation) {
    constexpr double kMostWork = 0x1p33;
    const auto steps = static_cast<double>(recipes.steps());
    double members = 0.0;
    for (std::uint64_t step = 0; step < recipes.steps(); ++step)
      members += static_cast<double>(participation.at(step).size());
    return steps * (members + steps * static_cast<double>(recipes.window() + 2)) <= kMostWork;
  }

  /// Adds a row to the sensitivity: the absolute values of its entries, plus their error bounds.
  void add(std::uint64_t row, SquaredSensitivity& sensitivity) {
    // The last term covers recipes whose entries are up to 1 + kSameFactor times these.
    const double roundings =
        0x1p-52 * static_cast<double>(recipes_.window() + 3) + 4.0 * kSameFactor;
    sums_.assign(row + 1, 0.0);
    sizes_.assign(row + 1, 0.0);
    errors_.assign(row + 1, 0.0);
    sums_[row] = sizes_[row] = 1.0;
    for (std::uint64_t s = row + 1; s-- > 0;) {
      // C_rs N_ss = [r = s] - sum_j C_{r,s+j} N_{s+j,s}, to which the rows s + j have already
      // added.
      const double own = recipes_.own_multiplier(s);
      const double entry = sums_[s] / own;
      const double error = (errors_[s] + roundings * sizes_[s]) / own * (1.0 + 0x1p-50);
      if (entry < error) is_attained_ = false;
      sensitivity.add_entry(s, std::fabs(entry) + error);
      for (std::size_t i = begins_[s]; i < begins_[s + 1]; ++i) {
        const auto& [age, multiplier] = older_[i];
        sums_[s - age] -= entry * multiplier;
        sizes_[s - age] += std::fabs(entry * multiplier);
        errors_[s - age] += error * std::fabs(multiplier);
      }
    }
    sensitivity.end_release(1.0);
  }

  bool is_attained() const { return is_attained_; }

 private:
  struct Older {
    std::uint64_t age;
    double multiplier;
  };
  const CorrelatedRecipes& recipes_;
  std::vector<Older> older_;
  std::vector<std::size_t> begins_{0};
  std::vector<double> sums_, sizes_, errors_;  // of the current row
  bool is_attained_ = true;                    // whether all entries so far are certainly >= 0
};

CorrelatedCost cost_by_rows(const CorrelatedRecipes& recipes, const Participation& participation) {
  SquaredSensitivity sensitivity(participation);
  RowsOfInverse rows(recipes);
  CorrelatedCost cost;
  for (std::uint64_t row = 0; row < recipes.steps(); ++row) {
    rows.add(row, sensitivity);
    cost.worst_after.push_back(sensitivity.worst());
  }
  cost.of_groups.assign(sensitivity.of_groups().begin(), sensitivity.of_groups().end());
  cost.is_attained = rows.is_attained();
  // Covers the rounding of sums with one entry per step, and of squares.
  const auto length = static_cast<double>(recipes.steps() + 1);
  for (double& worst : cost.worst_after) worst *= 1.0 + length * 0x1p-50;
  return cost;
}

}  // namespace

CorrelatedCost windowed_cost(const CorrelatedRecipes& recipes, const Participation& participation) {
  const Rows rows(recipes);
  if (!rows.is_attained() && RowsOfInverse::are_few(recipes, participation))
    return cost_by_rows(recipes, participation);
  const std::uint64_t steps = recipes.steps();
  const Classes classes(participation, steps);
  refuse_long_work(recipes, classes.size());
  const auto members = classes.members(participation, steps);
  CorrelatedCost cost;
  cost.is_attained = rows.is_attained();
  cost.worst_after.assign(steps, 0.0);
  std::vector<double> of_classes;
  for (std::size_t first = 0; first < classes.size(); first += kGroups) {
    SomeGroups groups(recipes.window());
    const std::size_t end = std::min(first + kGroups, classes.size());
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto& all = members[step];
      const auto from = std::ranges::lower_bound(all, first);
      const auto to = std::lower_bound(from, all.end(), end);
      const double worst = groups.next(step, {from, to}, static_cast<std::uint32_t>(first), rows);
      cost.worst_after[step] = std::max(cost.worst_after[step], worst);
    }
    const auto squares = groups.squares().first(end - first);
    of_classes.insert(of_classes.end(), squares.begin(), squares.end());
  }
  for (std::uint64_t group = 0; group < participation.groups(); ++group)
    cost.of_groups.push_back(of_classes[classes.of_group(group)]);
  // The first part covers the rounding of y, doubled by the square, and of the sum of squares. The
  // other part covers entries of N up to 1 + kSameFactor times the present ones: y_t is then at
  // most (1 + kSameFactor)^t times its value here, by induction over t.
  const auto length = static_cast<double>(steps + 1);
  const auto terms = static_cast<double>(recipes.window() + 4);
  const double room = 1.0 + length * terms * 0x1p-51 + 2.5 * length * kSameFactor;
  for (double& worst : cost.worst_after) worst *= room;
  return cost;
}

}  // namespace privgrad::core
