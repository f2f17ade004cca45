#include <cmath>
#include <limits>

#include "inputs.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/optimizer.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::uint64_t kReleases = 6;
constexpr double kNoise = 0.5;

/// A started clipping that scales coordinates.
class Scaled {
 public:
  Scaled(const Checker& checker, const std::vector<ParameterGroup>& groups)
      : checker_(checker), clipping_(checker.make<Clipping>()), groups_(groups) {
    start();
  }

  void start() { clipping_->start(groups_); }
  std::size_t parameters() const { return groups_.back().offset + groups_.back().size; }
  const Clipping& clipping() const { return *clipping_; }

  CoordinateScaling& rule() const {
    auto* rule = dynamic_cast<CoordinateScaling*>(clipping_.get());
    if (rule == nullptr) broken("of its instances some are a CoordinateScaling, some are not");
    return *rule;
  }
  void take_over(const Scaled& from) const { copy_state(*from.clipping_, *clipping_); }

  void learn(std::vector<float> release) const {
    rule().learn(checker_.setup().make_released(std::move(release), kNoise));
  }
  void learn_some(std::uint64_t first, std::uint64_t last) const {
    for (std::uint64_t i = first; i < last; ++i) learn(normal_values(900 + i, parameters(), 2.0));
  }

  /// Returns the shift, followed by the scale.
  std::vector<float> both() const {
    const auto shift = rule().shift(), scale = rule().scale();
    require(shift.size() == parameters() && scale.size() == parameters(),
            "shift() and scale() have " + std::to_string(shift.size()) + " and " +
                std::to_string(scale.size()) + " numbers for " + std::to_string(parameters()) +
                " parameters");
    std::vector<float> both(shift.begin(), shift.end());
    both.insert(both.end(), scale.begin(), scale.end());
    return both;
  }

 private:
  const Checker& checker_;
  ComponentPtr<Clipping> clipping_;
  std::vector<ParameterGroup> groups_;
};

void require_good(const Scaled& scaled, const std::string& when) {
  const std::vector<float> both = scaled.both();
  for (std::size_t i = 0; i < both.size(); ++i) {
    const bool is_scale = i >= scaled.parameters();
    require(std::isfinite(both[i]) && (!is_scale || both[i] > 0.0f),
            std::string(is_scale ? "a scale" : "a shift") + " is " + format_number(both[i]) + " " +
                when);
  }
}

/// Passes the norms of some examples to the clipping, as the core does between releases.
void show_examples(const Scaled& scaled, std::size_t groups, double size) {
  std::vector<double> norms(groups, size), factors(groups);
  for (const double clip_norm : {0.1, 1.0, 50.0})
    scaled.clipping().factors(norms, clip_norm, factors);
}

void check_restoring(Checker& checker, const std::vector<ParameterGroup>& groups) {
  checker.rule("scaling_resumes_as_if_uninterrupted", [&] {
    for (std::uint64_t stop = 0; stop <= 3; ++stop) {
      const Scaled whole(checker, groups), resumed(checker, groups);
      whole.learn_some(0, stop);
      resumed.take_over(whole);
      for (std::uint64_t i = stop; i <= kReleases; ++i) {
        require(same_bits(whole.both(), resumed.both()),
                "restored after " + std::to_string(stop) +
                    " release(s), it scales otherwise after " + std::to_string(i) +
                    " than without the interruption");
        whole.learn_some(i, i + 1);
        resumed.learn_some(i, i + 1);
      }
    }
  });
}

}  // namespace

void check_coordinate_scaling(Checker& checker,
                              const std::vector<std::vector<ParameterGroup>>& layouts) {
  if (!checker.setup().make_released) {
    checker.skip("scaling_stays_finite_and_above_0", "released values cannot be made here");
    return;
  }
  checker.rule("scaling_stays_finite_and_above_0", [&] {
    constexpr float kLarge = 1e38f, kInfinite = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const auto& groups : layouts) {
      const Scaled scaled(checker, groups);
      require_good(scaled, "before the first release");
      scaled.learn_some(0, kReleases);
      require_good(scaled, "after ordinary releases");
      for (const float value : {0.0f, kLarge, -kLarge, 1e-40f, kInfinite, -kInfinite, kNan}) {
        for (int repeat = 0; repeat < 50; ++repeat)
          scaled.learn(std::vector<float>(scaled.parameters(), value));
        require_good(scaled, "after releases of " + format_number(value));
      }
    }
  });
  checker.rule("scaling_follows_from_releases_alone", [&] {
    for (const auto& groups : layouts) {
      const Scaled one(checker, groups), other(checker, groups);
      for (std::uint64_t i = 0; i < kReleases; ++i) {
        require(
            same_bits(one.both(), other.both()),
            "after the same releases, but other examples, it scales otherwise: what it shows is "
            "used without a charge, so it must follow from releases");
        show_examples(one, groups.size(), 1e-6);
        show_examples(other, groups.size(), 1e6);
        show_examples(other, groups.size(), 0.3);
        require(same_bits(one.both(), other.both()), "an example's norms moved the scaling");
        one.learn_some(i, i + 1);
        other.learn_some(i, i + 1);
      }
    }
  });
  checker.rule("factors_do_not_follow_from_releases", [&] {
    const std::size_t groups = layouts.back().size();
    const Scaled scaled(checker, layouts.back());
    const std::vector<double> norms(groups, 2.0);
    const auto factors = [&] {
      std::vector<double> made(groups);
      scaled.clipping().factors(norms, 1.0, made);
      return made;
    };
    const std::vector<double> before = factors();
    scaled.learn_some(0, kReleases);
    require(same_bits(before, factors()),
            "factors() has other bits after learn(); runs ask another instance for factors, which "
            "learns nothing");
  });
  checker.rule("scaling_starts_anew", [&] {
    Scaled scaled(checker, layouts.front());
    const std::vector<float> first = scaled.both();
    scaled.learn_some(0, kReleases);
    scaled.start();
    require(same_bits(first, scaled.both()), "after start() it still knows earlier releases");
  });
  check_restoring(checker, layouts.front());
}

}  // namespace privgrad::testing
