// The guide's first fragment, inside the class to which it belongs.
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

class SlowFall final : public privgrad::Schedule {
 public:
  FRAGMENT
  explicit SlowFall(const privgrad::Params& params) : from_(params.real("from")) {}
  void start(const privgrad::Horizon&) override {}
  double value(std::uint64_t) const override { return from_; }
  bool is_shape() const override { return false; }

 private:
  double from_;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Schedule, SlowFall>(SlowFall::declaration());
}

}  // namespace

PRIVGRAD_PLUGIN("acme.slow_fall", "1.0.0", "schedule/slow_fall", register_components)
