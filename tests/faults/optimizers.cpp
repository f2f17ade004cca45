// Faulty optimizers. They only see released values, so they can break the run but never the
// guarantee.
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"

using namespace privgrad;

namespace optimizers {

using Weights = std::span<float>;
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

/// The arguments of a step.
struct Step {
  Base& self;
  Weights weights;
  const Released& gradient;
  double rate;

  void descend(double by) const { self.descend(weights, gradient, by); }
  void check() const { self.check(gradient); }
};

struct Row {
  Told told;
  void (*take)(const Step&) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"},
     .take = [](const Step& step) { step.descend(step.rate); }},
    {.told = {"idle", "never moves"}, .take = [](const Step& step) { step.check(); }},
    {.told = {"explodes", "sets a weight to infinity"},
     .take = [](const Step& step) { step.weights[0] = std::numeric_limits<float>::infinity(); }},
    {.told = {"nan", "sets a weight to NaN"},
     .take = [](const Step& step) { step.weights[0] = std::nanf(""); }},
    {.told = {"takes_nan", "moves by gradients that are not finite"},
     .take =
         [](const Step& step) {
           for (std::size_t i = 0; i < step.weights.size(); ++i)
             step.weights[i] -= static_cast<float>(step.rate) * step.gradient.values()[i];
         }},
    {.told = {"writes_into_the_release", "changes what was released, which others read after it"},
     .take =
         [](const Step& step) {
           step.descend(step.rate);
           const_cast<float&>(step.gradient.values()[0]) = 0.0f;
         }},
    {.told = {"half_a_step_and_throws", "moves, and then refuses"},
     .take =
         [](const Step& step) {
           step.weights[0] += 1.0f;
           step.descend(step.rate);
         }},
    {.told = {"normalises_by_zero", "divides by the gradient's norm"},
     .take =
         [](const Step& step) {
           step.check();
           float norm = 0.0f;
           for (const float x : step.gradient.values()) norm += x * x;
           for (std::size_t i = 0; i < step.weights.size(); ++i)
             step.weights[i] -= step.gradient.values()[i] / std::sqrt(norm);
         }},
    {.told = {"counts_all_calls", "instances share a counter"},
     .take =
         [](const Step& step) {
           static thread_local std::uint64_t calls = 0;
           step.descend(step.rate / static_cast<double>(1 + ++calls % 5));
         }},
    {.told = {"thread_decides", "another step on another thread"},
     .take =
         [](const Step& step) {
           step.descend(std::this_thread::get_id() == kHome ? step.rate : 0.37);
         }},
    {.told = {"remembers_runs", "start() forgets nothing"},
     .take =
         [](const Step& step) {
           const auto runs = static_cast<double>(++step.self.calls_);
           step.descend(step.rate / runs);
         }},
    {.told = {"ignores_the_rate", "a learning rate of its own", Let::harmless, "post-processing"},
     .take = [](const Step& step) { step.descend(0.01); }},
    {.told = {"ascends", "ascent instead of descent", Let::harmless, "post-processing"},
     .take = [](const Step& step) { step.descend(-step.rate); }},
    {.told = {"denoises", "rounds the released gradient: whoever sees it may do that",
              Let::harmless, "post-processing"},
     .take =
         [](const Step& step) {
           step.check();
           for (std::size_t i = 0; i < step.weights.size(); ++i)
             step.weights[i] -= 0.1f * std::round(step.gradient.values()[i]);
         }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  void step(Weights weights, const Released& gradient, const StepContext& context) override {
    kTable[I].take({*this, weights, gradient, context.learning_rate});
  }
};

}  // namespace optimizers

std::vector<Fault> optimizer_faults() {
  using namespace optimizers;
  return faults_of<Optimizer, Faulty>(kTable, "optimizer", [](const Row& row) {
    return std::vector<std::string>{std::string("optimizer=") + row.told.id};
  });
}
