#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "broken.hpp"
#include "privgrad/clipping.hpp"

namespace clipping_rules_test {

using namespace privgrad;

namespace {

double whole_norm(std::span<const double> squared_norms) {
  double sum = 0.0;
  for (const double x : squared_norms) sum += x;
  return std::sqrt(sum);
}

class Right : public Clipping {
 public:
  explicit Right(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(),
              std::min(1.0, clip_norm / std::max(whole_norm(squared_norms), 1e-300)));
  }
};

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
struct Forgetful final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors.first(1));
  }
};
struct WritesBeside final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, {factors.data(), factors.size() + 1});
  }
};
struct DividesByZero final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(), clip_norm / whole_norm(squared_norms));
  }
};
struct Negative final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    Right::factors(squared_norms, clip_norm, factors);
    factors.back() = -factors.back();
  }
};
struct NotClipping final : Right {
  using Right::Right;
  void factors(std::span<const double>, double, std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(), 1.0);
  }
};
/// Each layer may have the whole clip norm: the example is then as long as that times the root of
/// the number of layers.
struct WholeNormPerLayer final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    for (std::size_t g = 0; g < factors.size(); ++g) {
      Right::factors(squared_norms.subspan(g, 1), clip_norm, factors.subspan(g, 1));
    }
  }
};
/// Clips to the smallest norm that it has seen.
struct Remembers final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = whole_norm(squared_norms);
    if (norm > 0.0 && norm < smallest_.load()) smallest_ = norm;
    Right::factors(squared_norms, std::min(clip_norm, smallest_.load()), factors);
  }
  mutable std::atomic<double> smallest_{1e300};
};
struct ThreadBound final : Right {
  using Right::Right;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const bool home = std::this_thread::get_id() == home_;
    Right::factors(squared_norms, home ? clip_norm : clip_norm / 2.0, factors);
  }
  std::thread::id home_ = std::this_thread::get_id();
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
       {"fills_every_factor", "left a factor", findings<Forgetful>()},
       {"fills_every_factor", "wrote beside", findings<WritesBeside>()},
       {"factors_are_finite_and_not_negative", "a factor is inf", findings<DividesByZero>()},
       {"factors_are_finite_and_not_negative", "a factor is -1", findings<Negative>()},
       {"contributions_keep_the_clip_norm", "would have to cut it", findings<NotClipping>()},
       {"contributions_keep_the_clip_norm", "would have to cut it", findings<WholeNormPerLayer>()},
       {"an_example_does_not_change_another", "in another order", findings<Remembers>()},
       {"factors_are_the_same_on_every_thread", "differ", findings<ThreadBound>()},
       {"instances_are_independent", "changed the factors", findings<Shared>()}});
}

TEST_CASE("each rule of adaptive clip norms can fail") {
  const Findings right = findings<RightAdaptive>();
  CHECK(findings_text(right, privgrad::testing::Verdict::failed) == "");
  // The rules of every clipping are shown to fail above.
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

TEST_CASE("a clipping for some networks only conforms") {
  CHECK(findings_text(findings<OneLayerOnly>(), privgrad::testing::Verdict::failed) == "");
}

}  // namespace clipping_rules_test
