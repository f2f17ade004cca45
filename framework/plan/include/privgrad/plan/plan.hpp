#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/adaptive_noise_plan.hpp"
#include "privgrad/plan/correlated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/plan/statistics_plan.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/run_facts.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

struct FederatedPlan;

/// What an uncharged use of private rows can be seen in.
enum class Reach {
  model = 1,     ///< The trained model depends on it.
  shown_values,  ///< Values that the run shows beside the model, and that training does not use.
};

/// What stands under `unaccounted` where nothing covers the bits of what is released.
inline constexpr std::string_view kFloatingPoint = "floating_point";

/// Something that was computed from private rows and that no accountant was charged for.
struct Unaccounted {
  std::string what;      ///< "pca", "training metrics".
  std::string position;  ///< The place in the manifest that causes it.
  Reach reach = Reach::model;
  std::string why = {};     ///< What causes it, in words, where its name does not say so.
  std::string remedy = {};  ///< "use ...": with it, it is accounted for. Of those with a `why`.
};

/// What one accountant says of the run.
struct AccountantReport {
  std::string name;  ///< As the manifest writes it: "zcdp".
  PrivacyAnswer epsilon;

  bool operator==(const AccountantReport&) const = default;
};

/// A value that the manifest gives as `auto`, and what the plan took for it.
struct PlannedAuto {
  std::string where;  ///< As the manifest writes it: "aggregator.momentum".
  double value = 0.0;
  std::string reason;

  bool operator==(const PlannedAuto&) const = default;
};

/// The numbers of a plan for one owner of data: values only, to be copied, compared and printed.
struct PlanNumbers {
  PrivacyUnit unit = PrivacyUnit::example;
  std::uint64_t dataset_size = 0;  ///< Public.
  std::size_t parameters = 0;
  /// The manifest's, or those that a theorem says; of a federated run the most that a client makes.
  std::uint64_t planned_steps = 0;
  RunFacts facts;
  std::vector<PlannedAuto> auto_values;

  /// One per step. noise_multiplier: all zero without noise; batch_size: expected, and the constant
  /// divisor of the noisy sum.
  std::vector<double> noise_multiplier, clip_norm, learning_rate, batch_size;
  /// What the sampler is told; empty: it decides about its batches itself.
  std::vector<double> sampler_batch_size;
  /// If the noise follows what the run releases. noise_multiplier, charges and beside are then
  /// those of noise that never changes; epsilon() is the budget, and event one that costs as much.
  std::optional<AdaptiveNoisePlan> noise_adapts;
  /// Whether the noise has values of its own that were multiplied by noise_factor to meet the
  /// target (privacy.calibrate: all).
  bool noise_is_rescaled = false;
  double noise_factor = 1.0;
  /// Of a noise schedule that was made from one (FromInfluence), else empty; one per step.
  std::vector<double> influence;
  bool influence_is_unaccounted = false;  ///< Made from private rows, and paid for by nobody.
  /// If the clip norm follows a released count, else empty; one per step. The noise of the count,
  /// in examples, and what the sum's bound leaves for it; noise_multiplier is then that of both
  /// releases together, and clip_norm that of the first step.
  std::vector<double> count_noise, count_share;
  /// Of the aggregator's recipes, the same in every step: cells per clip norm; 0: no grid, or no
  /// noise.
  std::uint64_t grid_levels = 0;
  /// Of the sums and their noise; exact where the aggregator has a grid of its own.
  Arithmetic arithmetic = Arithmetic::exact;
  /// That transforms learn from, in their order: released before the first step.
  std::vector<PlannedStatistic> statistics;
  std::optional<PlannedReport> report;  ///< Released of the final model, and between the steps.
  std::vector<Charge> charges;          ///< One per step; no noise: none.
  /// Releases beside the steps, paid for as well: first those of statistics, then the reports.
  std::vector<Charge> beside;
  std::uint64_t affordable_steps = 0;  ///< How many of the steps the budget pays for.
  /// Whether releases decide how many of the steps are made. What is proved is then the cost of all
  /// that the budget pays for, whatever comes to be made: an upper bound.
  bool is_accounted_in_full = false;
  /// Whether the charges are upper bounds on what the releases cost, so that no accountant's answer
  /// about them is exact or has a lower bound.
  bool charges_are_bounds = false;
  std::vector<AccountantReport> accountants;  ///< The gating one first; of the affordable steps.
  Event event = Event::nothing();             ///< The affordable steps as one event.

  bool operator==(const PlanNumbers&) const = default;

  std::uint64_t steps() const { return planned_steps; }
  bool clip_norm_adapts() const { return !count_share.empty(); }
  const PrivacyAnswer& epsilon() const { return accountants.front().epsilon; }
  /// The noise of the gradients alone over the clip norm: more than noise_multiplier where a count
  /// has its share of that.
  std::vector<double> gradient_noise_multiplier() const;
};

/// Everything that can be known before the data is touched: noise calibrated, cost proved. A plan
/// does not change once it is made: runs make components of their own for it (start_components),
/// and say in their Outcome what came of it. Copies share what is not numbers.
///
/// Of a federated run the steps, their noise and their cost are those of the client whose guarantee
/// is the weakest; `federated` has them all.
struct Plan : PlanNumbers {
  const Manifest* manifest = nullptr;
  std::shared_ptr<const Setting> setting;
  /// If the aggregator's releases share data or noise between steps, else null.
  std::shared_ptr<const CorrelatedPlan> correlated;
  std::shared_ptr<const FederatedPlan> federated;  ///< Null: of one owner of data.
  std::vector<Unaccounted> unaccounted;
  std::optional<std::string> order_key{};  ///< As in PublicFacts.
  std::optional<AccountFacts> account{};   ///< That the run is paid from; most have none.

  /// Whether what is proved is about the very bits that are released; without noise nothing is.
  bool covers_bits() const;
  /// Steps between measurements for the progress line; > 0.
  std::uint64_t evaluate_every() const;
  /// How batches are chosen, and how that is accounted.
  std::string sampling_words() const;
  /// What an example's part costs, over all examples; of a correlated plan only.
  RhoOfExamples rho_of_examples() const;
};

/// What all steps cost that the budget pays for, as an upper bound on what a run costs that
/// releases may end before: what was made is the beginning of a sequence that is private in full.
PrivacyAnswer of_all_steps(const PlanNumbers& plan);

/// The key that all randomness of a run grows from: of its seed, or of the operating system.
RandomKey run_key(const Manifest& manifest);

/// \param manifest  must outlive the plan.
/// \param kept      what a plan of it found that is made again; null: this is the first.
/// \throws ManifestError for what does not fit together; PrivacyError for what is not proved, what
///   the budget cannot pay a single step of, and what release mode refuses, each with its place in
///   the manifest; IoError if the data's headers cannot be read.
Plan make_plan(const Manifest& manifest, std::shared_ptr<KeptNumbers> kept = nullptr);

/// The plan of a process that takes part in a run: with the order of examples, and the clients, of the
/// process that leads it.
/// \param plan_key  that process's Setting::plan_key.
/// \param kept      what its plan found.
/// \throws as the first.
Plan make_shared_plan(const Manifest& manifest, const RandomKey& plan_key,
                      std::shared_ptr<KeptNumbers> kept);

/// The plan that a run had, made again from what it recorded: equal in all that it costs and
/// states, and not to be run, since it has no data.
/// \param kept  what was found then; null: of `recorded` alone.
/// \throws as the other, but for IoError.
Plan make_plan(const Manifest& manifest, const PublicFacts& recorded,
               std::shared_ptr<KeptNumbers> kept = nullptr);

}  // namespace privgrad::core
