// Clipping rules that let contributions be too long, or let examples see each other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "privgrad/clipping.hpp"

using namespace privgrad;

namespace clippings {

using Norms = std::span<const double>;
using Factors = std::span<double>;

class Base : public Clipping {
 public:
  static double norm(Norms squared_norms) {
    double sum = 0.0;
    for (const double x : squared_norms) sum += x;
    return std::sqrt(sum);
  }
  static void right(Norms squared_norms, double clip_norm, Factors factors) {
    std::fill(factors.begin(), factors.end(),
              std::min(1.0, clip_norm / std::max(norm(squared_norms), 1e-300)));
  }
  static void times(Norms squared_norms, double clip_norm, Factors factors, double factor) {
    right(squared_norms, clip_norm, factors);
    for (double& one : factors) one *= factor;
  }
  mutable double seen_ = 0.0, largest_ = 0.0;
  mutable std::uint64_t calls_ = 0;
};

struct Row {
  Told told;
  void (*rule)(const Base&, Norms, double, Factors) = nullptr;
};

#define RULE                                                          \
  []([[maybe_unused]] const Base& self, [[maybe_unused]] Norms norms, \
     [[maybe_unused]] double clip_norm, Factors factors)

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}, .rule = RULE { self.right(norms, clip_norm, factors);
}  // namespace clippings
}
, {.told = {"none", "no clipping at all"},
   .rule = RULE{std::fill(factors.begin(), factors.end(), 1.0);
}
}
, {.told = {"twice_the_norm", "clips to twice the clip norm"},
   .rule = RULE{self.times(norms, clip_norm, factors, 2.0);
}
}
, {.told = {"a_thousandth_more",
            "clips to a thousandth more than the clip norm (a fused norm that is "
            "too small)"},
   .rule = RULE{self.right(norms, 1.001 * clip_norm, factors);
}
}
, {.told = {"the_whole_norm_per_layer", "each layer may have the whole clip norm"},
   .rule = RULE{for (std::size_t g = 0; g < factors.size(); ++g)
                    self.right(norms.subspan(g, 1), clip_norm, factors.subspan(g, 1));
}
}
, {.told = {"biases_are_not_clipped", "the last group is left as it is"},
   .rule = RULE{self.right(norms, clip_norm, factors);
factors.back() = 1.0;
}
}
, {.told = {"first_group_only", "the norm of the first group stands for all"},
   .rule = RULE{self.right(norms.first(1), clip_norm, factors);
}
}
, {.told = {"largest_group_only", "the largest group's norm stands for all"},
   .rule = RULE{const double largest = *std::max_element(norms.begin(), norms.end());
const std::array one{largest};
self.right(one, clip_norm, factors);
}
}
, {.told = {"root_forgotten", "compares the squared norm with the clip norm"},
   .rule = RULE{const double norm = self.norm(norms);
std::fill(factors.begin(), factors.end(), std::min(1.0, clip_norm / std::max(norm * norm, 1e-300)));
}
}
, {.told = {"infinity_norm", "as if norms were largest coordinates"},
   .rule = RULE{self.times(norms, clip_norm, factors, 10.0);
}
}
, {.told = {"clips_the_mean", "clips by the mean of what it has seen: clip after mean"},
   .rule = RULE{self.seen_ += self.norm(norms);
const double mean = self.seen_ / static_cast<double>(++self.calls_);
std::fill(factors.begin(), factors.end(), std::min(1.0, clip_norm / std::max(mean, 1e-300)));
}
}
, {.told = {"clips_by_the_largest", "scales all by the largest norm so far"},
   .rule = RULE{self.largest_ = std::max(self.largest_, self.norm(norms));
std::fill(factors.begin(), factors.end(),
          std::min(1.0, clip_norm / std::max(self.largest_, 1e-300)));
}
}
, {.told = {"every_second_free", "every second example is not clipped"},
   .rule = RULE{if (self.calls_++ % 2 == 0) self.right(norms, clip_norm, factors);
else std::fill(factors.begin(), factors.end(), 1.0);
}
}
, {.told = {"half_for_every_second", "every second example counts half: place decides"},
   .rule = RULE{self.times(norms, clip_norm, factors, self.calls_++ % 2 == 0 ? 1.0 : 0.5);
}
}
, {.told = {"half_after_a_long_one", "a long example makes the next ones short"},
   .rule = RULE{self.times(norms, clip_norm, factors, self.largest_ > 100.0 ? 0.5 : 1.0);
self.largest_ = std::max(self.largest_, self.norm(norms));
}
}
, {.told = {"thread_decides", "another factor on another thread"},
   .rule = RULE{static const auto home = std::this_thread::get_id();
self.times(norms, clip_norm, factors, std::this_thread::get_id() == home ? 1.0 : 0.5);
}
}
, {.told = {"all_instances_count", "instances share what they saw"},
   .rule = RULE{static thread_local double largest = 1.0;
largest = std::max(largest, self.norm(norms));
self.times(norms, clip_norm, factors, 1.0 / largest);
}
}
, {.told = {"negative", "factors below 0"},
   .rule = RULE{self.times(norms, clip_norm, factors, -1.0);
}
}
, {.told = {"nan", "factors that are no numbers"},
   .rule = RULE{std::fill(factors.begin(), factors.end(), std::nan(""));
}
}
, {.told = {"infinite", "factors beyond all bounds"},
   .rule = RULE{std::fill(factors.begin(), factors.end(), HUGE_VAL);
}
}
, {.told = {"divides_by_zero", "a gradient of 0 has a factor beyond all bounds"},
   .rule = RULE{std::fill(factors.begin(), factors.end(), clip_norm / self.norm(norms));
}
}
, {.told = {"writes_nothing", "leaves the factors as they were"}, .rule = RULE{(void)factors;
}
}
, {.told = {"writes_the_first", "writes one factor of many"},
   .rule = RULE{self.right(norms, clip_norm, factors.first(1));
}
}
, {.told = {"zero", "nobody contributes: noise alone", Let::harmless, "factors of 0 are legal"},
   .rule = RULE{std::fill(factors.begin(), factors.end(), 0.0);
}
}
, {.told = {"random_factors", "a generator of its own decides about factors"},
   .rule = RULE{static thread_local std::uint32_t state = 1;
state = state * 1664525u + 1013904223u;
self.times(norms, clip_norm, factors, static_cast<double>(state) * 0x1p-32);
}
}
, {.told = {"normalises", "every example at the full clip norm", Let::harmless,
            "longer is not too long: normalised descent"},
   .rule = RULE{const double norm = self.norm(norms);
std::fill(factors.begin(), factors.end(), norm > 0.0 ? clip_norm / norm : 0.0);
}
}
,
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(Norms squared_norms, double clip_norm, Factors factors) const override {
    kTable[I].rule(*this, squared_norms, clip_norm, factors);
  }
};

}  // namespace clippings

std::vector<Fault> clipping_faults() {
  using namespace clippings;
  return faults_of<Clipping, Faulty>(kTable, "clipping", [](const Row& row) {
    return std::vector<std::string>{std::string("clipping=") + row.told.id,
                                    "model={kind: mlp, hidden: [3]}"};
  });
}

#undef RULE
