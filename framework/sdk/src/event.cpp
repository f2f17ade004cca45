#include "privgrad/event.hpp"

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad {
namespace {

void require(bool ok, const char* what, double value) {
  if (!ok) throw ConfigError(std::string(what) + ", got " + format_number(value));
}

void require_inner(const std::shared_ptr<const Event>& of, const char* who) {
  if (!of) throw ConfigError(std::string(who) + " needs the event that it is made of");
}

bool positive(double x) { return std::isfinite(x) && x > 0.0; }

void check_selection(const RepeatAndSelectEvent& e) {
  require(e.shape > -1.0, "repeat_and_select needs a shape above -1", e.shape);
  if (e.is_poisson()) {
    require(positive(e.mean), "repeat_and_select needs a finite mean above 0", e.mean);
  } else {
    require(std::isfinite(e.mean) && e.mean >= 1.0,
            "repeat_and_select needs a finite mean of at least 1, as there is at least one run",
            e.mean);
  }
  if (e.candidates.empty()) throw ConfigError("repeat_and_select needs at least one candidate");
}

void check(const Event::Kind& kind) {
  std::visit(
      Overloaded{
          [](const GaussianEvent& e) {
            require(positive(e.noise_multiplier),
                    "gaussian needs a finite noise_multiplier above 0", e.noise_multiplier);
          },
          [](const LaplaceEvent& e) {
            require(positive(e.noise_multiplier), "laplace needs a finite noise_multiplier above 0",
                    e.noise_multiplier);
          },
          [](const DiscreteGaussianEvent& e) {
            require(positive(e.sigma), "discrete_gaussian needs a finite sigma above 0", e.sigma);
            require(e.sensitivity >= 0, "discrete_gaussian needs a sensitivity of at least 0",
                    static_cast<double>(e.sensitivity));
          },
          [](const ZcdpEvent& e) {
            require(std::isfinite(e.rho) && e.rho >= 0.0, "zcdp needs a finite rho of at least 0",
                    e.rho);
          },
          [](const PoissonSampledEvent& e) {
            require(e.sampling_probability >= 0.0 && e.sampling_probability <= 1.0,
                    "poisson_sampled needs a sampling_probability in [0, 1]",
                    e.sampling_probability);
            require_inner(e.of, "poisson_sampled");
          },
          [](const SampledWithoutReplacementEvent& e) {
            require(e.source_dataset_size > 0,
                    "sampled_without_replacement needs a source_dataset_size above 0",
                    static_cast<double>(e.source_dataset_size));
            require(
                e.sample_size >= 0 && e.sample_size <= e.source_dataset_size,
                "sampled_without_replacement needs a sample_size between 0 and source_dataset_size",
                static_cast<double>(e.sample_size));
            require_inner(e.of, "sampled_without_replacement");
          },
          [](const RandomAllocationEvent& e) {
            require(e.steps >= 1, "random_allocation needs steps of at least 1",
                    static_cast<double>(e.steps));
            require_inner(e.of, "random_allocation");
          },
          [](const RepeatAndSelectEvent& e) { check_selection(e); },
          [](const ComposedEvent&) {},
          [](const SelfComposedEvent& e) {
            require(e.count >= 0, "self_composed needs a count of at least 0",
                    static_cast<double>(e.count));
            require_inner(e.of, "self_composed");
          },
          [](const NonPrivateEvent&) {},
          [](const UnsupportedEvent&) {},
      },
      kind);
}

std::shared_ptr<const Event> shared(Event event) {
  return std::make_shared<const Event>(std::move(event));
}

bool is_nothing(const Event& event) {
  const auto* composed = std::get_if<ComposedEvent>(&event.kind());
  return composed != nullptr && composed->of.empty();
}

void flatten_into(const Event& event, std::uint64_t count, std::vector<CountedEvent>& out) {
  if (count == 0) return;
  if (const auto* composed = std::get_if<ComposedEvent>(&event.kind())) {
    // The order within a repeated sequence is lost, which does not matter to composition.
    for (const Event& part : composed->of) flatten_into(part, count, out);
    return;
  }
  if (const auto* repeated = std::get_if<SelfComposedEvent>(&event.kind())) {
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(repeated->count), &product)) {
      throw ConfigError("self_composed: the number of repetitions does not fit in 64 bits");
    }
    flatten_into(*repeated->of, product, out);
    return;
  }
  if (!out.empty() && out.back().event == event) {
    if (__builtin_add_overflow(out.back().count, count, &out.back().count)) {
      throw ConfigError("composed: the number of repetitions does not fit in 64 bits");
    }
    return;
  }
  out.push_back({event, count});
}

}  // namespace

Event::Event(Kind kind) : kind_(std::move(kind)) { check(kind_); }

Event Event::gaussian(double noise_multiplier) { return Event(GaussianEvent{noise_multiplier}); }
Event Event::laplace(double noise_multiplier) { return Event(LaplaceEvent{noise_multiplier}); }
Event Event::discrete_gaussian(double sigma, std::int64_t sensitivity) {
  return Event(DiscreteGaussianEvent{sigma, sensitivity});
}
Event Event::zcdp(double rho) { return Event(ZcdpEvent{rho}); }
Event Event::poisson_sampled(double sampling_probability, Event of) {
  return Event(PoissonSampledEvent{sampling_probability, shared(std::move(of))});
}
Event Event::sampled_without_replacement(std::int64_t source_dataset_size, std::int64_t sample_size,
                                         Event of) {
  return Event(
      SampledWithoutReplacementEvent{source_dataset_size, sample_size, shared(std::move(of))});
}
Event Event::random_allocation(std::int64_t steps, Event of) {
  return Event(RandomAllocationEvent{steps, shared(std::move(of))});
}
Event Event::repeat_and_select(double mean, double shape, std::vector<Event> candidates) {
  return Event(RepeatAndSelectEvent{mean, shape, std::move(candidates)});
}
Event Event::composed(std::vector<Event> of) { return Event(ComposedEvent{std::move(of)}); }
Event Event::self_composed(std::int64_t count, Event of) {
  return Event(SelfComposedEvent{count, shared(std::move(of))});
}
Event Event::non_private() { return Event(NonPrivateEvent{}); }
Event Event::unsupported(std::string reason) { return Event(UnsupportedEvent{std::move(reason)}); }

std::string_view Event::name() const noexcept {
  constexpr std::string_view kNames[] = {"gaussian",          "laplace",
                                         "discrete_gaussian", "zcdp",
                                         "poisson_sampled",   "sampled_without_replacement",
                                         "random_allocation", "repeat_and_select",
                                         "composed",          "self_composed",
                                         "non_private",       "unsupported"};
  static_assert(std::size(kNames) == std::variant_size_v<Kind>);
  return kNames[kind_.index()];
}

bool operator==(const Event& a, const Event& b) {
  if (a.kind().index() != b.kind().index()) return false;
  return std::visit(
      Overloaded{
          [&](const GaussianEvent& e) {
            return e.noise_multiplier == std::get<GaussianEvent>(b.kind()).noise_multiplier;
          },
          [&](const LaplaceEvent& e) {
            return e.noise_multiplier == std::get<LaplaceEvent>(b.kind()).noise_multiplier;
          },
          [&](const DiscreteGaussianEvent& e) {
            const auto& other = std::get<DiscreteGaussianEvent>(b.kind());
            return e.sigma == other.sigma && e.sensitivity == other.sensitivity;
          },
          [&](const ZcdpEvent& e) { return e.rho == std::get<ZcdpEvent>(b.kind()).rho; },
          [&](const PoissonSampledEvent& e) {
            const auto& other = std::get<PoissonSampledEvent>(b.kind());
            return e.sampling_probability == other.sampling_probability && *e.of == *other.of;
          },
          [&](const SampledWithoutReplacementEvent& e) {
            const auto& other = std::get<SampledWithoutReplacementEvent>(b.kind());
            return e.source_dataset_size == other.source_dataset_size &&
                   e.sample_size == other.sample_size && *e.of == *other.of;
          },
          [&](const RandomAllocationEvent& e) {
            const auto& other = std::get<RandomAllocationEvent>(b.kind());
            return e.steps == other.steps && *e.of == *other.of;
          },
          [&](const RepeatAndSelectEvent& e) {
            const auto& other = std::get<RepeatAndSelectEvent>(b.kind());
            return e.mean == other.mean && e.shape == other.shape &&
                   e.candidates == other.candidates;
          },
          [&](const ComposedEvent& e) { return e.of == std::get<ComposedEvent>(b.kind()).of; },
          [&](const SelfComposedEvent& e) {
            const auto& other = std::get<SelfComposedEvent>(b.kind());
            return e.count == other.count && *e.of == *other.of;
          },
          [](const NonPrivateEvent&) { return true; },
          [&](const UnsupportedEvent& e) {
            return e.reason == std::get<UnsupportedEvent>(b.kind()).reason;
          },
      },
      a.kind());
}

std::vector<CountedEvent> flatten(const Event& event) {
  std::vector<CountedEvent> out;
  flatten_into(event, 1, out);
  return out;
}

Event compose_runs(const std::vector<Event>& sequence) {
  std::vector<const Event*> charged;
  for (const Event& event : sequence)
    if (!is_nothing(event)) charged.push_back(&event);
  std::vector<Event> runs;
  for (std::size_t begin = 0, end = 0; begin < charged.size(); begin = end) {
    const Event& event = *charged[begin];
    while (end < charged.size() && *charged[end] == event) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    runs.push_back(count == 1 ? event : Event::self_composed(count, event));
  }
  if (runs.size() == 1) return runs.front();
  return Event::composed(std::move(runs));
}

}  // namespace privgrad
