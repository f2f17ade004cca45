// Schedules with one defect each, and the rule of the conformance suite that notices it.
#include <atomic>
#include <cmath>

#include "broken.hpp"
#include "privgrad/error.hpp"
#include "privgrad/schedule.hpp"

namespace schedule_rules_test {

using namespace privgrad;

namespace {

class Right : public Schedule {
 public:
  explicit Right(const Params&) {}
  void start(const Horizon& horizon) override { steps_ = static_cast<double>(horizon.steps); }
  double value(std::uint64_t step) const override { return steps_ - static_cast<double>(step); }
  bool is_shape() const override { return true; }

 protected:
  double steps_ = 0.0;
};

struct RefusesAll final : Right {
  using Right::Right;
  void start(const Horizon&) override { throw ConfigError("no"); }
};
struct RefusesOddly final : Right {
  using Right::Right;
  void start(const Horizon&) override { throw IoError("no"); }
};
struct EndsInNan final : Right {
  using Right::Right;
  double value(std::uint64_t step) const override {
    return step == 99999 ? std::nan("") : Right::value(step);
  }
};
struct Negative final : Right {
  using Right::Right;
  double value(std::uint64_t step) const override { return step == 99 ? -1e-300 : 1.0; }
  bool is_shape() const override { return false; }
};
struct Shared final : Right {
  using Right::Right;
  void start(const Horizon& horizon) override { all_ = static_cast<double>(horizon.steps); }
  double value(std::uint64_t) const override { return all_; }
  inline static double all_ = 0.0;
};

/// Halves the noise if the last measurement is not below the previous one.
class RightAdaptive : public Right {
 public:
  using Right::Right;
  double value(std::uint64_t) const override { return 1.0; }
  std::optional<Measurement> measurement() const override {
    return Measurement{
        .what = Measured::loss_change, .every = 5, .loss_bound = 1.0, .noise_multiplier = 20.0};
  }
  double next(double current, std::span<const double> measured) const override {
    const bool falls = measured.size() > 1 && measured.back() < measured[measured.size() - 2];
    return falls ? current : current / 2.0;
  }
};

struct BeginsSloped final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double value(std::uint64_t step) const override { return Right::value(step); }
};
struct NeverMeasures final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  std::optional<Measurement> measurement() const override {
    return Measurement{.what = Measured::validation_loss, .every = 0};
  }
};
struct ChecksWithoutNoise final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  std::optional<Measurement> measurement() const override {
    return Measurement{
        .what = Measured::loss_change, .every = 5, .loss_bound = 1.0, .noise_multiplier = 0.0};
  }
};
struct ChangesItsMind final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  std::optional<Measurement> measurement() const override {
    return Measurement{.what = Measured::loss_change,
                       .every = 5,
                       .loss_bound = 1.0,
                       .noise_multiplier = static_cast<double>(++calls_)};
  }
  mutable std::atomic<int> calls_{0};
};
struct FollowsWithoutLimit final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double next(double current, std::span<const double> measured) const override {
    return current - measured.back();
  }
};
struct HasMemory final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double next(double current, std::span<const double>) const override { return current + ++calls_; }
  mutable std::atomic<int> calls_{0};
};

template <class Impl>
Findings findings() {
  return findings_on<Schedule, Impl>();
}

template <class Impl>
Findings adaptive_findings() {
  return findings_on<Schedule, Impl>({.name = "fixture",
                                      .summary = "A schedule that adapts the noise.",
                                      .reference = "none: a definition",
                                      .params = {},
                                      .traits = {"adaptive_noise"}});
}

}  // namespace

TEST_CASE("each rule of schedules can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"accepts_a_horizon", "refuses every horizon", findings<RefusesAll>()},
       {"accepts_a_horizon", "threw IoError", findings<RefusesOddly>()},
       {"values_are_finite_and_not_negative", "is nan at step 99999", findings<EndsInNan>()},
       {"values_are_finite_and_not_negative", "must not be negative", findings<Negative>()},
       {"values_are_finite_and_not_negative", "a shape must be positive",
        findings_on("schedule/shape_with_zero")},
       {"values_are_repeatable", "in another order", findings_on("schedule/counts_calls")},
       {"values_are_the_same_on_every_thread", "differ", findings_on("schedule/thread_decides")},
       {"instances_are_independent", "changed the values", findings<Shared>()}});
}

TEST_CASE("each rule of adaptive schedules can fail") {
  Findings own;
  for (const auto& finding : adaptive_findings<RightAdaptive>()) {
    CHECK(finding.verdict == privgrad::testing::Verdict::passed);
    if (finding.rule.starts_with("adapt") || finding.rule.starts_with("measurement"))
      own.push_back(finding);
  }
  CHECK(own.size() == 4);
  check_rules_can_fail(
      own,
      {{"adaptive_noise_begins_flat", "is not that of step 0", adaptive_findings<BeginsSloped>()},
       {"measurement_can_be_made", "every 0 steps", adaptive_findings<NeverMeasures>()},
       {"measurement_can_be_made", "must be finite and above 0",
        adaptive_findings<ChecksWithoutNoise>()},
       {"measurement_can_be_made", "does not declare the trait", findings<RightAdaptive>()},
       {"measurement_can_be_made", "changed its answer", adaptive_findings<ChangesItsMind>()},
       {"adapted_noise_is_finite_and_above_0", "gave", adaptive_findings<FollowsWithoutLimit>()},
       {"adapted_noise_follows_from_its_arguments", "asked again",
        adaptive_findings<HasMemory>()}});
}

}  // namespace schedule_rules_test
