#include "sampler_plans.hpp"

#include <algorithm>

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
  std::ranges::sort(sorted);
  require(sorted.empty() || sorted.back() < rows,
          "sample() chose row " + (sorted.empty() ? "" : std::to_string(sorted.back())) + " of " +
              std::to_string(rows) + where);
  const auto twice = std::ranges::adjacent_find(sorted);
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

std::uint64_t cycle_of(const std::vector<Event>& paid) {
  const auto how = paid.empty() ? std::nullopt : sampling_of(paid.front());
  if (!how || how->draw != Sampling::Draw::coins) return 1;
  std::uint64_t steps = 1;
  while (steps < paid.size() && paid[steps].is_nothing()) ++steps;
  return steps;
}

bool is_steady(const std::vector<Event>& paid) {
  const std::uint64_t cycle = cycle_of(paid);
  for (std::size_t step = 0; step < paid.size(); ++step)
    if (paid[step] != (step % cycle == 0 ? paid.front() : Event::nothing())) return false;
  return true;
}

void for_each_amplified(const Checker& checker, SamplingPlan plan,
                        const std::function<void(const SamplingPlan& plan, const Sampling& how,
                                                 const std::vector<Event>& paid)>& look) {
  bool any = false;
  for (const Adjacency adjacency : kAdjacencies) {
    plan.adjacency = adjacency;
    const auto sampler = checker.make<Sampler>();
    if (!starts(*sampler, plan)) continue;
    const auto paid = charges(*sampler, plan, plan.steps);
    if (!paid) continue;
    const auto how = sampling_of(paid->front());
    if (!how || !(is_steady(*paid) || how->draw == Sampling::Draw::epoch)) continue;
    any = true;
    look(plan, *how, *paid);
  }
  if (!any) throw NotChecked{"it claims no amplification by sampling"};
}

}  // namespace privgrad::testing
