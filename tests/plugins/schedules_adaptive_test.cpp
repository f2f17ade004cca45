// The decisions of the adaptive schedules, for numbers that a run might have released.
#include <cmath>
#include <limits>

#include "house_plugins.hpp"
#include "privgrad/schedule.hpp"

using namespace privgrad;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A built-in schedule that adapts the noise, already started.
class Adapting {
 public:
  Adapting(const char* name, const Value& params)
      : schedule_(house().create<Schedule>(name, params)) {
    schedule_->start({.steps = 100, .slot = "noise_multiplier"});
  }

  const Schedule& schedule() const { return *schedule_; }
  Measurement measurement() const { return schedule_->measurement().value(); }
  double next(double current, const std::vector<double>& measured) const {
    return schedule_->next(current, measured);
  }

 private:
  ComponentPtr<Schedule> schedule_;
};

Value checks(Value more = Value::Object{}) {
  more.set("loss_bound", 2.0);
  more.set("check_noise_multiplier", 20.0);
  return more;
}

}  // namespace

TEST_CASE("descent_check: no descent raises the budget of a step by its share", "[schedule]") {
  // rho = 1 / (2 sigma^2) is multiplied by 1 + raise: sigma is divided by the square root. The
  // default is 0.1.
  const Adapting by_default("descent_check", checks());
  CHECK_THAT(by_default.next(5.0, {0.01}), WithinRel(5.0 / std::sqrt(1.1), 1e-15));
  CHECK_THAT(by_default.next(5.0, {0.0}), WithinRel(5.0 / std::sqrt(1.1), 1e-15));
  CHECK(by_default.next(5.0, {-1e-9}) == 5.0);
  // The last check decides.
  CHECK(by_default.next(5.0, {3.0, 2.0, -0.1}) == 5.0);
  CHECK(by_default.next(5.0, {-3.0, -2.0, 0.1}) < 5.0);

  const Adapting strict("descent_check",
                        checks(Value::Object{{"raise", 3.0, {}}, {"margin", 0.05, {}}}));
  CHECK_THAT(strict.next(4.0, {-0.05}), WithinRel(2.0, 1e-15));
  CHECK(strict.next(4.0, {-0.06}) == 4.0);
}

TEST_CASE("descent_check asks for what it is charged for", "[schedule]") {
  const Measurement asked =
      Adapting("descent_check", checks(Value::Object{{"every", 7, {}}})).measurement();
  CHECK(asked.what == Measured::loss_change);
  CHECK(asked.every == 7);
  CHECK(asked.loss_bound == 2.0);
  CHECK(asked.noise_multiplier == 20.0);
}

TEST_CASE("validation: too little progress multiplies the noise by its factor", "[schedule]") {
  const Adapting accuracy("validation", Value::Object{});
  CHECK(accuracy.measurement().what == Measured::validation_accuracy);
  CHECK(accuracy.next(10.0, {0.1}) == 10.0);  // before the first step
  CHECK(accuracy.next(10.0, {0.5, 0.6}) == 10.0);
  CHECK_THAT(accuracy.next(10.0, {0.5, 0.505}), WithinRel(7.0, 1e-15));
  CHECK_THAT(accuracy.next(10.0, {0.1, 0.9, 0.7}), WithinRel(7.0, 1e-15));

  const Adapting loss(
      "validation",
      Value::Object{{"metric", "loss", {}}, {"threshold", 0.0, {}}, {"factor", 0.5, {}}});
  CHECK(loss.measurement().what == Measured::validation_loss);
  CHECK(loss.next(10.0, {0.7, 0.6}) == 10.0);
  CHECK(loss.next(10.0, {0.7, 0.7}) == 5.0);
  CHECK(loss.next(10.0, {0.6, 0.7}) == 5.0);
  CHECK(loss.next(10.0, {0.6, kInfinity}) == 5.0);
  CHECK(loss.next(10.0, {kInfinity, kInfinity}) == 5.0);
  CHECK(loss.next(10.0, {0.6, std::nan("")}) == 5.0);
  CHECK(loss.next(10.0, {kInfinity, 0.6}) == 10.0);
}

TEST_CASE("adaptive schedules are flat shapes without a first value", "[schedule]") {
  CHECK(Adapting("validation", Value::Object{}).schedule().is_shape());
  const Adapting given("descent_check", checks(Value::Object{{"initial", 12.0, {}}}));
  CHECK_FALSE(given.schedule().is_shape());
  CHECK(given.schedule().value(0) == 12.0);
  CHECK(given.schedule().value(99) == 12.0);
}
