#include <cmath>

#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// initial * sqrt(T / (T - t)), t = 0 .. T-1: batches that grow to sqrt(T) times the first one.
///
/// With constant noise, the mean over a batch of B has noise proportional to 1/B: late steps are
/// more precise, as with a decreasing noise schedule, and the last iterate is the best.
class Snowball final : public Decay {
 public:
  explicit Snowball(const Params& params) : Decay("snowball", params) {}

  double value(std::uint64_t step) const override {
    const auto left = static_cast<double>(steps() - step);
    return initial() * std::sqrt(static_cast<double>(steps()) / left);
  }

  static std::vector<ParamSpec> params() { return {initial_param()}; }
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Snowball>({
      .name = "snowball",
      .summary = "Batch sizes that grow like 1/sqrt(steps that are left), for batch_size.",
      .reference = "Feldman, Koren and Talwar 2020, Snowball-SGD: batch sizes in proportion to "
                   "1/sqrt(T - t + 1)",
      .params = Snowball::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.snowball", "0.1.0", "schedule/snowball", register_components)
