#include "lattice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "privgrad/error.hpp"

namespace pld {
namespace {

using namespace privgrad;

constexpr double kUlp = std::numeric_limits<double>::epsilon();

// The absolute rounding error of numbers too small for relative errors.
constexpr double kTiny = 4.0 * std::numeric_limits<double>::denorm_min();

// The largest loss: e^loss must fit a double, and larger losses leave no privacy anyway.
constexpr double kLargestLoss = 700.0;
constexpr std::size_t kMostCells = std::size_t{1} << 24;

// About the largest product of a cell's weight and w^2, for a width of w steps of size h. Such a
// cell adds a variance of about weight * (w h)^2, far less than the h^2 of all narrow cells
// together.
constexpr double kWideCell = 1e-3;
constexpr double kLargestTiltInCell = 0.25;

/// The mass between two thresholds, with absolute errors.
struct Cell {
  double p = 0.0, q = 0.0, difference = 0.0;
  double p_error = 0.0, difference_error = 0.0, q_error = 0.0;
};

double difference_of(double above_low, double above_high, double below_low, double below_high,
                     double error_low, double error_high, double* error) {
  const bool from_above = above_low < below_high;
  const double low = from_above ? above_low : below_low;
  const double high = from_above ? above_high : below_high;
  *error = 2.0 * (error_low * low + error_high * high) + kTiny;
  return std::max(0.0, from_above ? low - high : high - low);
}

Cell cell_between(const Tails& low, const Tails& high) {
  Cell cell;
  cell.p = difference_of(low.p_above, high.p_above, low.p_below, high.p_below, low.relative_error,
                         high.relative_error, &cell.p_error);
  cell.q = difference_of(low.q_above, high.q_above, low.q_below, high.q_below, low.relative_error,
                         high.relative_error, &cell.q_error);
  cell.difference = low.difference - high.difference;
  cell.difference_error = low.difference_error + high.difference_error +
                          2.0 * kUlp * (std::fabs(low.difference) + std::fabs(high.difference));
  return cell;
}

/// A threshold g of the loss.
struct Loss {
  explicit Loss(double loss) : g(loss), gain(std::expm1(loss)) {}
  double g, gain;
};

/// p - e^g q of a cell, for a threshold g.
struct Excess {
  double value, error;
};
Excess excess_over(const Loss& loss, double q, double difference, double q_error,
                   double difference_error) {
  const double product = loss.gain * q;
  return {difference - product,
          difference_error + std::fabs(loss.gain) * q_error + kTiny +
              (4.0 + std::fabs(loss.g)) * kUlp * (std::fabs(difference) + std::fabs(product))};
}
Excess excess_over(const Loss& g, const Cell& cell) {
  return excess_over(g, cell.q, cell.difference, cell.q_error, cell.difference_error);
}
/// Return P(A) - e^g Q(A), computed as P(A) - Q(A) - (e^g - 1) Q(A), for the event A that the loss
/// is above, or below, g.
Excess excess_above(const Loss& g, const Tails& t) {
  return excess_over(g, t.q_above, t.difference, 2.0 * t.relative_error * t.q_above + kTiny,
                     t.difference_error);
}
Excess excess_below(const Loss& g, const Tails& t) {
  return excess_over(g, t.q_below, -t.difference, 2.0 * t.relative_error * t.q_below + kTiny,
                     t.difference_error);
}

double loss_at(const Grid& grid, double index) { return index * grid.step + grid.offset; }

/// The nodes of the grid, ascending, and the tails of the loss at each.
struct Nodes {
  std::vector<std::int64_t> index;
  std::vector<Tails> tails;
  std::vector<Loss> loss;
  /// x_(i+1) / x_i - 1 and 1 - x_i / x_(i+1), where x = e^loss.
  std::vector<double> up, down;

  void measure(const Grid& grid) {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      loss.emplace_back(loss_at(grid, static_cast<double>(index[i])));
      if (i + 1 == index.size()) break;
      const std::int64_t cells = index[i + 1] - index[i];
      const double width = static_cast<double>(cells) * grid.step;
      up.push_back(cells == last ? up.back() : std::expm1(width));
      down.push_back(cells == last ? down.back() : -std::expm1(-width));
      last = cells;
    }
  }
};

/// Walks from index 0 in one direction (+1 or -1), with wider strides where there is little mass.
class Walk {
 public:
  Walk(const LossPair& pair, const Grid& grid, int direction)
      : pair_(pair), grid_(grid), direction_(direction) {}

  /// Appends the nodes after `start`, in the order of the walk.
  void run(const Tails& start, Nodes& nodes) const {
    Tails here = start;
    std::int64_t at = 0;
    std::int64_t stride = 1;
    while (!finished(at, here)) {
      const std::int64_t next = at + direction_ * stride;
      const Tails there = pair_.at(loss_at(grid_, static_cast<double>(next)));
      const double importance = weight(at, next, here, there) * square(stride);
      if (importance > 4.0 * kWideCell && stride > 1) {
        stride /= 2;
        continue;
      }
      nodes.index.push_back(next);
      nodes.tails.push_back(there);
      if (nodes.index.size() > kMostCells) {
        throw NumericError("pld: the grid has too many cells for this accuracy");
      }
      at = next;
      here = there;
      const double wider = 2.0 * static_cast<double>(stride) * grid_.step;
      if (importance * 8.0 < kWideCell && wider * std::max(1.0, grid_.tilt) < kLargestTiltInCell) {
        stride *= 2;
      }
    }
    // Adds one more node, because tangents lie between nodes, and the lower bound may lose the mass
    // beyond the outermost node.
    if (direction_ < 0 || here.p_above == 0.0) {
      const std::int64_t next = at + direction_;
      nodes.index.push_back(next);
      nodes.tails.push_back(pair_.at(loss_at(grid_, static_cast<double>(next))));
    }
  }

 private:
  static double square(std::int64_t x) { return static_cast<double>(x) * static_cast<double>(x); }

  double tilted(double mass, std::int64_t at) const {
    if (mass == 0.0) return 0.0;
    return mass * std::exp(std::min(700.0, grid_.tilt * loss_at(grid_, static_cast<double>(at)) -
                                               grid_.log_weight));
  }

  double weight(std::int64_t at, std::int64_t next, const Tails& here, const Tails& there) const {
    const Cell cell = direction_ > 0 ? cell_between(here, there) : cell_between(there, here);
    return tilted(cell.p, std::max(at, next));
  }

  bool finished(std::int64_t at, const Tails& here) const {
    const double g = loss_at(grid_, static_cast<double>(at));
    if (direction_ > 0) {
      // Mass where Q has no mass is at infinity, and no further node gets closer to it.
      return here.p_above == 0.0 || here.q_above == 0.0 ||
             excess_above(Loss(g), here).value <= grid_.top_cut || g > kLargestLoss;
    }
    return here.p_below == 0.0 || tilted(here.p_below, at) <= grid_.bottom_cut || g < -kLargestLoss;
  }

  const LossPair& pair_;
  const Grid& grid_;
  int direction_;
};

Nodes nodes_of(const LossPair& pair, const Grid& grid) {
  Nodes nodes;
  const Tails zero = pair.at(grid.offset);
  Walk(pair, grid, -1).run(zero, nodes);
  std::ranges::reverse(nodes.index);
  std::ranges::reverse(nodes.tails);
  nodes.index.push_back(0);
  nodes.tails.push_back(zero);
  Walk(pair, grid, +1).run(zero, nodes);
  // All of the mass may be on one side of index 0. At each end, only one empty cell is kept.
  std::size_t first = 0;
  std::size_t last = nodes.index.size() - 1;
  while (first + 3 < last && nodes.tails[first + 2].p_below == 0.0) ++first;
  while (first + 3 < last && nodes.tails[last - 2].p_above == 0.0) --last;
  const auto keep = [&](auto& all) {
    all = {all.begin() + static_cast<std::ptrdiff_t>(first),
           all.begin() + static_cast<std::ptrdiff_t>(last + 1)};
  };
  keep(nodes.index);
  keep(nodes.tails);
  nodes.measure(grid);
  return nodes;
}

/// Ensures that the curve through the nodes is nowhere below H. As the curve is convex and
/// piecewise linear, this must hold at each node x_i. The curve's height at x_i comes from the
/// cells above. If mass m moves from this node up to the next, the height rises by
/// m (1 - x_i / x_(i+1)) at this node, and below it in proportion to x. Errors that can lower
/// the curve:
/// - errors of the cells' numbers, which are compensated in the cell itself;
/// - the node's threshold error t, which may misplace losses within t of the node. This costs at
///   most t times their mass, at the node or below it (a loss may be above its cell's upper node).
///   Enough mass is moved up from the node to raise the curve by twice this cost.
Lattice connect_the_dots(const Nodes& nodes) {
  const std::size_t count = nodes.index.size();
  Lattice result;
  result.index = nodes.index;
  result.mass.assign(count, 0.0);
  result.at_infinity = kTiny * static_cast<double>(count);

  // Everything below the first node moves up to it.
  const Tails& first = nodes.tails.front();
  result.mass[0] = first.p_below * (1.0 + 2.0 * first.relative_error);
  double near = result.mass[0];  // bound on the mass just below the node
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const Cell cell = cell_between(nodes.tails[i], nodes.tails[i + 1]);
    const double share = nodes.down[i];
    const double threshold_error = nodes.tails[i].threshold_error;
    if (!(4.0 * threshold_error < share)) {
      throw NumericError("pld: losses cannot be told apart as finely as needed");
    }
    const Excess excess = excess_over(nodes.loss[i], cell);
    const double total = cell.p + cell.p_error;
    const double up =
        std::clamp((excess.value + excess.error) / share + 8.0 * kUlp * total, 0.0, total);
    const double misplaced = 2.0 * threshold_error * (near + total) / share;
    result.mass[i] = std::max(0.0, result.mass[i] + (total - up) - misplaced);
    result.mass[i + 1] += up + misplaced;
    near = std::min(total, up + misplaced);
  }
  const Tails& last = nodes.tails.back();
  const Excess beyond = excess_above(nodes.loss[count - 1], last);
  const double total = last.p_above * (1.0 + 2.0 * last.relative_error);
  const double above = std::clamp(beyond.value + beyond.error, 0.0, total);
  result.mass[count - 1] += total - above;
  result.at_infinity += above + 2.0 * last.threshold_error * (near + total);
  return result;
}

/// The polygon below the tangents T_i of discretise(). In the following, a[i] and b[i] are the
/// polygon's distances below T_i and T_(i-1) at node i, and masses come from the change of its
/// slope there.
class Tangents {
 public:
  Tangents(const Nodes& nodes, const LossPair& pair, const Grid& grid)
      : nodes_(nodes), index_(nodes.index), grid_(grid), count_(nodes.index.size()) {
    middles_.reserve(count_ - 1);
    for (std::size_t i = 0; i + 1 < count_; ++i) {
      const double sum = static_cast<double>(index_[i] + index_[i + 1]);
      middles_.push_back(pair.at(loss_at(grid, 0.5 * sum)));
    }
    choose_ends(pair);
    lower_each_node();
  }

  /// Negative masses, where the polygon is not convex or not known to be, are split between the
  /// adjacent nodes such that the totals of P and Q stay the same: this removes a corner above the
  /// chord of its neighbours, and finally leaves the convex hull (Graham's scan). With rounding
  /// that favours the upper node, the curve can only decrease.
  Lattice masses() const {
    Lattice result;
    for (std::size_t i = 1; i + 1 < count_; ++i) {
      double mass = mass_at(i) - slack_at(i);
      while (!result.mass.empty() && result.mass.back() <= 0.0) {
        const double removed = -result.mass.back() * (1.0 + 4.0 * kUlp);
        const std::int64_t at = result.index.back();
        result.mass.pop_back();
        result.index.pop_back();
        if (result.mass.empty()) {
          mass -= removed;
          break;
        }
        const std::int64_t below = result.index.back();
        const double share = std::expm1(static_cast<double>(below - at) * grid_.step) /
                             std::expm1(static_cast<double>(below - index_[i]) * grid_.step);
        const double up = std::min(1.0, share * (1.0 + 8.0 * kUlp));
        mass -= removed * up;
        result.mass.back() -= removed * (1.0 - up);
      }
      result.index.push_back(index_[i]);
      result.mass.push_back(mass);
    }
    if (!result.mass.empty() && result.mass.back() <= 0.0) {
      result.at_infinity = result.mass.back();
      result.mass.pop_back();
      result.index.pop_back();
    }
    return result;
  }

 private:
  const Loss& loss(std::size_t i) const { return nodes_.loss[i]; }
  double next_gap(std::size_t i) const { return nodes_.up[i]; }
  double last_gap(std::size_t i) const { return nodes_.down[i - 1]; }

  /// Chooses both ends. The polygon ends in the line 0. Masses are summed from there, so they are
  /// complete. The last mass is at the last node up to which all tangents stay above 0. Beyond that
  /// node, no higher mass could balance a mass whose mean is below its node. The same applies to
  /// the lower end of a bounded loss, where the polygon starts with the line 1 - x. At both ends
  /// the tangent may be moved to the node itself, because bounded losses often have an atom there.
  void choose_ends(const LossPair& pair) {
    const Tails all = middles_.front();
    std::size_t start = 1;
    for (std::size_t j = count_ - 1; all.p_below == 0.0 && j-- > 1;) {
      if (certainly_below_line(middles_[j], loss(j))) continue;
      const Tails node = pair.at(loss(j).g);
      const bool has_mass = node.p_below > 0.0 && certainly_below_line(node, loss(j));
      if (has_mass) middles_[j] = node;
      start = has_mass ? j : j + 1;
      break;
    }
    for (std::size_t i = 0; i < start && i + 1 < count_; ++i) middles_[i] = all;
    top_ = count_ - 2;
    for (std::size_t j = 1; j <= top_; ++j) {
      if (certainly_above_zero(middles_[j - 1], loss(j))) continue;
      const Tails node = pair.at(loss(j).g);
      const bool has_mass = certainly_above_zero(node, loss(j));
      if (has_mass) middles_[j - 1] = node;
      top_ = has_mass ? j : j - 1;
      break;
    }
    for (std::size_t i = top_; i + 1 < count_; ++i) middles_[i] = Tails{};
  }

  /// Whether certainly P(A) - x Q(A) <= 0, for the event A that the loss is at most the threshold
  /// of t, and x = e^loss: then the tangent at that threshold is not below 1 - x.
  static bool certainly_below_line(const Tails& t, const Loss& loss) {
    const Excess value = excess_below(loss, t);
    return value.value <= -value.error;
  }

  static bool certainly_above_zero(const Tails& t, const Loss& loss) {
    const Excess value = excess_above(loss, t);
    return value.value >= value.error;
  }

  void lower_each_node() {
    cells_.resize(count_);
    excess_.assign(count_, {0.0, 0.0});
    a_.assign(count_, 0.0);
    b_.assign(count_, 0.0);
    for (std::size_t i = 1; i + 1 < count_; ++i) {
      cells_[i] = cell_between(middles_[i - 1], middles_[i]);
      excess_[i] = excess_over(loss(i), cells_[i]);  // T_(i-1) - T_i at node i
      // The error is assigned only to a: then b is at most its error-free value, and slopes summed
      // up from the right stay below. This may shift mass by one cell, but loses none.
      a_[i] = std::max(-excess_[i].value, 0.0) + excess_[i].error;
      b_[i] = std::max(excess_[i].value, 0.0);
    }
    for (std::size_t i = top_; i + 1 < count_; ++i) {  // from here on, the polygon is 0
      a_[i] = 0.0;
      b_[i] = std::max(excess_[i].value - excess_[i].error, 0.0);
    }
    // The first line keeps the slope of its tangent, so that it stays below the tangent, and thus
    // below H, also outside the grid, where the remaining mass is dropped.
    a_[0] = b_[1];
  }

  double mass_at(std::size_t i) const {
    return cells_[i].p - excess_[i].value + (a_[i] - b_[i + 1]) / next_gap(i) +
           (b_[i] - a_[i - 1]) / last_gap(i);
  }

  double slack_at(std::size_t i) const {
    const double moved = (a_[i] + b_[i + 1]) / next_gap(i) + (b_[i] + a_[i - 1]) / last_gap(i);
    return cells_[i].p_error + excess_[i].error + 8.0 * kUlp * (cells_[i].p + moved) + kTiny;
  }

  const Nodes& nodes_;
  const std::vector<std::int64_t>& index_;
  const Grid& grid_;
  std::size_t count_;
  std::size_t top_ = 0;  // the node of the last mass
  std::vector<Tails> middles_;
  std::vector<Cell> cells_;
  std::vector<Excess> excess_;
  std::vector<double> a_, b_;
};

}  // namespace

Bracket discretise(const LossPair& above, const LossPair& below, const Grid& grid) {
  const Nodes nodes = nodes_of(above, grid);
  return {connect_the_dots(nodes), Tangents(nodes, below, grid).masses()};
}

}  // namespace pld
