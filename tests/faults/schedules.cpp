// Schedules that are not functions of the plan.
#include <cmath>
#include <thread>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/schedule.hpp"

using namespace privgrad;

namespace schedules {

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

/// The arguments of a call.
struct Asked {
  const Base& self;
  double step;

  std::uint64_t count_call() const { return ++self.calls_; }
};

struct Row {
  Told told;
  double (*value)(const Asked&) = nullptr;
  bool is_shape = false;
  const char* slot = "noise_multiplier";
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}, .value = [](const Asked&) { return 2.0; }},
    {.told = {"zero", "no noise at all"}, .value = [](const Asked&) { return 0.0; }},
    {.told = {"zero_in_the_end", "the last step without noise"},
     .value = [](const Asked& asked) { return asked.step + 1.0 == asked.self.steps_ ? 0.0 : 2.0; }},
    {.told = {"negative", "noise below 0"}, .value = [](const Asked&) { return -2.0; }},
    {.told = {"nan", "no number"}, .value = [](const Asked&) { return std::nan(""); }},
    {.told = {"infinite", "beyond all bounds"}, .value = [](const Asked&) { return HUGE_VAL; }},
    {.told = {"counts_calls", "another value for every call"},
     .value = [](const Asked& asked) { return 2.0 / static_cast<double>(asked.count_call()); }},
    {.told = {"quieter_when_asked_again", "the noise that was planned is not the one that runs"},
     .value =
         [](const Asked& asked) {
           return static_cast<double>(asked.count_call()) > asked.self.steps_ ? 0.5 : 2.0;
         }},
    {.told = {"quieter_at_each_start", "instances that are started again answer otherwise",
              Let::harmless, "a run takes its noise from the plan, not from the schedule"},
     .value = [](const Asked& asked) { return 2.0 / static_cast<double>(asked.self.starts_); }},
    {.told = {"thread_decides", "another value on another thread"},
     .value = [](const Asked&) { return std::this_thread::get_id() == kHome ? 2.0 : 1.0; }},
    {.told = {"all_instances_count", "instances share a counter"},
     .value =
         [](const Asked&) {
           static thread_local std::uint64_t calls = 0;
           return 2.0 + 0.001 * static_cast<double>(++calls);
         }},
    {.told = {"shape_with_zero", "a shape that ends in 0"},
     .value = [](const Asked& asked) { return asked.self.steps_ - 1.0 - asked.step; },
     .is_shape = true},
    {.told = {"clip_norm_zero", "a clip norm of 0"},
     .value = [](const Asked&) { return 0.0; },
     .slot = "clip_norm"},
    {.told = {"clip_norm_infinite", "a clip norm beyond all bounds"},
     .value = [](const Asked&) { return HUGE_VAL; },
     .slot = "clip_norm"},
    {.told = {"clip_norm_enormous", "a clip norm that no float holds"},
     .value = [](const Asked&) { return 1e300; },
     .slot = "clip_norm"},
    {.told = {"clip_norm_shape", "a shape where the core scales nothing"},
     .value = [](const Asked&) { return 1.0; },
     .is_shape = true,
     .slot = "clip_norm"},
    {.told = {"clip_norm_counts_calls", "the bound that is accounted is not the one that clips"},
     .value =
         [](const Asked& asked) { return 1.0 + 0.1 * static_cast<double>(asked.count_call()); },
     .slot = "clip_norm"},
    {.told = {"learning_rate_nan", "a learning rate of NaN"},
     .value = [](const Asked&) { return std::nan(""); },
     .slot = "learning_rate"},
    {.told = {"learning_rate_negative", "ascent"},
     .value = [](const Asked&) { return -1.0; },
     .slot = "learning_rate"},
    {.told = {"learning_rate_enormous", "a learning rate near the largest float"},
     .value = [](const Asked&) { return 3e38; },
     .slot = "learning_rate"},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  double value(std::uint64_t step) const override {
    return kTable[I].value({*this, static_cast<double>(step)});
  }
  bool is_shape() const override { return kTable[I].is_shape; }
};

}  // namespace schedules

std::vector<Fault> schedule_faults() {
  using namespace schedules;
  return faults_of<Schedule, Faulty>(kTable, "schedule", [](const Row& row) {
    return std::vector<std::string>{std::string("schedules.") + row.slot + "=" + row.told.id};
  });
}
