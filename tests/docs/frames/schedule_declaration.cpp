// The introduction of the guide, in the function that a plugin has for it.
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {
namespace param = privgrad::param;

class SlowFall final : public privgrad::Schedule {
 public:
  explicit SlowFall(const privgrad::Params& params)
      : from_(params.real("from")), to_(params.real("to")) {}
  void start(const privgrad::Horizon& horizon) override {
    last_ = static_cast<double>(horizon.steps - 1);
  }
  double value(std::uint64_t step) const override {
    return from_ + (to_ - from_) * static_cast<double>(step) / last_;
  }
  bool is_shape() const override { return false; }

 private:
  double from_, to_, last_ = 0.0;
};

void register_components(privgrad::Registrar& registrar) { FRAGMENT }

}  // namespace

PRIVGRAD_PLUGIN("acme.slow_fall", "1.0.0", "schedule/slow_fall", register_components)
