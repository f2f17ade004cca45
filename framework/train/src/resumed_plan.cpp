#include "privgrad/train/resumed_plan.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/train/checkpoints.hpp"

namespace privgrad::core {

Plan make_resumed_plan(const Manifest& manifest, const std::filesystem::path& directory,
                       const std::filesystem::path& state) {
  const PublicFacts recorded = read_facts(directory);
  Plan plan = make_shared_plan(
      manifest, manifest.seed ? run_key(manifest.seed) : kept_plan_key(directory, state),
      kept_numbers(directory, recorded, kept_schedules(directory, state)));
  if (to_json(facts_of(plan)) == to_json(recorded)) return plan;
  throw PrivacyError(directory.string() +
                     ": the manifest or the data is not what the run began with: the plan that "
                     "follows from them does not match facts.json");
}

}  // namespace privgrad::core
