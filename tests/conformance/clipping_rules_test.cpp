// Clipping rules with one defect each, and the rule of the conformance suite that notices it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "broken.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/optimizer.hpp"
#include "right_clipping.hpp"

namespace clipping_rules_test {

using namespace privgrad;

namespace {

using Right = RightClipping;

struct OneLayerOnly final : Right {
  using Right::Right;
  void start(std::span<const ParameterGroup> groups) override {
    if (groups.size() != 1) throw ConfigError("one layer only");
  }
};
struct NoNetwork final : Right {
  using Right::Right;
  void start(std::span<const ParameterGroup>) override { throw ConfigError("never"); }
};
struct WrongError final : Right {
  using Right::Right;
  void start(std::span<const ParameterGroup>) override { throw NumericError("odd"); }
};
struct WritesBeside final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, {factors.data(), factors.size() + 1});
  }
};
struct Shared final : Right {
  using Right::Right;
  void start(std::span<const ParameterGroup> groups) override {
    layers_ = static_cast<double>(groups.size());
  }
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm / layers_, factors);
  }
  inline static double layers_ = 1.0;
};

struct RightRuled : Right, HasClipRule {
  using Right::Right;
  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::shorten, .gamma = 0.0, .bounds = {clip_norm}};
  }
};
struct RuleOfAnotherBound final : RightRuled {
  using RightRuled::RightRuled;
  ClipRule clip_rule(double clip_norm) const override {
    return RightRuled::clip_rule(std::nextafter(clip_norm, 0.0));
  }
};
/// Differs from its rule for one norm only.
struct LeavesTheNextNorm final : RightRuled {
  using RightRuled::RightRuled;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    if (norm(squared_norms) == std::nextafter(clip_norm, 1e300)) std::ranges::fill(factors, 1.0);
  }
};
/// Differs from its rule where a squared norm is subnormal.
struct NormalizesNormals : RightRuled {
  using RightRuled::RightRuled;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double length = norm(squared_norms);
    std::ranges::fill(factors, length > 1e-154 ? clip_norm / length : length > 0.0 ? 1.0 : 0.0);
  }
  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::normalize, .gamma = 0.0, .bounds = {clip_norm}};
  }
};
/// Differs from its rule where all norms are zero.
struct KeepsZeros final : NormalizesNormals {
  using NormalizesNormals::NormalizesNormals;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double length = norm(squared_norms);
    std::ranges::fill(factors, length > 0.0 ? clip_norm / length : 1.0);
  }
};
/// Differs from its rule for norms beyond the range of float32.
struct CutsHugeNorms final : RightRuled {
  using RightRuled::RightRuled;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    if (norm(squared_norms) > 1e100) std::ranges::fill(factors, 0.0);
  }
};
struct RuleOfTwoBounds final : RightRuled {
  using RightRuled::RightRuled;
  ClipRule clip_rule(double clip_norm) const override {
    ClipRule rule = RightRuled::clip_rule(clip_norm);
    if (clip_norm == 1.0) rule.bounds.push_back(clip_norm);
    return rule;
  }
};
struct RuleOfNegativeGamma final : RightRuled {
  using RightRuled::RightRuled;
  ClipRule clip_rule(double clip_norm) const override {
    ClipRule rule = RightRuled::clip_rule(clip_norm);
    rule.gamma = -1.0;
    return rule;
  }
};

class RightAdaptive : public Right, public AdaptiveClipNorm {
 public:
  using Right::Right;
  double count_noise(double, double noise_multiplier) const override { return noise_multiplier; }
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return clip_norm * std::exp(-0.2 * (unclipped - 0.5));
  }
};
struct CountForNothing final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double count_noise(double, double noise_multiplier) const override {
    return noise_multiplier / 2.0;
  }
};
struct Linear final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return clip_norm * (1.0 - 0.2 * (unclipped - 0.5));
  }
};
struct Upwards final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return clip_norm * std::exp(0.2 * (unclipped - 0.5));
  }
};
struct WithMomentum final : RightAdaptive {
  using RightAdaptive::RightAdaptive;
  double next_clip_norm(double clip_norm, double unclipped) const override {
    velocity_ = 0.9 * velocity_ + 0.1;
    return RightAdaptive::next_clip_norm(clip_norm, unclipped) * (2.0 - velocity_);
  }
  mutable double velocity_ = 0.0;
};

/// Divides each coordinate by one plus the root mean square of its releases.
class RightScaling : public Right, public CoordinateScaling {
 public:
  using Right::Right;
  void start(std::span<const ParameterGroup> groups) override {
    squares_.assign(groups.back().offset + groups.back().size, 1.0f);
    shift_.assign(squares_.size(), 0.0f);
    find_scale();
  }
  std::span<const float> shift() const override { return shift_; }
  std::span<const float> scale() const override { return scale_; }
  void learn(const Released& release) override {
    for (std::size_t i = 0; i < squares_.size(); ++i) {
      const float value = release.values()[i];
      if (std::abs(value) < 1e15f) squares_[i] = 0.5f * squares_[i] + 0.5f * value * value + 1e-3f;
    }
    find_scale();
  }
  std::vector<StateMember> state() override { return {{"squares", &squares_}}; }
  void restored() override { find_scale(); }

 protected:
  virtual void find_scale() {
    scale_.clear();
    for (const float square : squares_) scale_.push_back(std::sqrt(square));
  }
  std::vector<float> shift_, squares_, scale_;
};
/// Factors in units of the learnt scale.
struct LearntFactors final : RightScaling {
  using RightScaling::RightScaling;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    for (double& factor : factors) factor /= std::max(1.0, 1.0 + static_cast<double>(scale_[0]));
  }
};
struct ScalesToZero final : RightScaling {
  using RightScaling::RightScaling;
  void find_scale() override {
    RightScaling::find_scale();
    if (scale_.back() != 1.0f) scale_.back() = 0.0f;
  }
};
struct ShiftsByNan final : RightScaling {
  using RightScaling::RightScaling;
  void learn(const Released& release) override {
    RightScaling::learn(release);
    shift_.front() = release.values().front();
  }
};
struct ScalesTooFew final : RightScaling {
  using RightScaling::RightScaling;
  std::span<const float> scale() const override { return std::span(scale_).first(3); }
};
struct ScalesByNorms final : RightScaling {
  using RightScaling::RightScaling;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    largest_ = std::max(largest_, squared_norms.front());
  }
  void learn(const Released& release) override {
    RightScaling::learn(release);
    scale_.front() += static_cast<float>(std::min(1.0, largest_));
  }
  mutable double largest_ = 0.0;
};
struct ScalesByNormsAtOnce final : RightScaling {
  using RightScaling::RightScaling;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    shown_ = scale_;
    shown_.front() = static_cast<float>(1.0 + std::min(1.0, squared_norms.front()));
  }
  std::span<const float> scale() const override { return shown_.empty() ? scale_ : shown_; }
  mutable std::vector<float> shown_;
};
struct NeverForgets final : RightScaling {
  using RightScaling::RightScaling;
  void start(std::span<const ParameterGroup> groups) override {
    const std::vector<float> before = squares_;
    RightScaling::start(groups);
    if (before.size() == squares_.size()) squares_ = before;
    find_scale();
  }
};
struct RestoresHalf final : RightScaling {
  using RightScaling::RightScaling;
  void restored() override {}  // does not restore the scale
};

template <class Impl>
Findings findings() {
  return findings_on<Clipping, Impl>();
}

}  // namespace

TEST_CASE("each rule of clippings can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"accepts_a_network", "1, 2, 3 and 7 layers", findings<NoNetwork>()},
       {"accepts_a_network", "NumericError", findings<WrongError>()},
       {"fills_every_factor", "left a factor", findings_on("clipping/writes_the_first")},
       {"fills_every_factor", "wrote outside", findings<WritesBeside>()},
       {"factors_are_finite_and_not_negative", "a factor is inf",
        findings_on("clipping/divides_by_zero")},
       {"factors_are_finite_and_not_negative", "a factor is -1", findings_on("clipping/negative")},
       {"contributions_keep_the_clip_norm", "would have to cut it", findings_on("clipping/none")},
       {"contributions_keep_the_clip_norm", "would have to cut it",
        findings_on("clipping/the_whole_norm_per_layer")},
       {"an_example_does_not_change_another", "in another order",
        findings_on("clipping/clips_by_the_largest")},
       {"factors_are_the_same_on_every_thread", "differ", findings_on("clipping/thread_decides")},
       {"instances_are_independent", "changed the factors", findings<Shared>()}});
}

TEST_CASE("each rule of adaptive clip norms can fail") {
  const Findings right = findings<RightAdaptive>();
  CHECK(findings_text(right, privgrad::testing::Verdict::failed) == "");
  // The rules of every clipping have been tested above.
  std::vector<Broken> broken{
      {"count_noise_leaves_some_for_the_gradients", "above half", findings<CountForNothing>()},
      {"clip_norms_stay_finite_and_above_0", "6) is -", findings<Linear>()},
      {"more_unclipped_examples_never_raise_the_clip_norm", "larger clip norm than fewer",
       findings<Upwards>()},
      {"clip_norms_are_repeatable", "asked again", findings<WithMomentum>()}};
  Findings own;
  const Findings plain = findings<Right>();
  for (const auto& finding : right) {
    if (find_rule(plain, finding.rule) == nullptr) own.push_back(finding);
  }
  CHECK(own.size() == 4);
  check_rules_can_fail(own, broken);
}

TEST_CASE("the rule of clippings whose factors a device computes can fail") {
  const Findings right = findings<RightRuled>();
  const std::string rule = "clip_rule_gives_the_factors", others = "gives other factors than";
  CHECK(findings_text(right, privgrad::testing::Verdict::failed) == "");
  std::vector<Broken> broken{{rule, others, findings<RuleOfAnotherBound>()},
                             {rule, others, findings<LeavesTheNextNorm>()},
                             {rule, others, findings<NormalizesNormals>()},
                             {rule, others, findings<KeepsZeros>()},
                             {rule, others, findings<CutsHugeNorms>()},
                             {rule, "2 bounds; expected are 1", findings<RuleOfTwoBounds>()},
                             {rule, "is negative or not finite", findings<RuleOfNegativeGamma>()}};
  Findings own;
  const Findings plain = findings<Right>();
  for (const auto& finding : right) {
    if (find_rule(plain, finding.rule) == nullptr) own.push_back(finding);
  }
  CHECK(own.size() == 1);
  check_rules_can_fail(own, broken);
}

TEST_CASE("each rule of clippings that scale coordinates can fail") {
  const Findings right = findings<RightScaling>();
  CHECK(findings_text(right, privgrad::testing::Verdict::failed) == "");
  std::vector<Broken> broken{
      {"scaling_stays_finite_and_above_0", "a scale is 0", findings<ScalesToZero>()},
      {"scaling_stays_finite_and_above_0", "a shift is inf", findings<ShiftsByNan>()},
      {"scaling_stays_finite_and_above_0", "and 3 numbers", findings<ScalesTooFew>()},
      {"scaling_follows_from_releases_alone", "other examples", findings<ScalesByNorms>()},
      {"scaling_follows_from_releases_alone", "norms moved", findings<ScalesByNormsAtOnce>()},
      {"factors_do_not_follow_from_releases", "after learn()", findings<LearntFactors>()},
      {"scaling_starts_anew", "still knows", findings<NeverForgets>()},
      {"scaling_resumes_as_if_uninterrupted", "restored after 1", findings<RestoresHalf>()}};
  Findings own;
  const Findings plain = findings<Right>();
  for (const auto& finding : right) {
    if (find_rule(plain, finding.rule) == nullptr) own.push_back(finding);
  }
  CHECK(own.size() == 5);
  check_rules_can_fail(own, broken);
}

TEST_CASE("a clipping for some networks only conforms") {
  CHECK(findings_text(findings<OneLayerOnly>(), privgrad::testing::Verdict::failed) == "");
}

}  // namespace clipping_rules_test
