#include "ratio_law.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ratio_nodes.hpp"

namespace pld {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSqrtHalf = 0.70710678118654752440;

enum class Side { upper, lower };

/// The masses of cells between nodes, and their means: cell 0 is below the first node and begins at
/// 0, and the last cell is above the last node.
///
/// Every added mass and moment has a relative error of at most `error`.
class Cells {
 public:
  explicit Cells(std::vector<double> nodes)
      : node_(std::move(nodes)), mass_(node_.size() + 1), moment_(node_.size() + 1) {}

  std::size_t size() const { return mass_.size(); }
  double begin(std::size_t cell) const { return cell == 0 ? 0.0 : node_[cell - 1]; }
  double end(std::size_t cell) const {
    if (cell == node_.size()) return kInfinity;
    return node_[cell];
  }
  std::size_t cell_of(double value) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(node_, value) - node_.begin());
  }
  /// \param moment  the mass times the mean distance of its values from begin(cell).
  void add(std::size_t cell, double mass, double moment) {
    mass_[cell] += mass;
    moment_[cell] += moment;
  }

  RatioLaw closed(Side side, double error) const {
    return side == Side::upper ? upper(error) : lower(error);
  }

 private:
  /// The upper end of a cell gets moment / width, and the lower end gets the rest. The error of the
  /// rest is at most twice the error of the mass. This error is added to the mass, because a larger
  /// measure is still an upper bound. All mass of the last cell goes to its lower end, and the
  /// excess of its mean above that end goes to infinity.
  RatioLaw upper(double error) const {
    RatioLaw law;
    law.value.reserve(size());
    law.value.push_back(0.0);
    law.value.insert(law.value.end(), node_.begin(), node_.end());
    law.mass.assign(size(), 0.0);
    for (std::size_t cell = 0; cell + 1 < size(); ++cell) {
      const double up = std::min(moment_[cell] / (end(cell) - begin(cell)), mass_[cell]);
      law.mass[cell + 1] += up;
      law.mass[cell] += (mass_[cell] - up) + 2.0 * (error + 4.0 * kUlp) * mass_[cell];
    }
    law.mass.back() += mass_.back();
    law.beyond = moment_.back();
    return law;
  }

  RatioLaw lower(double) const {
    RatioLaw law;
    for (std::size_t cell = 0; cell < size(); ++cell) {
      if (mass_[cell] == 0.0) continue;
      law.value.push_back(std::min(begin(cell) + moment_[cell] / mass_[cell], end(cell)));
      law.mass.push_back(mass_[cell]);
    }
    return law;
  }

  std::vector<double> node_, mass_, moment_;
};

// ---- one step

/// Eight-point Gauss-Legendre on [0, 1].
constexpr std::array<double, 8> kPlace{0.01985507175123188, 0.10166676129318664, 0.2372337950418355,
                                       0.4082826787521751,  0.5917173212478249,  0.7627662049581645,
                                       0.8983332387068134,  0.9801449282487681};
constexpr std::array<double, 8> kWeight{
    0.05061426814518813, 0.11119051722668724, 0.15685332293894363, 0.1813418916891810,
    0.1813418916891810,  0.15685332293894363, 0.11119051722668724, 0.05061426814518813};

/// Adds the cell between two values z of a standard normal, whose ratio is e^(s (z - from)) times
/// the ratio at `from`. It is added by quadrature, which avoids the cancellation of differences of
/// tails. In pieces of 1 / (10 + s), the 16th derivative, which determines the error, is below
/// (|z| + s + 8)^16 times the integrand; for |z| <= 10 + s the remainder is below 1e-17 of the
/// piece.
void integrate(double s, double from, double to, double ratio, std::size_t cell, Cells& cells) {
  const auto pieces = static_cast<int>(std::ceil((to - from) * (10.0 + s)));
  const double length = (to - from) / pieces;
  double mass = 0.0, moment = 0.0;
  for (int piece = 0; piece < pieces; ++piece) {
    for (std::size_t k = 0; k < kPlace.size(); ++k) {
      const double above = (piece + kPlace[k]) * length;
      const double z = from + above;
      const double weight = kWeight[k] * length * std::exp(-0.5 * z * z);
      mass += weight;
      moment += weight * std::expm1(s * above);
    }
  }
  constexpr double kDensity = 0.39894228040143267794;
  cells.add(cell, mass * kDensity, moment * ratio * kDensity);
}

/// Bounds the law of exp(s Z - s^2/2), s = 1 / sigma, from one side. Cells between the nodes are
/// integrated; the masses outside, under Q and under P, come from the tails of Z.
RatioLaw lognormal(double sigma, const std::vector<double>& nodes, Side side) {
  const double s = 1.0 / sigma;
  const auto z_of = [&](double value) { return (std::log(value) + 0.5 * s * s) / s; };
  const auto below = [](double z) { return 0.5 * std::erfc(-z * kSqrtHalf); };
  Cells cells(nodes);
  const double first = z_of(nodes.front()), last = z_of(nodes.back());
  cells.add(0, below(first), below(first - s));
  for (std::size_t cell = 1; cell + 1 < cells.size(); ++cell)
    integrate(s, z_of(nodes[cell - 1]), z_of(nodes[cell]), nodes[cell - 1], cell, cells);
  // Beyond the last node, the upper law overestimates the mean, and the lower law drops the mass.
  if (side == Side::upper) cells.add(cells.size() - 1, below(-last), below(s - last));
  // exp, log and erfc are accurate to 4 units in the last place, and exp(-z^2/2) to 4 + z^2 units.
  const double farthest = std::max(std::fabs(first), std::fabs(last));
  const double error = kUlp * (64.0 + 4.0 * farthest * farthest);
  RatioLaw law = cells.closed(side, error);
  law.mass_error = error;
  // A node and its z are consistent up to the rounding error of the logarithm.
  law.value_error = 8.0 * kUlp * (1.0 + s * (s + farthest));
  return law;
}

// ---- sums

/// Adds one value to every value of `b`, and puts the sums into their cells. If `is_square`, only
/// the values of `b` up to `value` are used, and values below it count twice. Values increase, so
/// cells are visited in increasing order.
void add_row(double value, double weight, const RatioLaw& b, std::size_t end, bool is_square,
             Cells& cells) {
  std::size_t cell = cells.cell_of(value + b.value.front());
  double low = cells.begin(cell), high = cells.end(cell);
  double mass = 0.0, moment = 0.0;
  for (std::size_t j = 0; j < end; ++j) {
    const double sum = value + b.value[j];
    if (sum >= high) {
      cells.add(cell, weight * mass, weight * moment);
      mass = moment = 0.0;
      while (sum >= high) high = cells.end(++cell);
      low = cells.begin(cell);
    }
    const double own = is_square && j + 1 < end ? 2.0 * b.mass[j] : b.mass[j];
    mass += own;
    moment += own * (sum - low);
  }
  cells.add(cell, weight * mass, weight * moment);
}

double total(const std::vector<double>& masses) {
  double sum = 0.0;
  for (const double mass : masses) sum += mass;
  return sum;
}

RatioLaw sum_of(const RatioLaw& a, const RatioLaw& b, const std::vector<double>& nodes, Side side) {
  Cells cells(nodes);
  const bool is_square = &a == &b;
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    if (a.mass[i] == 0.0) continue;
    add_row(a.value[i], a.mass[i], b, is_square ? i + 1 : b.value.size(), is_square, cells);
  }
  // A cell's terms are added up row by row, which bounds the number of consecutive additions.
  const double error = kUlp * (8.0 + static_cast<double>(a.value.size() + b.value.size()));
  RatioLaw law = cells.closed(side, error);
  law.mass_error = a.mass_error + b.mass_error + error + 4.0 * kUlp;
  law.value_error = std::max(a.value_error, b.value_error) + 2.0 * error;
  if (side == Side::upper) law.beyond += a.beyond * total(b.mass) + b.beyond * total(a.mass);
  return law;
}

RatioBracket sum_of(const RatioBracket& a, const RatioBracket& b, std::size_t count) {
  const std::vector<double> nodes = nodes_of_sum(a.lower, b.lower, count);
  return {sum_of(a.upper, b.upper, nodes, Side::upper),
          sum_of(a.lower, b.lower, nodes, Side::lower)};
}

/// Turns a sum of `steps` terms into their mean, with masses rounded to the safe side, both under Q
/// and under P; under P, the error of a value is also an error of the mass.
void finish(RatioLaw& law, double direction, double steps) {
  const double certain = 1.0 + direction * 2.0 * (law.mass_error + law.value_error);
  for (double& value : law.value) value /= steps;
  for (double& mass : law.mass) mass *= certain;
  law.beyond *= certain / steps;
  law.value_error += kUlp;
  law.mass_error = 0.0;
}

}  // namespace

RatioBracket allocation_ratio(std::uint64_t steps, double sigma, std::size_t nodes) {
  const std::vector<double> first = nodes_of_lognormal(sigma, nodes);
  RatioBracket power{lognormal(sigma, first, Side::upper), lognormal(sigma, first, Side::lower)};
  std::optional<RatioBracket> sum;
  for (std::uint64_t left = steps; left > 0; left /= 2) {
    if (left % 2 == 1) sum = sum ? sum_of(*sum, power, nodes) : power;
    if (left > 1) power = sum_of(power, power, nodes);
  }
  finish(sum->upper, 1.0, static_cast<double>(steps));
  finish(sum->lower, -1.0, static_cast<double>(steps));
  return std::move(*sum);
}

}  // namespace pld
