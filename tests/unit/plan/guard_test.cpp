#include "guard.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "counted_manifest.hpp"

using namespace privgrad;
using core::Charge;
using core::Manifest;

namespace {

using Events = std::vector<Event>;

/// A sampler with the charges that the test writes.
class ScriptedSampler final : public Sampler {
 public:
  explicit ScriptedSampler(Events charges) : charges_(std::move(charges)) {}
  void start(const SamplingPlan&) override {}
  double expected_batch_size(std::uint64_t) const override { return 1.0; }
  Events charges(std::span<const Event>) const override { return charges_; }
  void sample(std::uint64_t, std::size_t, const RandomSource&,
              std::vector<std::uint32_t>&) override {}

 private:
  Events charges_;
};

const Event kRelease = Event::gaussian(1.0), kNone = Event::nothing();

std::vector<Charge> charged(const Manifest& manifest, const Events& costs, const Events& releases) {
  return core::sampled_charges(manifest, ScriptedSampler(costs), releases);
}

/// Returns the charges of as many steps with noise 1.
std::vector<Charge> charged(const Manifest& manifest, const Events& costs) {
  return charged(manifest, costs, Events(costs.size(), kRelease));
}

Event epoch(std::int64_t steps) { return Event::random_allocation(steps, kRelease); }
Event coin() { return Event::poisson_sampled(0.5, kRelease); }

}  // namespace

TEST_CASE("a sampler charges each step once, and something for the first", "[guard][privacy]") {
  const Manifest manifest = counted();
  const auto charges = charged(manifest, {kRelease, kNone});
  CHECK(charges == std::vector<Charge>{{0, kRelease, kRelease}, {1, kRelease, kNone}});
  CHECK_THROWS_WITH(charged(manifest, {kRelease}, {kRelease, kRelease}),
                    ContainsSubstring("gave 1 charges for 2 steps"));
  CHECK_THROWS_WITH(charged(manifest, {kNone, kRelease}),
                    ContainsSubstring("charges nothing for the first release"));
  // A first step without a release costs nothing.
  CHECK_NOTHROW(charged(manifest, {kNone, kRelease}, {kNone, kRelease}));
}

TEST_CASE("an epoch of random allocation pays for exactly its steps", "[guard][privacy]") {
  const Manifest manifest = counted();
  CHECK_NOTHROW(charged(manifest, {epoch(2), kNone, epoch(2), kNone}));
  CHECK_NOTHROW(charged(manifest, {epoch(2), kNone, epoch(2)}));  // cut short by the end
  for (const Events& wrong : std::vector<Events>{
           {epoch(2), kNone, kNone}, {epoch(3), kNone, epoch(3), kNone, kNone}, {epoch(1), kNone}})
    CHECK_THROWS_AS(charged(manifest, wrong), PluginError);
}

TEST_CASE("an epoch pays for no step with less noise than it charges", "[guard][privacy]") {
  const Manifest manifest = counted();
  const auto with_second = [&](double noise) {
    return charged(manifest, {epoch(2), kNone}, {kRelease, Event::gaussian(noise)});
  };
  CHECK_NOTHROW(with_second(2.0));
  CHECK_THROWS_AS(with_second(std::nextafter(1.0, 0.0)), PluginError);
}

TEST_CASE("an epoch is charged by itself, because batches are compared with it",
          "[guard][privacy]") {
  const Manifest manifest = counted();
  for (const Event& hidden :
       {Event::composed({kRelease, epoch(1)}), Event::self_composed(2, epoch(1)),
        Event::composed({Event::self_composed(2, epoch(1))})})
    CHECK_THROWS_AS(charged(manifest, {hidden}), PrivacyError);
}

TEST_CASE("cycles of coins are alike, and only the last is cut short", "[guard][privacy]") {
  const Manifest manifest = counted();  // adjacency: zero_out
  CHECK_NOTHROW(charged(manifest, {coin(), coin(), coin()}));
  CHECK_NOTHROW(charged(manifest, {coin(), kNone, coin(), kNone}));
  CHECK_NOTHROW(charged(manifest, {coin(), kNone, coin()}));
  for (const Events& wrong : std::vector<Events>{{coin(), kNone, coin(), kNone, kNone},
                                                 {coin(), kNone, coin(), coin(), kNone},
                                                 {coin(), kNone, kRelease, kNone}})
    CHECK_THROWS_AS(charged(manifest, wrong), PluginError);
  CHECK_THROWS_AS(charged(manifest, {coin(), kNone}, {kRelease, Event::gaussian(0.9)}),
                  PluginError);
  CHECK_NOTHROW(charged(manifest, {coin(), kNone}, {kRelease, Event::gaussian(1.1)}));
}

TEST_CASE("cycles by row numbers are refused where a missing row moves the others",
          "[guard][privacy]") {
  const Manifest manifest = counted({"privacy.adjacency=add_or_remove_one"});
  CHECK_NOTHROW(charged(manifest, {coin(), coin()}));
  CHECK_THROWS_AS(charged(manifest, {coin(), kNone}), PrivacyError);
  CHECK_NOTHROW(charged(counted({"privacy.adjacency=replace_one"}), {coin(), kNone}));
}

TEST_CASE("a guard adds up releases beside the steps and steps", "[guard][privacy]") {
  const std::vector<Charge> beside{beside_steps(0, 0.5, "count")};
  // 4 for the count, and 3 for the steps.
  CHECK(core::guard_answer(counted(), beside, full_steps(3, 1.0)).value == 7.0);
  CHECK_THROWS_WITH(core::guard_answer(counted({"privacy.accountant=guessing"}), beside, {}),
                    ContainsSubstring("cannot guard a budget"));
  const Manifest also = counted({"privacy.also=[guessing]"});
  CHECK(core::answer_of(also.also.front(), also, beside, full_steps(3, 1.0)).value == 7.0);
}

TEST_CASE("the calibrated noise is the least that meets the target, beside other releases",
          "[guard][privacy]") {
  // Four steps with noise s cost 4/s^2, and the other release costs 3/4: a target of 1 leaves a
  // quarter for the steps, so s is 4. Without the release, the steps cost 1 at s = 2.
  Manifest manifest = counted();
  int tried = 0;
  manifest.on_trial = [&] { ++tried; };
  const auto charges_at = [](double scale) { return full_steps(4, scale); };
  const double alone = core::calibrated_scale(manifest, charges_at, 1.0);
  CHECK_THAT(alone, WithinRel(2.0, 1e-8));
  CHECK(alone > 2.0);  // a margin for other processors
  CHECK(tried > 0);
  const std::vector<Charge> beside{beside_steps(0, std::sqrt(4.0 / 3.0), "count")};
  CHECK_THAT(core::calibrated_scale(manifest, charges_at, 1.0, beside), WithinRel(4.0, 1e-8));
}

TEST_CASE("a target that noise which protects nobody meets is refused", "[guard][privacy]") {
  // One step with noise 2 at every scale costs 1/4: the search ends at the smallest noise that it
  // tries.
  const auto search = [](double step_noise, double noise) {
    return core::calibrated_scale(
        counted(),
        [=](double scale) { return full_steps(1, step_noise > 0.0 ? step_noise : scale); }, 1.0, {},
        noise);
  };
  CHECK_THROWS_WITH(search(2.0, 1.0),
                    ContainsSubstring("noise that protects no unit that takes part"));
  CHECK_THROWS_AS(search(2.0, 1.0), PrivacyError);
  // If no noise is known, any scale is accepted; a real cost of 1/s^2 is met at s = 1.
  CHECK_NOTHROW(search(2.0, 0.0));
  CHECK_THAT(search(0.0, 1.0), WithinRel(1.0, 1e-8));
}

TEST_CASE("charges that are smaller than a single step's own cost are refused",
          "[guard][privacy]") {
  // Every row takes part in one release with noise 1. At epsilon 1 its delta is
  // Phi(-1/2) - e Phi(-3/2) = 0.308538 - 2.718282 * 0.066807 = 0.126937, and at epsilon 4
  // Phi(-7/2) - e^4 Phi(-9/2) = 2.3263e-4 - 54.598 * 3.3977e-6 = 4.7123e-5 (Balle and Wang 2018,
  // Theorem 5).
  const auto check = [](const char* delta, double epsilon, double batch = 10.0) {
    const Manifest manifest = counted(
        {std::string("privacy.target_delta=") + delta, "privacy.adjacency=add_or_remove_one"});
    const std::vector<double> batches{batch};
    core::check_sampler_charges(manifest, 10, batches, full_steps(1, 1.0),
                                {epsilon, BoundKind::upper, {}, ""});
  };
  CHECK_THROWS_AS(check("0.1269", 1.0), PluginError);
  CHECK_NOTHROW(check("0.127", 1.0));
  CHECK_THROWS_AS(check("4.71e-5", 4.0), PluginError);
  CHECK_NOTHROW(check("4.72e-5", 4.0));
  // With one row in ten, the same release costs less.
  CHECK_NOTHROW(check("0.1269", 1.0, 1.0));
}
