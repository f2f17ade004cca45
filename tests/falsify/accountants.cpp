// Accountants that state less than was spent, or something else than they may.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <thread>

#include "fault.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"

using namespace privgrad;

namespace accountants {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Gaussians by their exact trade-off (Balle and Wang 2018, Theorem 8): the sum of the squares of
/// sensitivity / sigma says everything.
class Base : public Accountant {
 public:
  static double tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }
  static double exact_delta(double square, double epsilon) {
    if (square == 0.0) return 0.0;
    if (std::isinf(square)) return 1.0;
    const double mu = std::sqrt(square);
    const double second = tail(epsilon / mu + mu / 2.0);
    return std::max(
        0.0, tail(epsilon / mu - mu / 2.0) - (second == 0.0 ? 0.0 : std::exp(epsilon) * second));
  }
  static double exact_epsilon(double square, double delta) {
    if (std::isinf(square)) return kInfinity;
    if (exact_delta(square, 0.0) <= delta) return 0.0;
    double low = 0.0, high = 1.0;
    while (exact_delta(square, high) > delta) high *= 2.0;
    for (int i = 0; i < 60; ++i)
      (exact_delta(square, (low + high) / 2) > delta ? low : high) = (low + high) / 2;
    return high;
  }
  /// What an event adds; NaN if it is not understood.
  double right_cost(const Event& event) const {
    if (const auto* gaussian = std::get_if<GaussianEvent>(&event.kind())) {
      const double ratio = sensitivity_ / gaussian->noise_multiplier;
      return ratio * ratio;
    }
    if (std::holds_alternative<NonPrivateEvent>(event.kind())) return kInfinity;
    if (const auto* repeated = std::get_if<SelfComposedEvent>(&event.kind()))
      return repeated->count == 0 ? 0.0
                                  : static_cast<double>(repeated->count) * cost(*repeated->of);
    if (const auto* composed = std::get_if<ComposedEvent>(&event.kind())) {
      double sum = 0.0;
      for (const Event& part : composed->of) sum += cost(part);
      return sum;
    }
    return std::nan("");
  }
  virtual double cost(const Event& event) const = 0;

  Adjacency adjacency_ = Adjacency::zero_out;
  double sensitivity_ = 1.0, square_ = 0.0, largest_ = 0.0;
  mutable double asked_ = 0.0;
  std::uint64_t composed_ = 0;
};

PrivacyAnswer answer(double value, BoundKind bound = BoundKind::upper) {
  return {.value = value, .bound = bound, .lower = {}, .note = {}};
}

struct Row {
  Told told;
  PrivacyAnswer (*epsilon)(const Base&, double delta) = nullptr;
  PrivacyAnswer (*delta)(const Base&, double epsilon) = nullptr;
  double (*cost)(const Base&, const Event&) = nullptr;
  void (*compose)(Base&, double cost, std::uint64_t count) = nullptr;
  void (*start)(Base&, Adjacency) = nullptr;
};

#define EPSILON [](const Base& self, [[maybe_unused]] double delta) -> PrivacyAnswer
#define DELTA [](const Base& self, [[maybe_unused]] double epsilon) -> PrivacyAnswer
#define COST [](const Base& self, [[maybe_unused]] const Event& event) -> double
#define COMPOSE [](Base & self, [[maybe_unused]] double cost, [[maybe_unused]] std::uint64_t count)
#define START [](Base & self, [[maybe_unused]] Adjacency adjacency)

double epsilon_of(const Base& self, double delta) {
  return self.exact_epsilon(self.square_, delta);
}
double delta_of(const Base& self, double epsilon) {
  return self.exact_delta(self.square_, epsilon);
}
const GaussianEvent* gaussian(const Event& event) {
  return std::get_if<GaussianEvent>(&event.kind());
}
bool is_sampled(const Event& event) {
  return std::holds_alternative<PoissonSampledEvent>(event.kind());
}

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Answers that are too small.
    {.told = {"epsilon_half", "half of what was spent"},
     .epsilon = EPSILON { return answer(0.5 * epsilon_of(self, delta));
}  // namespace accountants
}
, {.told = {"epsilon_nine_tenths", "a tenth too little"},
   .epsilon = EPSILON{return answer(0.9 * epsilon_of(self, delta));
}
}
, {.told = {"epsilon_a_hundredth_less", "a hundredth too little"},
   .epsilon = EPSILON{return answer(0.99 * epsilon_of(self, delta));
}
}
, {.told = {"epsilon_a_thousandth_less", "a thousandth too little"},
   .epsilon = EPSILON{return answer(0.999 * epsilon_of(self, delta));
}
}
, {.told = {"epsilon_less_a_constant", "a constant too little"},
   .epsilon = EPSILON{return answer(std::max(0.0, epsilon_of(self, delta) - 0.01));
}
}
, {.told = {"epsilon_in_two_digits", "cut to two digits for the table of a paper"},
   .epsilon = EPSILON{return answer(std::floor(100.0 * epsilon_of(self, delta)) / 100.0);
}
}
, {.told = {"epsilon_in_bits", "bits instead of nats, the other way round"},
   .epsilon = EPSILON{return answer(epsilon_of(self, delta) * std::numbers::ln2);
}
}
, {.told = {"epsilon_always_one", "the target instead of what was spent"},
   .epsilon = EPSILON{return answer(self.square_ >= 0.0 ? 1.0 : 0.0);
}
}
, {.told = {"epsilon_zero", "nothing was spent"},
   .epsilon = EPSILON{return answer(0.0 * self.sensitivity_);
}
}
, {.told = {"epsilon_capped", "never more than 10"},
   .epsilon = EPSILON{return answer(std::min(10.0, epsilon_of(self, delta)));
}
}
, {.told = {"epsilon_negative", "below 0"},
   .epsilon = EPSILON{return answer(-epsilon_of(self, delta) - 1.0);
}
}
, {.told = {"epsilon_nan", "no number"},
   .epsilon = EPSILON{return answer(std::nan("") * self.square_);
}
}
, {.told = {"epsilon_minus_infinity", "below all numbers"},
   .epsilon = EPSILON{return answer(-kInfinity * self.sensitivity_);
}
}
, {.told = {"delta_half", "half of delta"},
   .delta = DELTA{return answer(0.5 * delta_of(self, epsilon));
}
}
, {.told = {"delta_nine_tenths", "a tenth of delta too little"},
   .delta = DELTA{return answer(0.9 * delta_of(self, epsilon));
}
}
, {.told = {"delta_zero", "pure differential privacy by Gaussian noise"},
   .delta = DELTA{return answer(0.0 * self.sensitivity_);
}
}
, {.told = {"delta_above_one", "a delta that is none"},
   .delta = DELTA{return answer(1.0 + delta_of(self, epsilon));
}
}
, {.told = {"epsilon_for_ten_delta", "answers for a larger delta than it was asked for"},
   .epsilon = EPSILON{return answer(epsilon_of(self, std::min(0.999, 10.0 * delta)));
}
}
, {.told = {"epsilon_for_a_constant_delta", "answers for 1e-5, whatever it was asked for"},
   .epsilon = EPSILON{return answer(epsilon_of(self, std::max(delta, 1e-5)));
}
}
,
    // Wrong formulas.
    {.told = {"rdp_without_log", "a conversion from Renyi divergence without its logarithm"},
     .epsilon = EPSILON{return answer(self.square_ / 2.0 * (delta > 0.0 ? 1.0 : 2.0));
}
}
, {.told = {"classic_with_wrong_constant",
            "sqrt(2 ln(1/delta)) without the 1.25, as an upper bound"},
   .epsilon = EPSILON{return answer(std::sqrt(self.square_ * std::log(1.0 / delta)));
}
}
, {.told = {"central_limit",
            "a central limit approximation called a bound (Gopi et al. 2021 on "
            "GDP's)"},
   .epsilon = EPSILON{return answer(epsilon_of(self, delta) * (1.0 - 1e-3 / (1.0 + self.square_)));
}
}
, {.told = {"discretised_down",
            "privacy losses rounded down to a lattice (Koskela et al. 2020 "
            "round up)"},
   .epsilon = EPSILON{return answer(0.05 * std::floor(epsilon_of(self, delta) / 0.05));
}
}
, {.told = {"in_single_precision", "a sum in float, rounded down"},
   .compose = COMPOSE{const auto sum =
                          static_cast<float>(self.square_ + cost * static_cast<double>(count));
self.square_ = static_cast<double>(std::nextafter(sum, 0.0f)) * (1.0 - 1e-6);
}
}
,
    // Composition.
    {.told = {"count_ignored", "many releases cost as one"},
     .compose = COMPOSE{self.square_ += count > 0 ? cost : 0.0;
}
}
, {.told = {"root_of_count", "composition by the root of the number of steps"},
   .compose = COMPOSE{self.square_ += cost * std::sqrt(static_cast<double>(count));
}
}
, {.told = {"count_in_32_bits", "counts that wrap"},
   .compose = COMPOSE{self.square_ += cost * static_cast<double>(count & 0xffffffff);
}
}
, {.told = {"count_in_8_bits", "counts that wrap early"},
   .compose = COMPOSE{self.square_ += cost * static_cast<double>(count & 0xff);
}
}
, {.told = {"the_last_only", "composing forgets what was there"},
   .compose = COMPOSE{self.square_ = cost * static_cast<double>(count);
}
}
, {.told = {"the_first_only", "later releases are free"},
   .compose = COMPOSE{if (self.square_ == 0.0) self.square_ = cost * static_cast<double>(count);
}
}
, {.told = {"the_largest_only", "parallel instead of sequential composition"},
   .compose = COMPOSE{self.square_ = std::max(self.square_, cost* static_cast<double>(count));
}
}
, {.told = {"free_after_twenty", "the twenty-first release is free"},
   .compose = COMPOSE{if (++self.composed_ <= 20) self.square_ += cost * static_cast<double>(count);
}
}
, {.told = {"free_after_ten_thousand", "late releases are free, in single precision"},
   .compose = COMPOSE{self.composed_ += count;
if (self.composed_ <= 10000) self.square_ += cost * static_cast<double>(count);
}
}
, {.told = {"one_too_few", "a loop that ends one early"},
   .compose = COMPOSE{self.square_ += cost * static_cast<double>(count > 1 ? count - 1 : count);
}
}
, {.told = {"refunds", "a release makes it cheaper"},
   .compose =
       COMPOSE{self.square_ = std::max(0.0, self.square_ - cost + 0.0 * static_cast<double>(count));
}
}
, {.told = {"order_counts", "another total in another order"},
   .compose = COMPOSE{self.square_ = 0.99 * self.square_ + cost * static_cast<double>(count);
}
}
, {.told = {"forgets_when_asked", "epsilon() spends what it tells (a const function that is none)"},
   .epsilon = EPSILON{const double value = epsilon_of(self, delta);
const_cast<Base&>(self).square_ *= 0.9;
return answer(value);
}
}
, {.told = {"tells_the_first_answer", "a cache that nobody clears"},
   .epsilon = EPSILON{if (self.asked_ == 0.0) self.asked_ = epsilon_of(self, delta);
return answer(self.asked_);
}
}
,
    // Events.
    {.told = {"noise_squared", "the variance for the standard deviation"},
     .cost = COST{if (const auto* g = gaussian(event)) return std::pow(g->noise_multiplier, -4.0);
return self.right_cost(event);
}
}
, {.told = {"noise_root", "the standard deviation for the variance"},
   .cost = COST{if (const auto* g = gaussian(event)) return 1.0 / g->noise_multiplier;
return self.right_cost(event);
}
}
, {.told = {"noise_upside_down", "more noise costs more"},
   .cost =
       COST{if (const auto* g = gaussian(event)) return g->noise_multiplier * g->noise_multiplier;
return self.right_cost(event);
}
}
, {.told = {"large_noise_is_free", "underflow: noise beyond 20 costs nothing"},
   .cost = COST{
       if (const auto* g = gaussian(event); g != nullptr && g->noise_multiplier > 20.0) return 0.0;
return self.right_cost(event);
}
}
, {.told = {"small_noise_is_free", "overflow: noise below 0.3 costs nothing"},
   .cost = COST{
       if (const auto* g = gaussian(event); g != nullptr && g->noise_multiplier < 0.3) return 0.0;
return self.right_cost(event);
}
}
, {.told = {"laplace_is_gaussian", "one mechanism for another"},
   .cost = COST{if (const auto* l = std::get_if<LaplaceEvent>(&event.kind())) return 1.0 /
                (l->noise_multiplier * l->noise_multiplier);
return self.right_cost(event);
}
}
, {.told = {"sampling_squares_the_rate", "q^2 / sigma^2 for any q and sigma, as an upper bound"},
   .cost = COST{if (const auto* s = std::get_if<PoissonSampledEvent>(
                        &event.kind())) return s->sampling_probability *
                s->sampling_probability * self.cost(*s->of);
return self.right_cost(event);
}
}
, {.told = {"sampling_is_free", "a sampled release costs nothing"},
   .cost = COST{return is_sampled(event) ? 0.0 : self.right_cost(event);
}
}
, {.told = {"non_private_is_free", "no noise, no cost"},
   .cost = COST{
       return std::holds_alternative<NonPrivateEvent>(event.kind()) ? 0.0 : self.right_cost(event);
}
}
, {.told = {"unknown_is_free", "what it does not know costs nothing"},
   .cost = COST{const double cost = self.right_cost(event);
return std::isnan(cost) ? 0.0 : cost;
}
}
, {.told = {"unsupported_is_free", "a mechanism that nothing is proved about costs nothing"},
   .cost = COST{
       return std::holds_alternative<UnsupportedEvent>(event.kind()) ? 0.0 : self.right_cost(event);
}
}
, {.told = {"nested_is_free", "what is inside a composition is not looked at"},
   .cost = COST{return std::holds_alternative<ComposedEvent>(event.kind()) ? 0.0
                                                                           : self.right_cost(event);
}
}
, {.told = {"repeats_count_once", "self_composed counts once"},
   .cost =
       COST{if (const auto* r = std::get_if<SelfComposedEvent>(&event.kind())) return r->count == 0
                ? 0.0
                : self.cost(*r->of);
return self.right_cost(event);
}
}
, {.told = {"first_part_only", "of a composition the first part"},
   .cost = COST{if (const auto* c = std::get_if<ComposedEvent>(&event.kind())) return c->of.empty()
                    ? 0.0
                    : self.cost(c->of.front());
return self.right_cost(event);
}
}
,
    // Adjacency.
    {.told = {"replace_one_as_zero_out", "one clip norm of sensitivity where there are two"},
     .start = START{self.sensitivity_ = 1.0;
self.square_ = 0.0;
}
}
, {.told = {"half_the_sensitivity", "half a clip norm"},
   .start = START{self.sensitivity_ = 0.5 * sensitivity_of_unit_bound(adjacency);
self.square_ = 0.0;
}
}
, {.told = {"start_forgets_nothing", "what was spent stays, or goes, as it likes"},
   .start = START{self.sensitivity_ = sensitivity_of_unit_bound(adjacency);
}
}
,
    // Claims.
    {.told = {"upper_called_exact", "an upper bound that is called exact"},
     .epsilon = EPSILON{return answer(1.01 * epsilon_of(self, delta), BoundKind::exact);
}
}
, {.told = {"an_estimate", "an honest estimate: it must not guard"},
   .epsilon = EPSILON{return answer(0.9 * epsilon_of(self, delta), BoundKind::estimate);
}
}
, {.told = {"no_kind_of_bound", "an answer that does not say which kind of bound it is"},
   .epsilon = EPSILON{return answer(epsilon_of(self, delta), BoundKind{});
}
}
, {.told = {"lower_above_value", "a lower bound above the upper one"},
   .epsilon = EPSILON{PrivacyAnswer result = answer(epsilon_of(self, delta));
result.lower = result.value + 1.0;
return result;
}
}
, {.told = {"lower_above_truth", "a lower bound above the truth"},
   .epsilon = EPSILON{PrivacyAnswer result = answer(2.0 * epsilon_of(self, delta));
result.lower = 1.5 * epsilon_of(self, delta);
return result;
}
}
, {.told = {"grows_with_delta", "the failure probability the wrong way round"},
   .epsilon = EPSILON{return answer(epsilon_of(self, 1.0 - delta));
}
}
, {.told = {"thread_decides", "another answer on another thread"},
   .epsilon = EPSILON{static const auto home = std::this_thread::get_id();
const double value = epsilon_of(self, delta);
return answer(std::this_thread::get_id() == home ? value : value / 2.0);
}
}
,
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    if (kTable[I].start != nullptr) return kTable[I].start(*this, adjacency);
    sensitivity_ = sensitivity_of_unit_bound(adjacency);
    square_ = 0.0;
    composed_ = 0;
    asked_ = 0.0;
  }
  std::optional<std::string> refuses(const Event& event) const override {
    return std::isnan(cost(event)) ? std::optional<std::string>("only Gaussians") : std::nullopt;
  }
  void compose(const Event& event, std::uint64_t count) override {
    const double one = cost(event);
    if (std::isnan(one)) throw PrivacyError("only Gaussians");
    if (count == 0) return;
    if (kTable[I].compose != nullptr) return kTable[I].compose(*this, one, count);
    square_ += static_cast<double>(count) * one;
  }
  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) throw ConfigError("delta is outside (0, 1)");
    return kTable[I].epsilon != nullptr ? kTable[I].epsilon(*this, delta)
                                        : answer(epsilon_of(*this, delta));
  }
  PrivacyAnswer delta(double epsilon) const override {
    if (!(epsilon >= 0.0)) throw ConfigError("epsilon is negative");
    return kTable[I].delta != nullptr ? kTable[I].delta(*this, epsilon)
                                      : answer(std::min(1.0, delta_of(*this, epsilon)));
  }
  double cost(const Event& event) const override {
    return kTable[I].cost != nullptr ? kTable[I].cost(*this, event) : right_cost(event);
  }
};

}  // namespace accountants

std::vector<Fault> accountant_faults() {
  using namespace accountants;
  return faults_of<Accountant, Faulty>(kTable, "accountant", [](const Row& row) {
    return std::vector<std::string>{std::string("privacy.accountant=") + row.told.id};
  });
}

#undef EPSILON
#undef DELTA
#undef COST
#undef COMPOSE
#undef START
