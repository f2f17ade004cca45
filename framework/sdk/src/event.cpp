#include "privgrad/event.hpp"

#include <cmath>
#include <string_view>
#include <type_traits>
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

template <class Kind>
constexpr bool runs_another = requires(const Kind& e) {
  e.of.get();
};

template <class Member>
bool same(const Member& a, const Member& b) {
  return a == b;
}
bool same(const std::shared_ptr<const Event>& a, const std::shared_ptr<const Event>& b) {
  return *a == *b;
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
  return std::visit([](const auto& e) { return e.kKind; }, kind_);
}

bool Event::is_nothing() const noexcept {
  const auto* composed = std::get_if<ComposedEvent>(&kind_);
  return composed != nullptr && composed->of.empty();
}

bool operator==(const Event& a, const Event& b) {
  if (a.kind().index() != b.kind().index()) return false;
  return std::visit(
      [&](const auto& e) {
        bool equal = true;
        e.members([&](const char*, const auto& mine,
                      const auto& other) { equal = equal && same(mine, other); },
                  e, std::get<std::decay_t<decltype(e)>>(b.kind()));
        return equal;
      },
      a.kind());
}

std::optional<Sampling> sampling_of(const Event& event) {
  return std::visit(
      [](const auto& e) -> std::optional<Sampling> {
        using Kind = std::decay_t<decltype(e)>;
        if constexpr (requires { e.sampling(); }) {
          return e.sampling();
        } else {
          static_assert(std::is_same_v<Kind, SelfComposedEvent> || !runs_another<Kind>,
                        "an event that runs another one says in sampling() on which batches");
          return std::nullopt;
        }
      },
      event.kind());
}

std::vector<CountedEvent> flatten(const Event& event) {
  std::vector<CountedEvent> out;
  flatten_into(event, 1, out);
  return out;
}

Event compose_runs(const std::vector<Event>& sequence) {
  std::vector<const Event*> charged;
  for (const Event& event : sequence)
    if (!event.is_nothing()) charged.push_back(&event);
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
