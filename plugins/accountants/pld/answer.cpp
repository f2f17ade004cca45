#include "answer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "convolution.hpp"

namespace pld {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The most work, in distinct steps times points of the grid. More work would take over a
// minute.
constexpr double kMostWork = 0x1p33;
constexpr int kMostPasses = 7;

constexpr double kTiny = 1e-100;
constexpr double kNothing = 1e-300;
constexpr double kPointsForTiny = 0x1p16;

// Smaller grids cost almost nothing, so they are refined even if the last refinement did not help.
constexpr std::size_t kLargeSize = std::size_t{1} << 17;
// The same limit for pairs that are known only from two sides, for which refining soon stops
// helping.
constexpr std::size_t kLargeSizeOfSides = std::size_t{1} << 12;

// The most points of a window if few frequencies matter: the window is not stored, but its indices
// have a limit.
constexpr double kMostFrequencies = 0x1p24;
// The most values to compute for each distinct step if few frequencies matter.
constexpr double kMostValues = 0x1p19;

// With few frequencies and at most kFewSteps distinct steps, the interval is narrowed further, by
// the factor kNarrower.
constexpr std::size_t kFewSteps = 4;
constexpr double kNarrower = 0.05;

// The delta that may be lost by treating large losses as infinite, divided by delta and by the
// requested relative width of the interval.
constexpr double kCutShare = 1e-3;
constexpr double kNoCut = -1000.0;

// The first pass accepts an interval this many times wider than requested. Its result also shows
// which directions cannot affect the answer.
constexpr double kFirstWidth = 64.0;

/// Returns the interval of a single release, from its hockey-stick divergence.
Interval one_release(const Step& step, const Question& question) {
  const auto upper_delta = [&](double epsilon) {
    const Divergence d = step.above->divergence(epsilon);
    return std::min(1.0, d.value + d.error + std::numeric_limits<double>::min());
  };
  const auto lower_delta = [&](double epsilon) {
    const Divergence d = step.below->divergence(epsilon);
    return std::max(0.0, d.value - d.error);
  };
  if (!question.wants_epsilon) {
    return {lower_delta(question.given), upper_delta(question.given), {}};
  }
  // Finds, by bisection on the decreasing curve, the largest epsilon that is known to be too small
  // and the smallest that is known to suffice.
  const auto last_above = [&](const auto& curve, bool from_below) {
    if (curve(0.0) <= question.given) return 0.0;
    double fails = 0.0;
    double does = 1.0;
    while (curve(does) > question.given) {
      fails = does;
      does *= 2.0;
      if (does > 1e15) return from_below ? fails : kInfinity;
    }
    for (int i = 0; i < 200 && does - fails > kUlp * does; ++i) {
      const double middle = 0.5 * (fails + does);
      (curve(middle) > question.given ? fails : does) = middle;
    }
    return from_below ? fails : does;
  };
  return {last_above(lower_delta, true), last_above(upper_delta, false), {}};
}

/// Returns the interval that the largest loss L of a composition, with mass m, proves without any
/// grid: delta = E (1 - e^(epsilon - loss))_+ is at least m (1 - e^(epsilon - L)) and at most
/// 1 - e^(epsilon - L).
Interval from_supremum(const std::vector<Step>& steps, const Question& question) {
  double loss = 0.0;
  double log_mass = 0.0;
  for (const Step& step : steps) {
    const Extreme one = step.above->supremum();
    loss += static_cast<double>(step.count) * one.loss;
    log_mass += static_cast<double>(step.count) * std::log(one.mass);
  }
  if (std::isinf(loss)) return {0.0, kInfinity, {}};
  const double rounding = 0x1p-49 * (2.0 + static_cast<double>(steps.size()));
  const double most = loss * (1.0 + rounding);
  const double least = loss * (1.0 - rounding);
  const double mass = std::exp(log_mass * (1.0 + rounding)) * (1.0 - rounding);
  if (question.wants_epsilon) {
    const double without = mass > question.given ? std::log1p(-question.given / mass) : -kInfinity;
    return {std::max(0.0, least + without * (1.0 + rounding)), most, {}};
  }
  if (question.given >= most) return {0.0, 0.0, {}};
  const double above = -std::expm1(std::min(0.0, question.given - least));
  const double most_above = -std::expm1(question.given - most) * (1.0 + rounding);
  return {mass * above * (1.0 - rounding), most_above, {}};
}

/// One direction of comparison, with its best bounds so far.
class Direction {
 public:
  Direction(const std::vector<Step>& steps, const Question& question, double relative_width)
      : steps_(steps), question_(question), relative_width_(relative_width) {
    for (const Step& step : steps) {
      if (unit_ == 0.0) unit_ = step.above->atom_unit();
      has_two_sides_ = has_two_sides_ || step.above->is_one_of_two_sides();
    }
    double log_delta = std::log(question.given);
    if (!question.wants_epsilon) {
      log_delta = Scout(steps, kNoCut).plan(question).log_delta;
    }
    look(log_delta, {});
    const Interval known = from_supremum(steps, question);
    lower_ = known.lower;
    upper_ = known.upper;
    closed_ = known.upper < 1e-12;  // the answer is between 0 and 1e-12
  }

  double lower() const { return lower_; }
  double upper() const { return upper_; }

  /// Returns the number to which relative widths refer. For epsilon it has a lower limit, because
  /// an epsilon near 0 does not need more digits than the loss itself.
  double scale() const {
    return question_.wants_epsilon ? std::max(upper_, 0.01 * plan_.deviation) : upper_;
  }

  /// Whether the interval is at most `width` * scale() wide.
  bool within(double width) const {
    if (!question_.wants_epsilon && (upper_ <= kNothing || closed_)) return true;
    const double wanted = is_tiny() ? std::max(0.5, width) : width;
    return std::isfinite(upper_) && upper_ - lower_ <= wanted * scale();
  }

  /// \param width  the desired width of the interval, relative to scale().
  /// \returns false if the grid would be too large or no finer than before, or if the last
  ///   refinement did not help because the remaining width has other causes (atoms, rounding,
  ///   losses beyond the window).
  bool refine(double width, double most_points) {
    if (stuck_) return false;
    const double h = next_step(width);
    double limit = std::min(most_points, kMostWork / static_cast<double>(steps_.size()));
    if (is_tiny()) limit = std::min(limit, kPointsForTiny);
    if (is_spectral_) {
      const Layout layout = layout_for(h, has_two_sides_ || is_tiny() ? limit : kMostFrequencies);
      if (layout.step > 0.8 * step_) return false;
      if (run(layout)) return true;
      is_spectral_ = false;
    }
    const Layout layout = layout_for(h, limit);
    if (step_ > 0.0 && layout.step > 0.8 * step_) return false;
    run(layout);
    return true;
  }

  /// Returns the width to request: with few relevant frequencies, a narrower interval costs little.
  double worthwhile(double width) const {
    const bool pays = is_spectral_ && !has_two_sides_ && steps_.size() <= kFewSteps;
    return pays ? kNarrower * width : width;
  }

 private:
  /// Whether delta is so small that only its order of magnitude matters.
  bool is_tiny() const {
    return !question_.wants_epsilon && (upper_ < kTiny || plan_.log_delta < std::log(kTiny));
  }

  /// Returns the grid's step for a width: at first by the plan, later by the width of the last
  /// interval.
  double next_step(double width) const {
    if (step_ == 0.0) {
      const double epsilon = std::max(plan_.epsilon, 0.01 * plan_.deviation);
      return scout_->grid_step(plan_, question_, question_.wants_epsilon ? width * epsilon : width);
    }
    const double found = width_of_last_ / std::max(scale(), std::numeric_limits<double>::min());
    if (!std::isfinite(found)) return 0.25 * step_;
    // The error is of second order in the step, except for the share of wide cells, which is larger
    // on a finer grid.
    const double factor =
        is_spectral_ ? std::pow(0.85 * width / found, 1.0 / 1.8) : std::sqrt(0.7 * width / found);
    return step_ * std::clamp(factor, 0.02, 0.7);
  }

  Layout layout_for(double h, double limit) const {
    const double window = plan_.high - plan_.low;
    Layout layout;
    layout.tilt = plan_.tilt;
    layout.high_order = plan_.high_order;
    layout.far_order = plan_.far_order;
    layout.low_order = plan_.low_order;
    layout.cut = std::exp(std::max(log_cut_, -705.0));
    layout.without_transforms = is_spectral_;
    layout.size = size_for(window / h + 2.0, limit);
    double step = window / (static_cast<double>(layout.size) - 2.0);
    if (unit_ > 0.0) {
      // Atoms at grid points need no rounding, which justifies a few more points.
      const double parts = step < unit_ ? std::ceil(unit_ / step) : step < 16.0 * unit_ ? 1.0 : 0.0;
      const double snapped = parts > 0.0 ? unit_ / parts : 0.0;
      if (parts > 0.0 && window / snapped + 2.0 <= 2.0 * limit) {
        step = snapped;
        layout.size = size_for(window / step + 2.0, 2.0 * limit);
      }
    }
    layout.step = few_bits(step);
    layout.low = plan_.low;
    if (is_spectral_) {
      layout.work_for_point =
          std::min(layout.work_for_point, kMostValues / static_cast<double>(layout.size));
    }
    return layout;
  }

  /// Returns the size of the window: transforms are fast only for some sizes; without transforms,
  /// every even size is possible.
  std::size_t size_for(double least, double limit) const {
    const double size = std::min(least, limit);
    return is_spectral_
               ? std::max<std::size_t>(1024, 2 * static_cast<std::size_t>(0.5 * size + 1.0))
               : fast_size(size);
  }

  /// Returns the step rounded down to 30 significant bits. Atoms are then at nodes or just above
  /// nodes, where the lower bound can use them.
  static double few_bits(double step) {
    int exponent = 0;
    const double mantissa = std::frexp(step, &exponent);
    return std::ldexp(std::floor(mantissa * 0x1p30) * 0x1p-30, exponent);
  }

  /// Composes with this layout. \returns false if the composition needs transforms but has none.
  bool run(const Layout& layout) {
    const std::optional<Curve> composed = compose(steps_, *scout_, layout);
    if (!composed) return false;
    const Curve& curve = *composed;
    is_spectral_ = curve.is_spectral();
    double lower = 0.0;
    double upper = 0.0;
    if (question_.wants_epsilon) {
      lower = curve.lower_epsilon(question_.given);
      upper = curve.upper_epsilon(question_.given);
    } else {
      lower = curve.lower_delta(question_.given);
      upper = curve.upper_delta(question_.given);
    }
    const double before = upper_ - lower_;
    const bool is_finer = step_ > 0.0 && layout.step < 0.5 * step_;
    step_ = layout.step;
    width_of_last_ = upper - lower;
    lower_ = std::max(lower_, lower);
    upper_ = std::min(upper_, upper);
    const std::size_t large_size = has_two_sides_ ? kLargeSizeOfSides : kLargeSize;
    stuck_ = is_finer && layout.size >= large_size && std::isfinite(before) &&
             upper_ - lower_ > 0.8 * before;
    // From now on the answer itself guides the search, because it is better than the plan.
    if (!std::isfinite(upper_) || upper_ == 0.0) return true;
    if (question_.wants_epsilon) {
      if (std::fabs(upper_ - plan_.epsilon) > 0.2 * plan_.deviation) {
        look(plan_.log_delta, upper_);
        stuck_ = false;
      }
    } else if (std::log(upper_) < plan_.log_delta - 1.0) {
      look(std::log(upper_), question_.given);
      stuck_ = false;
    }
    return true;
  }

  /// Makes the plan for an answer near log_delta, and near epsilon if it is given.
  void look(double log_delta, std::optional<double> epsilon) {
    log_cut_ = log_delta + std::log(kCutShare * relative_width_);
    scout_.emplace(steps_, log_cut_);
    plan_ = epsilon ? scout_->plan_at(*epsilon, log_delta) : scout_->plan(question_);
  }

  const std::vector<Step>& steps_;
  Question question_;
  double relative_width_;
  double log_cut_ = 0.0;
  std::optional<Scout> scout_;
  Plan plan_;
  double unit_ = 0.0;
  bool has_two_sides_ = false;
  double step_ = 0.0;
  double width_of_last_ = kInfinity;
  bool is_spectral_ = false;
  bool stuck_ = false;
  bool closed_ = false;
  double lower_ = 0.0;
  double upper_ = kInfinity;
};

}  // namespace

Interval answer(const std::vector<std::vector<Step>>& directions, const Question& question,
                double relative_width, double most_points) {
  Interval result;
  std::vector<Direction> open;
  for (const auto& steps : directions) {
    if (steps.size() == 1 && steps.front().count == 1) {
      const Interval one = one_release(steps.front(), question);
      result.lower = std::max(result.lower, one.lower);
      result.upper = std::max(result.upper, one.upper);
    } else {
      open.emplace_back(steps, question, relative_width);
    }
  }
  if (open.empty()) {
    result.note = "closed form";
    return result;
  }
  const double width = question.wants_epsilon ? relative_width : 10.0 * relative_width;
  const double first_width = std::min(kFirstWidth * width, std::max(0.1, width));
  for (int pass = 0; pass < kMostPasses; ++pass) {
    double lower = result.lower;
    for (const Direction& d : open) lower = std::max(lower, d.lower());
    bool refined = false;
    for (Direction& d : open) {
      const double wanted = pass == 0 ? first_width : d.worthwhile(width);
      if (d.upper() <= lower || d.within(wanted)) continue;
      refined = d.refine(wanted, most_points) || refined;
    }
    if (!refined) break;
  }
  for (const Direction& d : open) {
    result.lower = std::max(result.lower, d.lower());
    result.upper = std::max(result.upper, d.upper());
  }
  for (const Direction& d : open) {
    if (d.upper() <= result.lower || d.within(width)) continue;
    result.note =
        "the interval is wider than asked for: the grid may not have more points, or they do not "
        "help";
  }
  if (!question.wants_epsilon) result.upper = std::min(result.upper, 1.0);
  return result;
}

}  // namespace pld
