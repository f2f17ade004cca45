#include "answers_again.hpp"

#include <memory>
#include <string>

#include "counted_manifest.hpp"
#include "privgrad/trust/clip_factors.hpp"

using namespace privgrad;

namespace {

/// Multiplies the clip norm by one more than the share of gradients within it.
class Growing final : public Clipping, public AdaptiveClipNorm {
 public:
  explicit Growing(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double>, double, std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(), 1.0);
  }
  double count_noise(double, double noise_multiplier) const override { return noise_multiplier; }
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return clip_norm * (1.0 + unclipped);
  }
};

std::string line(int step, double clip_norm, double clipped) {
  return "{\"step\":" + std::to_string(step) + ",\"clip_norm\":" + format_number(clip_norm) +
         ",\"clipped_fraction\":" + format_number(clipped) + "}\n";
}

/// Returns the problem of these lines of metrics.jsonl, in a run whose first clip norm is 2.
std::string problem_of(const std::string& lines, bool adapts = true) {
  core::Manifest manifest = counted();
  manifest.clipping = in_manifest<Clipping, Growing>("growing", "clipping");
  core::Plan plan;
  plan.manifest = &manifest;
  plan.setting = std::make_shared<core::Setting>();
  plan.clip_norm = {2.0, 2.0};
  if (adapts) plan.count_share = {0.5, 0.5};
  return core::other_clip_norm(plan, lines);
}

}  // namespace

TEST_CASE("clip norms follow from the share of gradients that was released", "[answers_again]") {
  // Three quarters are within a clip norm of 2, so the next one is 3.5; then half, and 5.25.
  const std::string good = line(1, 3.5, 0.25) + line(2, 5.25, 0.5);
  CHECK(problem_of(good).empty());
  CHECK_THAT(problem_of(line(1, 3.5, 0.25) + line(2, 5.3, 0.5)),
             ContainsSubstring("the clip norm behind step 2 does not follow"));
  CHECK_THAT(problem_of(line(1, 3.6, 0.25)), ContainsSubstring("behind step 1"));
  // Processors may round differently.
  CHECK(problem_of(line(1, 3.5 * (1.0 + 1e-10), 0.25)).empty());
  CHECK_FALSE(problem_of(line(1, 3.5 * (1.0 + 1e-8), 0.25)).empty());
}

TEST_CASE("only consecutive steps can be compared", "[answers_again]") {
  CHECK(problem_of(line(1, 3.5, 0.25) + line(3, 100.0, 0.5)).empty());
  CHECK(problem_of("{\"step\":1}\n" + line(2, 100.0, 0.5)).empty());
  CHECK(problem_of("").empty());
}

TEST_CASE("a clip norm stays within what sums can have", "[answers_again]") {
  // A step that would make the clip norm negative leaves the smallest clip norm.
  CHECK(problem_of(line(1, core::kSmallestClipNorm, 2.5)).empty());
  CHECK_FALSE(problem_of(line(1, -1.0, 2.5)).empty());
}

TEST_CASE("a line that no run writes is a problem, and a fixed clip norm is not looked at",
          "[answers_again]") {
  CHECK(problem_of(std::string(100, '[')) == "has a line that no run writes");
  CHECK(problem_of(line(1, 99.0, 0.25), /*adapts=*/false).empty());
}
