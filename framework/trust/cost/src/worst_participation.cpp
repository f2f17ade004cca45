#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/linear_mechanism.hpp"

namespace privgrad::core {
namespace {

/// The rule for the steps in which a unit may take part.
struct Rule {
  std::uint64_t steps = 0;
  std::uint64_t most = 0;  // the most participations that fit
  std::uint64_t gap = 1;   // distance between two participations: min_separation + 1
};

Rule rule_for(std::uint64_t steps, std::uint64_t max_participations, std::uint64_t min_separation) {
  // A gap larger than any distance between two steps is equivalent to an infinite one, and does not
  // overflow.
  const std::uint64_t gap = std::min(min_separation, steps) + 1;
  return {steps, std::min(max_participations, (steps + gap - 1) / gap), gap};
}

/// best[m][i]: the largest sum of at most m of the first i values that are at least the rule's gap
/// apart. The values are not negative.
class BestSums {
 public:
  explicit BestSums(const Rule& rule)
      : rule_(rule), best_(rule.most + 1, std::vector<long double>(rule.steps + 1, 0.0L)) {}

  template <class Values>
  void fill(const Values& values) {
    for (std::uint64_t m = 1; m <= rule_.most; ++m) {
      for (std::uint64_t i = 1; i <= rule_.steps; ++i) {
        const std::uint64_t before = i > rule_.gap ? i - rule_.gap : 0;
        best_[m][i] = std::max(best_[m][i - 1], values(i - 1) + best_[m - 1][before]);
      }
    }
  }
  /// The best sum of the values before position `end`.
  long double at(std::uint64_t most, std::uint64_t end) const { return best_[most][end]; }
  long double of_all() const { return best_.back().back(); }

 private:
  Rule rule_;
  std::vector<std::vector<long double>> best_;
};

/// Visits all sets, adding one step after the other, and gives up if there are too many.
class Search {
 public:
  Search(const LinearMechanism& mechanism, const Rule& rule) : mechanism_(mechanism), rule_(rule) {}

  /// \returns nothing if there are more than 10^5 sets.
  std::optional<double> worst() {
    extend(0);
    if (sets_ > kMostSets) return std::nullopt;
    return worst_;
  }

 private:
  static constexpr std::uint64_t kMostSets = 100'000;

  void extend(std::uint64_t from) {
    if (++sets_ > kMostSets) return;
    worst_ = std::max(worst_, squared_sensitivity(mechanism_, chosen_));
    if (chosen_.size() == rule_.most) return;
    for (std::uint64_t step = from; step < rule_.steps && sets_ <= kMostSets; ++step) {
      chosen_.push_back(step);
      extend(step + rule_.gap);
      chosen_.pop_back();
    }
  }

  const LinearMechanism& mechanism_;
  Rule rule_;
  std::vector<std::uint64_t> chosen_;
  std::uint64_t sets_ = 0;
  double worst_ = 0.0;
};

/// The matrix by rows, with absolute values; computes from it the rows of G = |C|^T |C|, one at a
/// time.
class Products {
 public:
  explicit Products(const LinearMechanism& mechanism)
      : mechanism_(mechanism), rows_(mechanism.rows()) {
    for (std::uint64_t step = 0; step < mechanism.steps(); ++step) {
      for (const auto& [row, value] : mechanism.column(step)) {
        if (value != 0.0) rows_[row].push_back({step, std::fabs(value)});
      }
    }
  }

  /// The number of multiplications that all of G takes.
  double work() const {
    double sum = 0.0;
    for (const auto& row : rows_) {
      sum += static_cast<double>(row.size()) * static_cast<double>(row.size());
    }
    return sum;
  }

  /// Whether two columns at this distance or farther apart can share a row.
  bool meet_beyond(std::uint64_t gap) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return !row.empty() && row.back().step - row.front().step >= gap;
    });
  }

  /// \param products  out: of column s with every column.
  void with(std::uint64_t s, std::vector<long double>& products) const {
    products.assign(mechanism_.steps(), 0.0L);
    for (const auto& [row, value] : mechanism_.column(s)) {
      const long double size = std::fabs(static_cast<long double>(value));
      for (const auto& [step, other] : rows_[row]) products[step] += size * other;
    }
  }

 private:
  struct Place {
    std::uint64_t step;
    double value;
  };
  const LinearMechanism& mechanism_;
  std::vector<std::vector<Place>> rows_;
};

/// If no two columns that may be taken together share a row, the squared sensitivity is the sum of
/// their squared norms. Works as BestSums, but keeps only its last two rows.
double worst_of_norms(const LinearMechanism& mechanism, const Rule& rule) {
  std::vector<long double> norms(rule.steps, 0.0L);
  for (std::uint64_t step = 0; step < rule.steps; ++step) {
    for (const auto& entry : mechanism.column(step)) {
      norms[step] += static_cast<long double>(entry.value) * entry.value;
    }
  }
  std::vector<long double> fewer(rule.steps + 1, 0.0L);
  std::vector<long double> best(rule.steps + 1, 0.0L);
  for (std::uint64_t m = 1; m <= rule.most; ++m) {
    for (std::uint64_t i = 1; i <= rule.steps; ++i) {
      const std::uint64_t before = i > rule.gap ? i - rule.gap : 0;
      best[i] = std::max(best[i - 1], norms[i - 1] + fewer[before]);
    }
    std::swap(fewer, best);
  }
  return static_cast<double>(fewer.back());
}

/// max over S of sum over s in S of w_s.
double bound_by_columns(const Products& products, const Rule& rule) {
  std::vector<long double> row;
  std::vector<long double> weight(rule.steps);
  BestSums before(rule);
  BestSums after(rule);
  for (std::uint64_t s = 0; s < rule.steps; ++s) {
    products.with(s, row);
    before.fill([&](std::uint64_t t) { return row[t]; });
    after.fill([&](std::uint64_t t) { return row[rule.steps - 1 - t]; });
    // Steps before s end a gap before it; so do steps after it, when counted from the last step.
    const std::uint64_t end_before = s + 1 > rule.gap ? s + 1 - rule.gap : 0;
    const std::uint64_t rest = rule.steps - s;
    const std::uint64_t end_after = rest > rule.gap ? rest - rule.gap : 0;
    long double most = 0.0L;
    for (std::uint64_t m = 0; m < rule.most; ++m) {
      most = std::max(most, before.at(m, end_before) + after.at(rule.most - 1 - m, end_after));
    }
    weight[s] = row[s] + most;
  }
  BestSums best(rule);
  best.fill([&](std::uint64_t s) { return weight[s]; });
  return static_cast<double>(best.of_all());
}

bool is_decreasing(std::span<const double> column) {
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (!(column[i] >= 0.0 && std::isfinite(column[i]))) return false;
    if (i > 0 && column[i] > column[i - 1]) return false;
  }
  return true;
}

}  // namespace

WorstSensitivity worst_squared_sensitivity(const LinearMechanism& mechanism,
                                           std::uint64_t max_participations,
                                           std::uint64_t min_separation) {
  const Rule rule = rule_for(mechanism.steps(), max_participations, min_separation);
  if (rule.most == 0) return {0.0, true};
  const std::span<const double> toeplitz = mechanism.toeplitz_column();
  if (!toeplitz.empty() && is_decreasing(toeplitz)) {
    return {worst_squared_sensitivities_of_decreasing(toeplitz, max_participations, min_separation)
                .back(),
            true};
  }
  const Products products(mechanism);
  if (rule.most == 1 || !products.meet_beyond(rule.gap)) {
    return {worst_of_norms(mechanism, rule), true};
  }
  if (const auto found = Search(mechanism, rule).worst()) return {*found, true};
  constexpr double kMostWork = 0x1p36;
  const auto steps = static_cast<double>(rule.steps);
  if (products.work() + 2.0 * steps * steps * static_cast<double>(rule.most) > kMostWork) {
    throw ConfigError(
        "a matrix of " + std::to_string(rule.steps) + " steps with " + std::to_string(rule.most) +
        " participations takes too long to bound; give the participations themselves");
  }
  return {bound_by_columns(products, rule), false};
}

std::vector<double> worst_squared_sensitivities_of_decreasing(std::span<const double> first_column,
                                                              std::uint64_t max_participations,
                                                              std::uint64_t min_separation) {
  if (!is_decreasing(first_column)) {
    throw ConfigError("the first column has to be finite, not negative and not increasing");
  }
  const Rule rule = rule_for(first_column.size(), max_participations, min_separation);
  std::vector<double> after;
  after.reserve(rule.steps);
  long double sum = 0.0L;
  for (std::uint64_t row = 0; row < rule.steps; ++row) {
    long double change = 0.0L;
    for (std::uint64_t m = 0; m < rule.most && m * rule.gap <= row; ++m) {
      change += static_cast<long double>(first_column[row - m * rule.gap]);
    }
    sum += change * change;
    after.push_back(static_cast<double>(sum));
  }
  return after;
}

}  // namespace privgrad::core
