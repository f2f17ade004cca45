#include "privgrad/trust/banded_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// Relative error bound for sums of a few dozen non-negative numbers, a quotient and a root.
constexpr double kRoundings = 0x1p-46;

void check_strategy(std::span<const double> c) {
  const bool is_one = !c.empty() && c.front() == 1.0 &&
                      std::ranges::all_of(c, [](double x) { return std::isfinite(x); });
  if (is_one) return;
  throw PluginError("the aggregator's strategy has " + std::to_string(c.size()) +
                    " coefficients, expected finite ones of which the first is 1");
}

/// Upper bound of ||C N - I||_2.
class Remainder {
 public:
  Remainder(const CorrelatedRecipes& recipes, std::span<const double> c)
      : recipes_(recipes), c_(c), rows_(recipes.steps()), columns_(recipes.steps()) {
    for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
      Row& row = rows_[step];
      row.fill(0.0);
      row[0] = 1.0;
      for (const NoiseTerm& term : recipes.noise(step).subspan(1))
        row[recipes.age(step, term)] = term.multiplier / recipes.own_multiplier(step);
    }
  }

  double norm() {
    double most_of_row = 0.0;
    for (std::uint64_t step = 0; step < recipes_.steps(); ++step) {
      double sum = 0.0;
      const std::uint64_t reach = std::min(step, recipes_.window() + c_.size() - 1);
      for (std::uint64_t age = 1; age <= reach; ++age) {
        const double entry = size_of_entry(step, age);
        sum += entry;
        columns_[step - age] += entry;
      }
      most_of_row = std::max(most_of_row, sum);
    }
    const double most_of_column = *std::ranges::max_element(columns_);
    return std::sqrt(most_of_row * most_of_column) * (1.0 + kRoundings);
  }

 private:
  using Row = std::array<double, kMostNoiseWindow + 1>;  // by age: N's row over its diagonal entry

  /// The absolute value of the entry at (step, step - age), age > 0, with its rounding error: one
  /// rounding for the quotient in each product, one for the product, and one for each addition.
  double size_of_entry(std::uint64_t step, std::uint64_t age) const {
    double entry = 0.0, sizes = 0.0;
    for (std::uint64_t i = 0; i < c_.size() && i <= age; ++i) {
      if (age - i > recipes_.window()) continue;
      const double product = c_[i] * rows_[step - i][age - i];
      entry += product;
      sizes += std::fabs(product);
    }
    return std::fabs(entry) + sizes * 0x1p-52 * static_cast<double>(c_.size() + 3);
  }

  const CorrelatedRecipes& recipes_;
  std::span<const double> c_;
  std::vector<Row> rows_;
  std::vector<double> columns_;
};

}  // namespace

std::vector<double> banded_multipliers(const CorrelatedRecipes& recipes,
                                       std::span<const double> c) {
  check_strategy(c);
  const double rho = Remainder(recipes, c).norm();
  if (!(rho < 1.0)) {
    throw PrivacyError(
        "the noise is too far from the inverse of its strategy for anything to be "
        "proved: " +
        format_number(rho) + ", expected below 1");
  }
  double squares = 0.0;
  for (const double one : c) squares += one * one;
  const double share = (1.0 - rho) / std::sqrt(squares) * (1.0 - kRoundings);
  std::vector<double> multipliers;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step)
    multipliers.push_back(share * recipes.own_multiplier(step));
  return multipliers;
}

}  // namespace privgrad::core
