// Optimizers see released values only: what they break is the run, never the guarantee.
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"

using namespace privgrad;

namespace {

using Weights = std::span<float>;
const std::thread::id kHome = std::this_thread::get_id();

class Base : public Optimizer {
 public:
  void start(std::size_t parameters) override { velocity_.assign(parameters, 0.0f); }
  static void check(const Released& gradient) {
    if (!gradient.is_finite()) throw NumericError("the gradient is not finite");
  }
  static void descend(Weights weights, const Released& gradient, double rate) {
    check(gradient);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] -= static_cast<float>(rate) * gradient.values()[i];
  }
  std::vector<float> velocity_;
  std::uint64_t calls_ = 0;
};

struct Row {
  Told told;
  void (*step)(Base&, Weights, const Released&, const StepContext&) = nullptr;
};

#define STEP                                                                                   \
  []([[maybe_unused]] Base & self, Weights weights, [[maybe_unused]] const Released& gradient, \
     [[maybe_unused]] const StepContext& context)

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"},
     .step = STEP { self.descend(weights, gradient, context.learning_rate);
}  // namespace
}
, {.told = {"idle", "never moves"}, .step = STEP{self.check(gradient);
static_cast<void>(weights);
}
}
, {.told = {"explodes", "sets a weight to infinity"},
   .step = STEP{weights[0] = std::numeric_limits<float>::infinity();
}
}
, {.told = {"nan", "sets a weight to what is no number"}, .step = STEP{weights[0] = std::nanf("");
}
}
, {.told = {"takes_nan", "moves by gradients that are not finite"},
   .step = STEP{for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -=
                static_cast<float>(context.learning_rate) * gradient.values()[i];
}
}
, {.told = {"half_a_step_and_throws", "moves, and then refuses"}, .step = STEP{weights[0] += 1.0f;
self.descend(weights, gradient, context.learning_rate);
}
}
, {.told = {"normalises_by_zero", "divides by the gradient's norm"},
   .step = STEP{self.check(gradient);
float norm = 0.0f;
for (const float x : gradient.values()) norm += x * x;
for (std::size_t i = 0; i < weights.size(); ++i)
  weights[i] -= gradient.values()[i] / std::sqrt(norm);
}
}
, {.told = {"counts_all_calls", "instances share a counter"},
   .step = STEP{static thread_local std::uint64_t calls = 0;
self.descend(weights, gradient, context.learning_rate / static_cast<double>(1 + ++calls % 5));
}
}
, {.told = {"thread_decides", "another step on another thread"},
   .step = STEP{self.descend(weights, gradient,
                             std::this_thread::get_id() == kHome ? context.learning_rate : 0.37);
}
}
, {.told = {"remembers_runs", "start() forgets nothing"},
   .step = STEP{
       self.descend(weights, gradient, context.learning_rate / static_cast<double>(++self.calls_));
}
}
, {.told = {"ignores_the_rate", "a learning rate of its own", Let::harmless, "post-processing"},
   .step = STEP{self.descend(weights, gradient, 0.01);
}
}
, {.told = {"ascends", "ascent instead of descent", Let::harmless, "post-processing"},
   .step = STEP{self.descend(weights, gradient, -context.learning_rate);
}
}
, {.told = {"denoises", "rounds the released gradient: whoever sees it may do that", Let::harmless,
            "post-processing"},
   .step = STEP{self.check(gradient);
for (std::size_t i = 0; i < weights.size(); ++i)
  weights[i] -= 0.1f * std::round(gradient.values()[i]);
}
}
,
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  void step(Weights weights, const Released& gradient, const StepContext& context) override {
    kTable[I].step(*this, weights, gradient, context);
  }
};

}  // namespace

std::vector<Fault> optimizer_faults() {
  return faults_of<Optimizer, Faulty>(kTable, "optimizer", [](const Row& row) {
    return std::vector<std::string>{std::string("optimizer=") + row.told.id};
  });
}
