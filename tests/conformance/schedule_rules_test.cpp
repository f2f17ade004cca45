#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "broken.hpp"
#include "privgrad/error.hpp"
#include "privgrad/schedule.hpp"

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
struct ShapeWithZero final : Right {
  using Right::Right;
  double value(std::uint64_t step) const override { return Right::value(step) - 1.0; }
};
struct Counting final : Right {
  using Right::Right;
  double value(std::uint64_t) const override { return ++calls_; }
  mutable std::atomic<int> calls_{0};
};
struct ThreadBound final : Right {
  using Right::Right;
  double value(std::uint64_t) const override {
    return std::this_thread::get_id() == home_ ? 1.0 : 2.0;
  }
  std::thread::id home_ = std::this_thread::get_id();
};
struct Shared final : Right {
  using Right::Right;
  void start(const Horizon& horizon) override { all_ = static_cast<double>(horizon.steps); }
  double value(std::uint64_t) const override { return all_; }
  inline static double all_ = 0.0;
};

template <class Impl>
Findings findings() {
  return findings_on<Schedule, Impl>();
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
        findings<ShapeWithZero>()},
       {"values_are_repeatable", "in another order", findings<Counting>()},
       {"values_are_the_same_on_every_thread", "differ", findings<ThreadBound>()},
       {"instances_are_independent", "changed the values", findings<Shared>()}});
}
