#include "privgrad/federated/any_run.hpp"

#include "federated_run.hpp"
#include "privgrad/plan/policy.hpp"
#include "shared_rounds.hpp"

namespace privgrad::core {

RunResult run(const Plan& plan, const RunOptions& options) {
  // A server has no data. Its plan was made from facts, and the policies have not checked it yet.
  if (options.clients != nullptr) obey_policies(*plan.manifest, nullptr, &plan);
  return plan.federated ? federated_run(plan, options) : central_run(plan, options);
}

void work_for_others(const Manifest& manifest, const RunOptions& options) {
  if (manifest.federated) return make_rounds_for_others(manifest, options);
  work_for_central_run(manifest, options);
}

}  // namespace privgrad::core
