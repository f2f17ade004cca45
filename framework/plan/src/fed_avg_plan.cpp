#include "privgrad/plan/fed_avg_plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "guard.hpp"
#include "owner_plan.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "step_schedules.hpp"

namespace privgrad::core {
namespace {

/// Plans by the number of a client's examples; clients with the same number share a plan.
using PlansBySize = std::map<std::uint64_t, std::shared_ptr<const Plan>>;

/// Records the fewest and the most steps that any client's budget pays for.
void note_affordable(const PlansBySize& sizes, FederatedPlan& federated) {
  federated.affordable_steps = sizes.begin()->second->affordable_steps;
  federated.most_affordable_steps = 0;
  for (const auto& [size, plan] : sizes) {
    federated.affordable_steps = std::min(federated.affordable_steps, plan->affordable_steps);
    federated.most_affordable_steps =
        std::max(federated.most_affordable_steps, plan->affordable_steps);
  }
}

void refuse_correlated(const ComponentUse& aggregator, const CorrelatedPlan* correlated) {
  if (correlated == nullptr) return;
  aggregator.with_position([&] {
    throw ConfigError(aggregator.name() +
                      " shares noise between steps, and the steps of a client begin anew with "
                      "every round; use gaussian, or federated.aggregation: dp_fed_avg");
  });
}

/// Refuses random allocation: a client that misses a round never makes some steps that it has paid
/// for, and the rest of the epoch would need coins that no longer exist.
void refuse_epochs(const ComponentUse& sampler, std::span<const Charge> charges) {
  if (!draw_epochs(charges)) return;
  sampler.with_position([&] {
    throw ConfigError(sampler.name() +
                      " draws whole epochs, but a client of fed_avg that misses a round skips "
                      "steps of its epoch; use poisson, or federated.aggregation: dp_fed_avg with "
                      "this sampler as federated.participation");
  });
}

/// Keeps the largest answer of each accountant as its answer about all clients, because accountants
/// may disagree about which client costs most.
void take_larger(const std::vector<AccountantReport>& of_client,
                 std::vector<AccountantReport>& of_all) {
  for (std::size_t i = 0; i < of_all.size(); ++i) {
    if (of_client[i].epsilon.value > of_all[i].epsilon.value) of_all[i] = of_client[i];
  }
}

/// The batch sizes of the estimates, one per round: the first step's batch size. Empty if the
/// manifest gives none, or if a target determines it.
std::vector<double> estimate_batch_size(const Manifest& manifest, std::uint64_t most_steps) {
  if (!manifest.batch_size.is_given()) return {};
  const ScheduleValues all =
      schedule_values(manifest.batch_size, "batch_size", most_steps, /*above_zero=*/true);
  if (all.is_shape) return {};
  return std::vector<double>(manifest.federated->rounds, all.at.front());
}

/// Plans the clients, and the estimates from which their local iterations are chosen.
class ClientPlanner {
 public:
  ClientPlanner(const Manifest& manifest, std::shared_ptr<const Setting> setting,
                const Shards& shards, const LocalSteps& steps, FederatedPlan& federated)
      : manifest_(manifest),
        wish_(*manifest.federated),
        setting_(std::move(setting)),
        sizes_(shards.sizes),
        most_steps_(steps.most),
        federated_(federated) {}

  PlansBySize plans() {
    check_size();
    PlansBySize plans = plans_with({});
    const Plan& any = *plans.begin()->second;
    refuse_correlated(manifest_.aggregator, any.correlated.get());
    refuse_epochs(manifest_.sampler, any.charges);
    const LocalIterationsRule chooser = start_local_iterations(wish_);
    if (chooser.rule != nullptr) plan_estimates(*chooser.rule, plans);
    return plans;
  }

 private:
  /// Refuses too many steps in total: each shard size gets its own plan with values for all steps.
  void check_size() const {
    const std::set<std::uint64_t> sizes(sizes_.begin(), sizes_.end());
    if (most_steps_ <= kMostSteps / sizes.size()) return;
    throw error_at(manifest_, "steps",
                   "is " + std::to_string(most_steps_) + " for each of " +
                       std::to_string(sizes.size()) +
                       " sizes of shards, which are planned one by one; allowed are " +
                       std::to_string(kMostSteps / sizes.size()) +
                       ", because a plan keeps some 300 bytes for each step");
  }

  /// \param estimate_noise  0 if there are no estimates to pay for.
  PlansBySize plans_with(double estimate_noise) const {
    PlansBySize plans;
    for (const std::uint64_t size : sizes_) {
      if (plans.contains(size)) continue;
      OwnerSetting owner{.dataset_size = size,
                         .steps = most_steps_,
                         .is_accounted_in_full = federated_.is_adaptive()};
      if (estimate_noise > 0.0) owner.beside = charges_of_estimates(size, estimate_noise);
      plans[size] = std::make_shared<const Plan>(plan_owner(manifest_, setting_, owner));
    }
    return plans;
  }

  /// Asks the schedule whether it will use estimates to choose the local steps of each round, and
  /// plans the cost of the estimates.
  void plan_estimates(AdaptiveLocalIterations& chooser, PlansBySize& plans) {
    wish_.local_iterations.with_position(
        [&] { federated_.estimates = starts_rounds(chooser, plans); });
    if (!federated_.estimates || wish_.estimates == EstimateMode::from_models) return;
    federated_.estimate_batch_size = estimate_batch_size(manifest_, most_steps_);
    if (wish_.estimates != EstimateMode::private_sums || manifest_.noise_off) return;
    federated_.estimate_noise = estimate_noise();
    plans = plans_with(federated_.estimate_noise);
    if (!starts_rounds(chooser, plans)) leave_out_estimates(plans);
  }

  bool starts_rounds(AdaptiveLocalIterations& chooser, const PlansBySize& plans) {
    note_affordable(plans, federated_);
    return chooser.start_rounds(wish_.rounds, federated_.paced_steps(wish_));
  }

  /// Plans without estimates: after them, the budget would pay for at most one step per round, and
  /// then the schedule does not use estimates.
  void leave_out_estimates(PlansBySize& plans) {
    federated_.estimates = false;
    federated_.estimate_noise = 0.0;
    most_steps_ = std::min(most_steps_, wish_.rounds);
    plans = plans_with({});
  }

  /// The given noise multiplier, or else the smallest with which no client's estimates cost more
  /// than their share of the budget.
  double estimate_noise() const {
    if (wish_.estimate_noise) return *wish_.estimate_noise;
    if (!manifest_.target_epsilon) {
      throw error_at(manifest_, "federated.estimates",
                     "private estimates have their share of privacy.target_epsilon, which is "
                     "missing; give it, or federated.estimate_noise");
    }
    const std::uint64_t smallest = *std::ranges::min_element(sizes_);
    return setting_->kept->scale([&] {
      return calibrated_scale(
          manifest_, [&](double candidate) { return charges_of_estimates(smallest, candidate); },
          wish_.estimate_share * *manifest_.target_epsilon);
    });
  }

  std::vector<Charge> charges_of_estimates(std::uint64_t size, double noise) const {
    const auto sampler = start_estimate_sampler(manifest_, size, federated_.estimate_batch_size);
    return estimate_charges(manifest_, *sampler, noise);
  }

  const Manifest& manifest_;
  const Federated& wish_;
  std::shared_ptr<const Setting> setting_;
  const std::vector<std::uint64_t>& sizes_;
  std::uint64_t most_steps_;
  FederatedPlan& federated_;
};

}  // namespace

ComponentPtr<Sampler> start_participation(const Federated& wish) {
  return wish.participation.with_position([&] {
    auto sampler = wish.participation.make<Sampler>();
    sampler->start({.dataset_size = wish.clients,
                    .steps = wish.rounds,
                    .adjacency = Adjacency::zero_out,
                    .batch_sizes = {}});
    return sampler;
  });
}

ComponentPtr<Sampler> start_estimate_sampler(const Manifest& manifest, std::uint64_t size,
                                             const std::vector<double>& batch_size) {
  return manifest.sampler.with_position([&] {
    auto sampler = manifest.sampler.make<Sampler>();
    sampler->start({.dataset_size = size,
                    .steps = manifest.federated->rounds,
                    .adjacency = manifest.adjacency,
                    .batch_sizes = batch_size});
    return sampler;
  });
}

std::vector<Charge> estimate_charges(const Manifest& manifest, const Sampler& sampler,
                                     double noise) {
  const std::vector<Event> releases(manifest.federated->rounds, Event::gaussian(noise));
  return sampled_charges(manifest, sampler, releases, "estimate");
}

Plan plan_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                  const Shards& shards, const LocalSteps& steps, FederatedPlan& federated) {
  start_participation(*manifest.federated);  // checks that it can be started
  const PlansBySize plans = ClientPlanner(manifest, setting, shards, steps, federated).plans();
  for (std::size_t i = 0; i < shards.sizes.size(); ++i)
    federated.clients[i].plan = plans.at(shards.sizes[i]);
  note_affordable(plans, federated);
  const auto epsilon = [&](std::size_t client) {
    return federated.clients[client].plan->epsilon().value;
  };
  for (std::size_t i = 1; i < federated.clients.size(); ++i) {
    if (epsilon(i) > epsilon(federated.weakest)) federated.weakest = i;
  }
  Plan plan = *federated.clients[federated.weakest].plan;
  for (const auto& [size, of_size] : plans) take_larger(of_size->accountants, plan.accountants);
  plan.dataset_size = setting->dataset_size;
  return plan;
}

}  // namespace privgrad::core
