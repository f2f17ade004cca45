// Accountants that understate the cost, or make another forbidden statement.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <thread>

#include "fault.hpp"
#include "right_accountant.hpp"

using namespace privgrad;

namespace accountants {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Base : public RightAccountant {
 public:
  using RightAccountant::RightAccountant;
  Adjacency adjacency_ = Adjacency::zero_out;
  mutable double asked_ = 0.0;
  std::uint64_t composed_ = 0;
};

PrivacyAnswer answer(double value, BoundKind bound = BoundKind::upper) {
  return Base::answer(value, bound);
}
template <class Kind>
const Kind* as(const Event& event) {
  return Base::as<Kind>(event);
}

/// The arguments of a request for epsilon.
struct EpsilonAsked {
  const Base& self;
  double delta;

  double right_at(double at) const { return self.smallest_epsilon(at); }
  double right() const { return right_at(delta); }
};
struct DeltaAsked {
  const Base& self;
  double epsilon;

  double right() const { return self.smallest_delta(epsilon); }
};
/// A call that composes an event of cost `one`, `count` times.
struct Composing {
  Base& self;
  double one;
  std::uint64_t count;

  double& spent() const { return self.square_; }
  double cost_of(std::uint64_t times) const { return one * static_cast<double>(times); }
  double cost() const { return cost_of(count); }
};

struct Row {
  Told told;
  PrivacyAnswer (*epsilon)(const EpsilonAsked&) = nullptr;
  PrivacyAnswer (*delta)(const DeltaAsked&) = nullptr;
  double (*cost)(const Base&, const Event&) = nullptr;
  void (*compose)(const Composing&) = nullptr;
  void (*start)(Base&) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Answers that are too small.
    {.told = {"epsilon_half", "half of what was spent"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(0.5 * asked.right()); }},
    {.told = {"epsilon_nine_tenths", "a tenth too little"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(0.9 * asked.right()); }},
    {.told = {"note_with_line_ends", "a note of several lines, with a quotation mark and a NUL",
              Let::harmless, "it is quoted in one line wherever it is shown, and escaped in files"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           PrivacyAnswer made = answer(asked.right());
           made.note = std::string("one\n\"two\"\r\n\0three", 18);
           return made;
         }},
    {.told = {"epsilon_a_hundredth_less", "a hundredth too little"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(0.99 * asked.right()); }},
    {.told = {"epsilon_a_thousandth_less", "a thousandth too little"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(0.999 * asked.right()); }},
    {.told = {"epsilon_less_a_constant", "a constant too little"},
     .epsilon =
         [](const EpsilonAsked& asked) { return answer(std::max(0.0, asked.right() - 0.01)); }},
    {.told = {"epsilon_in_two_digits", "cut to two digits for the table of a paper"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(std::floor(100.0 * asked.right()) / 100.0);
         }},
    {.told = {"epsilon_in_bits", "bits instead of nats, the other way round"},
     .epsilon =
         [](const EpsilonAsked& asked) { return answer(asked.right() * std::numbers::ln2); }},
    {.told = {"epsilon_always_one", "the target instead of what was spent"},
     .epsilon = [](const EpsilonAsked&) { return answer(1.0); }},
    {.told = {"epsilon_zero", "nothing was spent"},
     .epsilon = [](const EpsilonAsked&) { return answer(0.0); }},
    {.told = {"epsilon_capped", "never more than 10"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(std::min(10.0, asked.right())); }},
    {.told = {"epsilon_negative", "below 0"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(-asked.right() - 1.0); }},
    {.told = {"epsilon_nan", "no number"},
     .epsilon = [](const EpsilonAsked&) { return answer(std::nan("")); }},
    {.told = {"epsilon_minus_infinity", "below all numbers"},
     .epsilon = [](const EpsilonAsked&) { return answer(-kInfinity); }},
    {.told = {"delta_half", "half of delta"},
     .delta = [](const DeltaAsked& asked) { return answer(0.5 * asked.right()); }},
    {.told = {"delta_nine_tenths", "a tenth of delta too little"},
     .delta = [](const DeltaAsked& asked) { return answer(0.9 * asked.right()); }},
    {.told = {"delta_zero", "pure differential privacy by Gaussian noise"},
     .delta = [](const DeltaAsked&) { return answer(0.0); }},
    {.told = {"delta_above_one", "a delta above one"},
     .delta = [](const DeltaAsked& asked) { return answer(1.0 + asked.right()); }},
    {.told = {"epsilon_for_ten_delta", "answers for a larger delta than it was asked for"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(asked.right_at(std::min(0.999, 10.0 * asked.delta)));
         }},
    {.told = {"epsilon_for_a_constant_delta", "answers for 1e-5, whatever it was asked for"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(asked.right_at(std::max(asked.delta, 1e-5)));
         }},
    // Wrong formulas.
    {.told = {"rdp_without_log", "a conversion from Renyi divergence without its logarithm"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(asked.self.square_ / 2.0); }},
    {.told = {"classic_with_wrong_constant",
              "sqrt(2 ln(1/delta)) without the 1.25, as an upper bound"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(std::sqrt(asked.self.square_ * std::log(1.0 / asked.delta)));
         }},
    {.told = {"central_limit",
              "a central limit approximation called a bound (Gopi et al. 2021 on GDP's)"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(asked.right() * (1.0 - 1e-3 / (1.0 + asked.self.square_)));
         }},
    {.told = {"discretised_down",
              "privacy losses rounded down to a lattice (Koskela et al. 2020 round up)"},
     .epsilon =
         [](const EpsilonAsked& asked) { return answer(0.05 * std::floor(asked.right() / 0.05)); }},
    {.told = {"in_single_precision", "a sum in float, rounded down"},
     .compose =
         [](const Composing& more) {
           const auto sum = static_cast<float>(more.spent() + more.cost());
           more.spent() = static_cast<double>(std::nextafter(sum, 0.0f)) * (1.0 - 1e-6);
         }},
    // Composition.
    {.told = {"count_ignored", "many releases cost as one"},
     .compose = [](const Composing& more) { more.spent() += more.one; }},
    {.told = {"root_of_count", "composition by the root of the number of steps"},
     .compose =
         [](const Composing& more) {
           more.spent() += more.one * std::sqrt(static_cast<double>(more.count));
         }},
    {.told = {"count_in_32_bits", "counts that wrap"},
     .compose =
         [](const Composing& more) { more.spent() += more.cost_of(more.count & 0xffffffff); }},
    {.told = {"count_in_8_bits", "counts that wrap early"},
     .compose = [](const Composing& more) { more.spent() += more.cost_of(more.count & 0xff); }},
    {.told = {"the_last_only", "composing forgets what was there"},
     .compose = [](const Composing& more) { more.spent() = more.cost(); }},
    {.told = {"the_first_only", "later releases are free"},
     .compose =
         [](const Composing& more) {
           if (more.spent() == 0.0) more.spent() = more.cost();
         }},
    {.told = {"the_largest_only", "parallel instead of sequential composition"},
     .compose = [](const Composing& more) { more.spent() = std::max(more.spent(), more.cost()); }},
    {.told = {"free_after_twenty", "the twenty-first release is free"},
     .compose =
         [](const Composing& more) {
           if (++more.self.composed_ <= 20) more.spent() += more.cost();
         }},
    {.told = {"free_after_ten_thousand", "late releases are free, in single precision"},
     .compose =
         [](const Composing& more) {
           more.self.composed_ += more.count;
           if (more.self.composed_ <= 10000) more.spent() += more.cost();
         }},
    {.told = {"one_too_few", "a loop that ends one early"},
     .compose =
         [](const Composing& more) {
           more.spent() += more.cost_of(more.count > 1 ? more.count - 1 : more.count);
         }},
    {.told = {"refunds", "a release makes it cheaper"},
     .compose =
         [](const Composing& more) { more.spent() = std::max(0.0, more.spent() - more.one); }},
    {.told = {"order_counts", "another total in another order"},
     .compose = [](const Composing& more) { more.spent() = 0.99 * more.spent() + more.cost(); }},
    {.told = {"forgets_when_asked",
              "epsilon() spends what it tells (a function that is const in name only)"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           const double value = asked.right();
           const_cast<Base&>(asked.self).square_ *= 0.9;
           return answer(value);
         }},
    {.told = {"tells_the_first_answer", "a cache that nobody clears"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           if (asked.self.asked_ == 0.0) asked.self.asked_ = asked.right();
           return answer(asked.self.asked_);
         }},
    // Events.
    {.told = {"noise_squared", "the variance for the standard deviation"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* gaussian = as<GaussianEvent>(event);
           return gaussian != nullptr ? std::pow(gaussian->noise_multiplier, -4.0)
                                      : self.RightAccountant::cost(event);
         }},
    {.told = {"noise_root", "the standard deviation for the variance"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* gaussian = as<GaussianEvent>(event);
           return gaussian != nullptr ? 1.0 / gaussian->noise_multiplier
                                      : self.RightAccountant::cost(event);
         }},
    {.told = {"noise_upside_down", "more noise costs more"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* gaussian = as<GaussianEvent>(event);
           return gaussian != nullptr ? gaussian->noise_multiplier * gaussian->noise_multiplier
                                      : self.RightAccountant::cost(event);
         }},
    {.told = {"large_noise_is_free", "underflow: noise beyond 20 costs nothing"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* gaussian = as<GaussianEvent>(event);
           return gaussian != nullptr && gaussian->noise_multiplier > 20.0
                      ? 0.0
                      : self.RightAccountant::cost(event);
         }},
    {.told = {"small_noise_is_free", "overflow: noise below 0.3 costs nothing"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* gaussian = as<GaussianEvent>(event);
           return gaussian != nullptr && gaussian->noise_multiplier < 0.3
                      ? 0.0
                      : self.RightAccountant::cost(event);
         }},
    {.told = {"laplace_is_gaussian", "one mechanism for another"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* laplace = as<LaplaceEvent>(event);
           return laplace != nullptr ? 1.0 / (laplace->noise_multiplier * laplace->noise_multiplier)
                                     : self.RightAccountant::cost(event);
         }},
    {.told = {"sampling_squares_the_rate", "q^2 / sigma^2 for any q and sigma, as an upper bound"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* sampled = as<PoissonSampledEvent>(event);
           if (sampled == nullptr) return self.RightAccountant::cost(event);
           const double rate = sampled->sampling_probability;
           return rate * rate * self.cost(*sampled->of);
         }},
    {.told = {"sampling_is_free", "a sampled release costs nothing"},
     .cost =
         [](const Base& self, const Event& event) {
           return as<PoissonSampledEvent>(event) != nullptr ? 0.0
                                                            : self.RightAccountant::cost(event);
         }},
    {.told = {"non_private_is_free", "no noise, no cost"},
     .cost =
         [](const Base& self, const Event& event) {
           return as<NonPrivateEvent>(event) != nullptr ? 0.0 : self.RightAccountant::cost(event);
         }},
    {.told = {"unknown_is_free", "what it does not know costs nothing"},
     .cost =
         [](const Base& self, const Event& event) {
           const double cost = self.RightAccountant::cost(event);
           return std::isnan(cost) ? 0.0 : cost;
         }},
    {.told = {"unsupported_is_free", "a mechanism that nothing is proved about costs nothing"},
     .cost =
         [](const Base& self, const Event& event) {
           return as<UnsupportedEvent>(event) != nullptr ? 0.0 : self.RightAccountant::cost(event);
         }},
    {.told = {"nested_is_free", "what is inside a composition is not looked at"},
     .cost =
         [](const Base& self, const Event& event) {
           return as<ComposedEvent>(event) != nullptr ? 0.0 : self.RightAccountant::cost(event);
         }},
    {.told = {"repeats_count_once", "self_composed counts once"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* repeated = as<SelfComposedEvent>(event);
           if (repeated == nullptr) return self.RightAccountant::cost(event);
           return repeated->count == 0 ? 0.0 : self.cost(*repeated->of);
         }},
    {.told = {"first_part_only", "of a composition the first part"},
     .cost =
         [](const Base& self, const Event& event) {
           const auto* composed = as<ComposedEvent>(event);
           if (composed == nullptr) return self.RightAccountant::cost(event);
           return composed->of.empty() ? 0.0 : self.cost(composed->of.front());
         }},
    // Adjacency.
    {.told = {"replace_one_as_zero_out", "one clip norm of sensitivity where there are two"},
     .start =
         [](Base& self) {
           self.sensitivity_ = 1.0;
           self.square_ = 0.0;
         }},
    {.told = {"half_the_sensitivity", "half a clip norm"},
     .start =
         [](Base& self) {
           self.sensitivity_ = 0.5 * sensitivity_of_unit_bound(self.adjacency_);
           self.square_ = 0.0;
         }},
    {.told = {"start_forgets_nothing", "what was spent stays, or goes, as it likes"},
     .start = [](Base& self) { self.sensitivity_ = sensitivity_of_unit_bound(self.adjacency_); }},
    // Claims.
    {.told = {"upper_called_exact", "an upper bound that is called exact"},
     .epsilon =
         [](const EpsilonAsked& asked) { return answer(1.01 * asked.right(), BoundKind::exact); }},
    {.told = {"an_estimate", "an honest estimate: it must not guard"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           return answer(0.9 * asked.right(), BoundKind::estimate);
         }},
    {.told = {"no_kind_of_bound", "an answer that does not say which kind of bound it is"},
     .epsilon = [](const EpsilonAsked& asked) { return answer(asked.right(), BoundKind{}); }},
    {.told = {"lower_above_value", "a lower bound above the upper one"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           PrivacyAnswer result = answer(asked.right());
           result.lower = result.value + 1.0;
           return result;
         }},
    {.told = {"lower_above_truth", "a lower bound above the truth"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           PrivacyAnswer result = answer(2.0 * asked.right());
           result.lower = 1.5 * asked.right();
           return result;
         }},
    {.told = {"grows_with_delta", "the failure probability the wrong way round"},
     .epsilon =
         [](const EpsilonAsked& asked) { return answer(asked.right_at(1.0 - asked.delta)); }},
    {.told = {"thread_decides", "another answer on another thread"},
     .epsilon =
         [](const EpsilonAsked& asked) {
           const bool home = std::this_thread::get_id() == kHome;
           return answer(home ? asked.right() : asked.right() / 2.0);
         }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  using Base::Base;
  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    if (kTable[I].start != nullptr) return kTable[I].start(*this);
    Base::start(adjacency);
    composed_ = 0;
    asked_ = 0.0;
  }
  void compose(const Event& event, std::uint64_t count) override {
    if (kTable[I].compose == nullptr || refuses(event)) return Base::compose(event, count);
    if (count > 0) kTable[I].compose({*this, cost(event), count});
  }
  PrivacyAnswer epsilon(double delta) const override {
    check_delta(delta);
    return kTable[I].epsilon != nullptr ? kTable[I].epsilon({*this, delta}) : Base::epsilon(delta);
  }
  PrivacyAnswer delta(double epsilon) const override {
    check_epsilon(epsilon);
    return kTable[I].delta != nullptr ? kTable[I].delta({*this, epsilon}) : Base::delta(epsilon);
  }
  double cost(const Event& event) const override {
    return kTable[I].cost != nullptr ? kTable[I].cost(*this, event) : Base::cost(event);
  }
};

}  // namespace accountants

std::vector<Fault> accountant_faults() {
  using namespace accountants;
  return faults_of<Accountant, Faulty>(kTable, "accountant", [](const Row& row) {
    return std::vector<std::string>{std::string("privacy.accountant=") + row.told.id};
  });
}
