#include "random_iterate.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace privgrad::core {

RandomIterate::RandomIterate(const PlanNumbers& plan, const RandomKey& key)
    : chosen_(make_random_source(key.derive("output"))
                  ->stream(0)
                  ->uniform_below(std::max<std::uint64_t>(1, plan.affordable_steps))),
      parameters_(plan.parameters) {}

std::optional<RunStatus> RandomIterate::before_step(std::uint64_t step, RunModel& model) {
  if (step == chosen_) kept_ = model.parameters();
  return std::nullopt;
}

void RandomIterate::choose_model(RunModel& model) {
  is_reached_ = !kept_.empty();
  if (is_reached_) model.load(std::exchange(kept_, {}));
}

void RandomIterate::save(StateWriter& out) const { out.put(chosen_, kept_); }

void RandomIterate::restore(StateReader& in) {
  in.get(chosen_, kept_);
  if (!kept_.empty() && kept_.size() != parameters_) in.fail("its kept model has another size");
}

void RandomIterate::add_to_summary(Summary& summary) const {
  if (is_reached_) summary.output = "random_iterate";
}

}  // namespace privgrad::core
