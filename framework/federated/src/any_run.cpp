#include "privgrad/federated/any_run.hpp"

#include "federated_run.hpp"
#include "privgrad/plan/policy.hpp"
#include "shared_rounds.hpp"

namespace privgrad::core {

RunResult run(const Plan& plan, const RunOptions& options) {
  // This process has no data, so its plan was made from recorded facts, which no policy has seen.
  if (options.clients != nullptr) obey_policies(*plan.manifest, nullptr, &plan);
  return plan.federated ? federated_run(plan, options) : central_run(plan, options);
}

void work_for_others(const Manifest& manifest, const RunOptions& options) {
  if (manifest.federated) return make_rounds_for_others(manifest, options);
  work_for_central_run(manifest, options);
}

}  // namespace privgrad::core
