#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

// A class that is not a schedule cannot be registered as one, and the message names the rule.
class ASchedule : public privgrad::Schedule {
 public:
  explicit ASchedule(const privgrad::Params&) {}
  void start(const privgrad::Horizon&) override {}
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
};

class NotASchedule {
 public:
  explicit NotASchedule(const privgrad::Params&) {}
};

void register_components(privgrad::Registrar& registrar) {
#ifdef FORBIDDEN
  registrar.add<privgrad::Schedule, NotASchedule>({});
#else
  registrar.add<privgrad::Schedule, ASchedule>({});
#endif
}
