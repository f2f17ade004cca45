#include "sampler_plans.hpp"

#include <algorithm>
#include <variant>

#include "rules.hpp"

namespace privgrad::testing {

std::string text_of(const SamplingPlan& plan) {
  return std::to_string(plan.steps) + " step(s) on " + std::to_string(plan.dataset_size) +
         " examples under " + std::string(to_text(plan.adjacency));
}

bool starts(Sampler& sampler, const SamplingPlan& plan) {
  return accepted("start() for " + text_of(plan), {Thrown::config, Thrown::privacy},
                  [&] { sampler.start(plan); });
}

ComponentPtr<Sampler> started(const Checker& checker, const SamplingPlan& plan) {
  auto sampler = checker.make<Sampler>();
  sampler->start(plan);
  return sampler;
}

void require_rows(const Batch& batch, std::size_t rows, const std::string& where) {
  Batch sorted = batch;
  std::sort(sorted.begin(), sorted.end());
  require(sorted.empty() || sorted.back() < rows,
          "sample() chose row " + (sorted.empty() ? "" : std::to_string(sorted.back())) + " of " +
              std::to_string(rows) + where);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  require(twice == sorted.end(),
          "sample() chose a row twice" + where + "; one example would count as two");
}

std::optional<std::vector<Event>> charges(const Sampler& sampler, const SamplingPlan& plan,
                                          std::size_t count) {
  const std::vector<Event> releases(count, Event::gaussian(kSampledNoise));
  std::vector<Event> result;
  const bool proved = accepted("charges() for " + text_of(plan), {Thrown::privacy},
                               [&] { result = sampler.charges(releases); });
  if (!proved) return std::nullopt;
  require(result.size() == count, "charges() gave " + std::to_string(result.size()) +
                                      " events for " + std::to_string(count) + " releases");
  return result;
}

std::optional<Amplification> amplification(const Event& event) {
  if (const auto* poisson = std::get_if<PoissonSampledEvent>(&event.kind())) {
    return Amplification{poisson->sampling_probability, false};
  }
  if (const auto* subset = std::get_if<SampledWithoutReplacementEvent>(&event.kind())) {
    return Amplification{
        static_cast<double>(subset->sample_size) / static_cast<double>(subset->source_dataset_size),
        true};
  }
  if (const auto* epoch = std::get_if<RandomAllocationEvent>(&event.kind())) {
    return Amplification{1.0 / static_cast<double>(epoch->steps), false,
                         static_cast<std::uint64_t>(epoch->steps)};
  }
  return std::nullopt;
}

std::uint64_t cycle_of(const std::vector<Event>& paid) {
  if (paid.empty() || !std::holds_alternative<PoissonSampledEvent>(paid.front().kind())) return 1;
  std::uint64_t steps = 1;
  while (steps < paid.size() && paid[steps] == Event::nothing()) ++steps;
  return steps;
}

bool is_steady(const std::vector<Event>& paid) {
  const std::uint64_t cycle = cycle_of(paid);
  for (std::size_t step = 0; step < paid.size(); ++step)
    if (paid[step] != (step % cycle == 0 ? paid.front() : Event::nothing())) return false;
  return true;
}

void for_each_amplified(const Checker& checker, SamplingPlan plan,
                        const std::function<void(const SamplingPlan& plan, const Amplification& how,
                                                 const std::vector<Event>& paid)>& look) {
  bool any = false;
  for (const Adjacency adjacency : kAdjacencies) {
    plan.adjacency = adjacency;
    const auto sampler = checker.make<Sampler>();
    if (!starts(*sampler, plan)) continue;
    const auto paid = charges(*sampler, plan, plan.steps);
    if (!paid) continue;
    const auto how = amplification(paid->front());
    if (!how || !(is_steady(*paid) || how->epoch_steps > 0)) continue;
    any = true;
    look(plan, *how, *paid);
  }
  if (!any) throw NotChecked{"it claims no amplification by sampling"};
}

}  // namespace privgrad::testing
