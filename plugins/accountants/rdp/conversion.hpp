// Converts Renyi divergences to epsilon and delta, and searches for the best order.
#pragma once

#include <functional>
#include <vector>

namespace rdp {

/// Converts Renyi divergences to (epsilon, delta). Every order proves a bound; the bounds are
/// rounded up.
///
/// With K = (a - 1) D_a the log moment:
/// - improved: epsilon = D_a + ln(1 - 1/a) + (ln(1/delta) - ln a) / (a - 1)
///   (Canonne, Kamath and Steinke 2020, Proposition 12; Balle et al. 2020, Theorem 21);
/// - classic: epsilon = D_a + ln(1/delta) / (a - 1) (Mironov 2017, Proposition 3).
enum class Conversion { improved = 1, classic };

/// Returns the epsilon that one order proves; negative if the order proves more than epsilon = 0.
/// \param log_moment  K >= 0.
/// \param delta  in (0, 1).
double epsilon_at(Conversion conversion, double order, double log_moment, double delta);

/// Returns ln of the delta that one order proves; above 0 if the order proves nothing.
/// \param epsilon  finite, >= 0.
double log_delta_at(Conversion conversion, double order, double log_moment, double epsilon);

/// The orders among which the best one is searched.
struct Orders {
  std::vector<double> list;  ///< Increasing, above 1, not empty.
  bool refine = false;       ///< Whether to search between and beyond these orders, too.
  /// Whether the bound has a single minimum; otherwise every order of the list is tried.
  bool unimodal = true;
};

struct Best {
  double value = 0.0;
  double order = 0.0;
  bool at_low_edge = false;   ///< Whether no smaller order was tried.
  bool at_high_edge = false;  ///< Whether no larger order was tried.
};

/// Returns the smallest value of `bound`.
///
/// There is one minimum: K is convex in a (a cumulant generating function), and so is the numerator
/// of epsilon = N(a) / (a - 1), in either conversion: (a-1) ln(a-1) - a ln a has the second
/// derivative 1/(a-1) - 1/a. Hence epsilon, the perspective of N, is convex in 1 / (a - 1), and
/// ln delta is convex in a. Bisection on the sign of the next difference therefore finds the
/// minimum of a list in O(log n) evaluations.
///
/// Refinement: a further bisection between the neighbours of the list's best order, over the orders
/// 1 + 2^(k/1024). At the nearest of these orders, epsilon is within about 1e-7 of its infimum over
/// the real orders. The orders do not depend on the composed events, so moments computed for one
/// query serve the next. If the best order is an end of the list, the search continues to
/// 1 + 2^(+-20), but upwards only if `unimodal`.
Best least(const Orders& orders, const std::function<double(double order)>& bound);

}  // namespace rdp
