// Schedules that are no function of the plan.
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/schedule.hpp"

using namespace privgrad;

namespace {

class Base : public Schedule {
 public:
  void start(const Horizon& horizon) override {
    steps_ = static_cast<double>(horizon.steps);
    slot_ = horizon.slot;
    ++starts_;
  }
  double steps_ = 0.0;
  std::string slot_;
  int starts_ = 0;
  mutable std::uint64_t calls_ = 0;
};

struct Row {
  Told told;
  double (*value)(const Base&, std::uint64_t) = nullptr;
  bool is_shape = false;
  const char* slot = "noise_multiplier";
};

#define VALUE []([[maybe_unused]] const Base& self, [[maybe_unused]] std::uint64_t step) -> double

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}, .value = VALUE { return 2.0;
}  // namespace
}
, {.told = {"zero", "no noise at all"}, .value = VALUE{return 0.0;
}
}
, {.told = {"zero_in_the_end", "the last step without noise"},
   .value = VALUE{return static_cast<double>(step) + 1.0 == self.steps_ ? 0.0 : 2.0;
}
}
, {.told = {"negative", "noise below 0"}, .value = VALUE{return -2.0;
}
}
, {.told = {"nan", "no number"}, .value = VALUE{return std::nan("");
}
}
, {.told = {"infinite", "beyond all bounds"}, .value = VALUE{return HUGE_VAL;
}
}
, {.told = {"counts_calls", "another value for every call"},
   .value = VALUE{return 2.0 / static_cast<double>(++self.calls_);
}
}
, {.told = {"quieter_when_asked_again", "the noise that was planned is not the one that runs"},
   .value = VALUE{return ++self.calls_ > static_cast<std::uint64_t>(self.steps_) ? 0.5 : 2.0;
}
}
, {.told = {"quieter_at_each_start", "instances that are started again answer otherwise",
            Let::harmless, "a run starts its noise from the plan's values, and asks no schedule"},
   .value = VALUE{return 2.0 / static_cast<double>(self.starts_);
}
}
, {.told = {"thread_decides", "another value on another thread"},
   .value = VALUE{static const auto home = std::this_thread::get_id();
return std::this_thread::get_id() == home ? 2.0 : 1.0;
}
}
, {.told = {"all_instances_count", "instances share a counter"},
   .value = VALUE{static thread_local std::uint64_t calls = 0;
return 2.0 + 0.001 * static_cast<double>(++calls);
}
}
, {.told = {"shape_with_zero", "a shape that ends in 0"},
   .value = VALUE{return self.steps_ - 1.0 - static_cast<double>(step);
}
, .is_shape = true
}
, {.told = {"clip_norm_zero", "a clip norm of 0"}, .value = VALUE{return 0.0;
}
, .slot = "clip_norm"
}
, {.told = {"clip_norm_infinite", "a clip norm beyond all bounds"}, .value = VALUE{return HUGE_VAL;
}
, .slot = "clip_norm"
}
, {.told = {"clip_norm_enormous", "a clip norm that no float holds"}, .value = VALUE{return 1e300;
}
, .slot = "clip_norm"
}
, {.told = {"clip_norm_shape", "a shape where the core scales nothing"}, .value = VALUE{return 1.0;
}
, .is_shape = true, .slot = "clip_norm"
}
, {.told = {"clip_norm_counts_calls", "the bound that is accounted is not the one that clips"},
   .value = VALUE{return 1.0 + 0.1 * static_cast<double>(++self.calls_);
}
, .slot = "clip_norm"
}
, {.told = {"learning_rate_nan", "a learning rate that is no number"},
   .value = VALUE{return std::nan("");
}
, .slot = "learning_rate"
}
, {.told = {"learning_rate_negative", "ascent"}, .value = VALUE{return -1.0;
}
, .slot = "learning_rate"
}
, {.told = {"learning_rate_enormous", "a learning rate near the largest float"},
   .value = VALUE{return 3e38;
}
, .slot = "learning_rate"
}
,
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  double value(std::uint64_t step) const override { return kTable[I].value(*this, step); }
  bool is_shape() const override { return kTable[I].is_shape; }
};

}  // namespace

std::vector<Fault> schedule_faults() {
  return faults_of<Schedule, Faulty>(kTable, "schedule", [](const Row& row) {
    return std::vector<std::string>{std::string("schedules.") + row.slot + "=" + row.told.id};
  });
}
