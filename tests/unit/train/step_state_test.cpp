#include "step_state.hpp"

#include <limits>

#include "fake_program.hpp"
#include "small_components.hpp"

using namespace privgrad;
using core::StepState;

namespace {

/// The next clip norm of the rule below.
double next_norm;

/// Gives the answers that the test chooses.
class AnsweringClipping final : public Clipping, public AdaptiveClipNorm {
 public:
  explicit AnsweringClipping(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    flat_clipping().factors(squared_norms, clip_norm, factors);
  }
  double count_noise(double, double) const override { return 10.0; }
  double next_clip_norm(double, double) const override { return next_norm; }
};

}  // namespace

TEST_CASE("a clip norm that is no finite number above 0 is refused, and not used",
          "[step_state][privacy]") {
  core::Manifest manifest = counted();
  use_small_components(manifest);
  manifest.clipping = in_manifest<Clipping, AnsweringClipping>("answering", "clipping");
  core::Plan plan = small_plan(manifest, /*rows=*/3, /*steps=*/3, 3);
  plan.count_share.assign(3, 0.5);
  const Dataset data{{{2}, 0}, {1.0f, 0.0f}, {0.0f}};
  StepState state(plan, data, core::RandomKey::from_seed(1), serial, std::nullopt);
  CHECK(state.clip_of_step(0).clip_norm == 1.0);
  next_norm = 3.0;
  state.adapt_clip_norm(0.5);
  CHECK(state.clip_of_step(1).clip_norm == 3.0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double wrong :
       {0.0, -1.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    next_norm = wrong;
    CHECK_THROWS_AS(state.adapt_clip_norm(0.5), PluginError);
    CHECK(state.clip_of_step(2).clip_norm == 3.0);
  }
}
