#include "privgrad/plan/plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "owner_plan.hpp"
#include "privgrad/plan/account_plan.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "unaccounted.hpp"

namespace privgrad::core {

namespace {

/// Refuses a plan with a trait that an engine of the manifest does not support.
void check_engines(const Plan& plan, const Manifest& manifest) {
  const auto check = [&](Engine engine, std::string_view key) {
    const std::string why = why_not(engine, plan);
    if (!why.empty()) throw error_at(manifest, key, "does not go with this manifest: " + why);
  };
  if (manifest.federated) check(Engine::federated, "federated");
  if (manifest.streaming) check(Engine::streamed, "data.streaming");
  if (!manifest.federated && !manifest.streaming) check(Engine::host, "steps");
}

/// Opens the data of a manifest, if the site's policies allow the run as far as it is known.
std::shared_ptr<Setting> open_setting(const Manifest& manifest) {
  obey_policies(manifest, &manifest.data);
  return make_setting(manifest);
}

Plan plan_for(const Manifest& manifest, const std::shared_ptr<const Setting>& setting) {
  check_traits_are_known(manifest);
  if (manifest.federated) {  // only for their checks; check_engines() refuses both
    plan_statistics(manifest, *setting);
    plan_report(manifest, *setting, manifest.steps);
  }
  Plan plan = manifest.federated
                  ? make_federated_plan(manifest, setting)
                  : plan_owner(manifest, setting,
                               {.dataset_size = setting->dataset_size, .steps = manifest.steps});
  if (!manifest.federated) plan.unaccounted = list_unaccounted(plan);
  check_engines(plan, manifest);
  check_account(plan);
  if (!setting->recorded) obey_policies(manifest, &manifest.data, &plan);
  plan.account = setting->recorded ? setting->recorded->account : account_facts(manifest.account);
  return plan;
}

/// Describes the choice of batches according to the charges. A sampler's own summary lists its
/// possible charges, not the charge in this plan.
std::string charged_sampling(PrivacyUnit unit, std::span<const Charge> charges) {
  const std::string each = unit == PrivacyUnit::client ? "Each client" : "Each example";
  if (charges.empty()) return "Nothing was charged for how they were drawn.";
  const SamplingLaw law = sampling_law(charges, 0);
  switch (law.kind) {
    case SamplingLaw::Kind::poisson:
      if (law.steps > 1) {
        return each + " has one step of each cycle of " + std::to_string(law.steps) +
               " steps, and is in it by a coin of its own; accounted as Poisson sampled once a "
               "cycle.";
      }
      return each + " is in a batch by a coin of its own; accounted as Poisson sampled.";
    case SamplingLaw::Kind::without_replacement:
      return "A random subset of fixed size in each step; accounted as sampled without "
             "replacement.";
    case SamplingLaw::Kind::once:
      return each +
             " is in one step of an epoch at most; an epoch is accounted as its costliest "
             "release, without amplification.";
    case SamplingLaw::Kind::allocated:
      return each +
             " is in one step of an epoch, which it draws by itself; accounted as random "
             "allocation.";
    case SamplingLaw::Kind::any:
      break;
  }
  return "Each step is accounted in full, whoever is in its batch, without amplification.";
}

}  // namespace

Plan make_plan(const Manifest& manifest, std::shared_ptr<KeptNumbers> kept) {
  const auto setting = open_setting(manifest);
  if (kept != nullptr) setting->kept = std::move(kept);
  return plan_for(manifest, setting);
}

Plan make_shared_plan(const Manifest& manifest, const RandomKey& plan_key,
                      std::shared_ptr<KeptNumbers> kept) {
  const auto setting = open_setting(manifest);
  setting->plan_key = plan_key;
  setting->kept = std::move(kept);
  return plan_for(manifest, setting);
}

Plan make_plan(const Manifest& manifest, const PublicFacts& recorded,
               std::shared_ptr<KeptNumbers> kept) {
  const auto setting = make_setting(manifest, recorded);
  if (kept != nullptr) setting->kept = std::move(kept);
  return plan_for(manifest, setting);
}

RandomKey run_key(std::optional<std::uint64_t> seed) {
  return seed ? RandomKey::from_seed(*seed) : RandomKey::from_operating_system();
}

std::vector<double> PlanNumbers::gradient_noise_multiplier() const {
  std::vector<double> values = noise_multiplier;
  for (std::size_t step = 0; step < count_share.size(); ++step)
    values[step] /= gradient_share(count_share[step]);
  return values;
}

PrivacyAnswer of_all_steps(const PlanNumbers& plan) {
  return plan.charges_are_bounds ? plan.epsilon() : of_charges_that_are_bounds(plan.epsilon());
}

bool Plan::covers_bits() const {
  return !manifest->noise_off && std::ranges::none_of(unaccounted, [](const Unaccounted& item) {
    return item.what == kFloatingPoint;
  });
}

std::uint64_t Plan::evaluate_every() const {
  return manifest->evaluate_every > 0 ? manifest->evaluate_every
                                      : std::max<std::uint64_t>(1, steps() / 20);
}

std::string Plan::sampling_words() const {
  // A sampler's own summary describes charges that are not used here.
  const DrawnOrder* order = public_order();
  if (order != nullptr && order->separation) {
    return "Whoever comes and may: clients that come early are refused; accounted by the worst "
           "that "
           "clients who keep to the minimum separation can do, without amplification.";
  }
  if (order != nullptr) {
    return "In an order that was drawn before the first step, without looking at data; accounted "
           "by who takes part in which step, without amplification.";
  }
  return charged_sampling(unit, charges);
}

const DrawnOrder* Plan::public_order() const {
  return correlated && correlated->order ? &*correlated->order : nullptr;
}

RhoOfExamples Plan::rho_of_examples() const {
  const Components made = start_components(*this);
  return public_order()->rho(made.order, dataset_size, planned_steps, manifest->adjacency);
}

}  // namespace privgrad::core
