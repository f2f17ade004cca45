// Optimizers with one defect each, and the rule of the conformance suite that notices it.
#include <cmath>
#include <optional>

#include "broken.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"

namespace optimizer_rules_test {

using namespace privgrad;
using privgrad::testing::Verdict;

namespace {

/// Heavy-ball momentum, which has a state to save.
class Right : public Optimizer {
 public:
  explicit Right(const Params&) {}
  void start(std::size_t parameters) override { velocity_.assign(parameters, 0.0f); }
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    check(gradient);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = 0.5f * velocity_[i] + gradient.values()[i];
      parameters[i] -= static_cast<float>(context.learning_rate) * velocity_[i];
    }
  }
  std::vector<StateMember> state() override { return {{"velocity", &velocity_}}; }
  bool is_coordinatewise() const override { return true; }

 protected:
  static void check(const Released& gradient) {
    for (const float value : gradient.values()) {
      if (!std::isfinite(value)) throw NumericError("not finite");
    }
  }
  std::vector<float> velocity_;
};

/// Momentum with a step rule.
class ByRule : public Right {
 public:
  using Right::Right;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    check(gradient);
    apply(ByRule::next_rule(context), parameters, velocity_, {}, gradient.values());
  }
  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::momentum; }
  StepRule next_rule(const StepContext& context) override {
    return {.kind = StepRule::Kind::momentum,
            .rate = context.learning_rate / (1.0 + static_cast<double>(context.step)),
            .keep = 0.5,
            .take = 1.0};
  }
};
/// Always returns the first step's rule.
struct SaysOneRate final : ByRule {
  using ByRule::ByRule;
  StepRule next_rule(const StepContext& context) override {
    return ByRule::next_rule({.step = 0, .learning_rate = context.learning_rate});
  }
};
struct AnotherKindOfRule final : ByRule {
  using ByRule::ByRule;
  StepRule next_rule(const StepContext& context) override {
    StepRule rule = ByRule::next_rule(context);
    rule.kind = StepRule::Kind::descent;
    return rule;
  }
};
struct TooFewVectors final : ByRule {
  using ByRule::ByRule;
  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::adam; }
};
/// step() rounds the state once more than its rule.
struct StepsOtherwise final : ByRule {
  using ByRule::ByRule;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    ByRule::step(parameters, gradient, context);
    velocity_.back() = std::nextafter(velocity_.back(), 1e30f);
  }
};

// The static is per thread here, because the suite runs instances concurrently, and a race would
// hide the defect.
struct SharedVelocity final : Right {
  using Right::Right;
  void start(std::size_t parameters) override { all_.assign(parameters, 0.0f); }
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    velocity_ = all_;
    Right::step(parameters, gradient, context);
    all_ = velocity_;
  }
  inline static thread_local std::vector<float> all_;
};
struct MissesNegativeInfinity final : Right {
  using Right::Right;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    for (const float value : gradient.values()) {
      if (std::isnan(value) || value > 1e30f) throw NumericError("not finite");
    }
    parameters[0] -= static_cast<float>(context.learning_rate) * gradient.values()[0];
  }
};
struct RefusesOddly final : Right {
  using Right::Right;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    for (const float value : gradient.values()) {
      if (!std::isfinite(value)) throw ConfigError("not finite");
    }
    Right::step(parameters, gradient, context);
  }
};
struct ChecksWhileWriting final : Right {
  using Right::Right;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!std::isfinite(gradient.values()[i])) throw NumericError("not finite");
      parameters[i] -= static_cast<float>(context.learning_rate) * gradient.values()[i];
    }
  }
};
/// Steps whose length depends on all coordinates.
struct LooksAtAllOfThem final : Right {
  using Right::Right;
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    check(gradient);
    float norm = 1e-6f;
    for (const float value : gradient.values()) norm += value * value;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = gradient.values()[i] / std::sqrt(norm);
      parameters[i] -= static_cast<float>(context.learning_rate) * velocity_[i];
    }
  }
};
/// Has a state vector with one more number than there are parameters.
struct CountsBeside final : Right {
  using Right::Right;
  void start(std::size_t parameters) override { velocity_.assign(parameters + 1, 0.0f); }
};
/// Saves two interleaved vectors: v_0, u_0, v_1, u_1, ...
struct InterleavesItsVectors final : Right {
  using Right::Right;
  void start(std::size_t parameters) override { velocity_.assign(2 * parameters, 0.0f); }
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    check(gradient);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[2 * i] = 0.5f * velocity_[2 * i] + gradient.values()[i];
      velocity_[2 * i + 1] += gradient.values()[i] * gradient.values()[i];
      parameters[i] -= static_cast<float>(context.learning_rate) * velocity_[2 * i];
    }
  }
};
struct ForgetsSome final : Right {
  using Right::Right;
  void restored() override { velocity_.back() = 0.0f; }
};
struct ListsNothing final : Right {
  using Right::Right;
  std::vector<StateMember> state() override { return {}; }
};
struct ListsOneTwice final : Right {
  using Right::Right;
  std::vector<StateMember> state() override {
    return {{"velocity", &velocity_}, {"speed", &velocity_}};
  }
};
struct NamesTwoAlike final : Right {
  using Right::Right;
  std::vector<StateMember> state() override {
    return {{"velocity", &velocity_}, {"velocity", &steps_}};
  }
  std::uint64_t steps_ = 0;
};
struct ListsMoreEachTime final : Right {
  using Right::Right;
  std::vector<StateMember> state() override {
    ++calls_;
    return {{calls_ % 2 == 0 ? "velocity" : "speed", &velocity_}};
  }
  std::uint64_t calls_ = 0;
};

/// Draws steps towards the parameters at the beginning of the round.
struct RightlyAnchored : Right {
  using Right::Right;
  void start(std::size_t parameters) override {
    Right::start(parameters);
    anchor_.assign(parameters, 0.0f);
  }
  void anchor(std::span<const float> parameters) override {
    anchor_.assign(parameters.begin(), parameters.end());
  }
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    Right::step(parameters, gradient, context);
    pull(parameters, anchor_);
  }

 protected:
  static void pull(std::span<float> parameters, std::span<const float> to) {
    for (std::size_t i = 0; i < parameters.size() && i < to.size(); ++i)
      parameters[i] -= 0.01f * (parameters[i] - to[i]);
  }
  std::vector<float> anchor_;
};
struct BorrowsItsAnchor final : RightlyAnchored {
  using RightlyAnchored::RightlyAnchored;
  void anchor(std::span<const float> parameters) override { borrowed_ = parameters; }
  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    Right::step(parameters, gradient, context);
    pull(parameters, borrowed_);
  }

 private:
  std::span<const float> borrowed_;
};
struct KeepsItsFirstAnchor final : RightlyAnchored {
  using RightlyAnchored::RightlyAnchored;
  void start(std::size_t parameters) override { Right::start(parameters); }
  void anchor(std::span<const float> parameters) override {
    if (anchor_.empty()) anchor_.assign(parameters.begin(), parameters.end());
  }
};

template <class Impl>
Findings findings() {
  return findings_on<Optimizer, Impl>();
}

}  // namespace

TEST_CASE("each rule of optimizers can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"takes_steps", "changed no parameter", findings_on("optimizer/idle")},
       {"takes_steps", "a parameter is inf", findings_on("optimizer/explodes")},
       {"stays_finite_on_zero_gradients", "gradient of zeros",
        findings_on("optimizer/normalises_by_zero")},
       {"is_deterministic", "differ", findings_on("optimizer/counts_all_calls")},
       {"start_forgets", "earlier run", findings_on("optimizer/remembers_runs")},
       {"leaves_the_release_as_it_is", "wrote into the release",
        findings_on("optimizer/writes_into_the_release")},
       {"instances_are_independent", "in turns", findings<SharedVelocity>()},
       {"instances_run_side_by_side", "two threads", findings_on("optimizer/thread_decides")},
       {"refuses_non_finite_gradients", "with nan at place 0 must throw NumericError, not nothing",
        findings_on("optimizer/takes_nan")},
       {"refuses_non_finite_gradients", "with -inf at place 0", findings<MissesNegativeInfinity>()},
       {"refuses_non_finite_gradients", "not ConfigError", findings<RefusesOddly>()},
       {"refuses_non_finite_gradients", "at place 8 but changed the parameters",
        findings<ChecksWhileWriting>()},
       {"parts_move_as_the_whole_does", "move differently than as one part",
        findings<LooksAtAllOfThem>()},
       {"parts_move_as_the_whole_does", "put together are not the state of one",
        findings<CountsBeside>()},
       {"parts_move_as_the_whole_does", "put together are not the state of one",
        findings<InterleavesItsVectors>()},
       {"state_is_one_list", "the same place twice", findings<ListsOneTwice>()},
       {"state_is_one_list", "without a name of its own", findings<NamesTwoAlike>()},
       {"state_is_one_list", "when it is asked again", findings<ListsMoreEachTime>()},
       {"resumes_as_if_uninterrupted", "after 1 step", findings<ForgetsSome>()},
       {"resumes_as_if_uninterrupted", "does not list all that it remembers",
        findings<ListsNothing>()},
       {"anchor_is_copied", "read after the call", findings<BorrowsItsAnchor>()},
       {"a_new_round_forgets_the_last_one", "an earlier round", findings<KeepsItsFirstAnchor>()}});
}

TEST_CASE("the rule of optimizers that step by a rule can fail") {
  const std::string rule = "steps_are_the_rule";
  const Findings right = findings<ByRule>();
  CHECK(findings_text(right, Verdict::failed) == "");
  REQUIRE(find_rule(right, rule) != nullptr);
  CHECK(not_caught(findings<SaysOneRate>(), rule, "does not move parameters") == "");
  CHECK(not_caught(findings<AnotherKindOfRule>(), rule, "of another kind than rule()") == "");
  CHECK(not_caught(findings<TooFewVectors>(), rule, "other vectors than a rule of its kind") == "");
  CHECK(not_caught(findings<StepsOtherwise>(), rule, "the state is another by its rule") == "");
}

TEST_CASE("an optimizer with an anchor conforms") {
  CHECK(findings_text(findings<RightlyAnchored>(), Verdict::failed) == "");
}

TEST_CASE("without a maker of released values, optimizers are skipped and not passed") {
  Registrar registrar;
  registrar.add<Optimizer, Right>(
      {.name = "right", .summary = "Right.", .reference = "none", .params = {}});
  Catalog catalog;
  catalog.add(std::make_shared<PluginIdentity>(), nullptr, registrar.factories());
  const Findings findings = testing::check_component(catalog.components().front(), {});
  CHECK(findings_text(findings, Verdict::skipped) ==
        "takes_steps: released values cannot be made here\n");
  CHECK(find_rule(findings, "is_deterministic") == nullptr);
}

}  // namespace optimizer_rules_test
