// The plan of a run: everything known before data are read, from the noise to the proved cost.
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

/// What an uncharged use of private rows affects.
enum class Reach {
  model = 1,     ///< The trained model depends on it.
  shown_values,  ///< Values that the run shows besides the model and that training does not use.
};

/// The entry in `unaccounted` if no proof covers the exact bits of the releases.
inline constexpr std::string_view kFloatingPoint = "floating_point";

/// A use of private rows that no accountant was charged for.
struct Unaccounted {
  std::string what;      ///< "pca", "training metrics".
  std::string position;  ///< The place in the manifest that causes it.
  Reach reach = Reach::model;
  std::string why = {};     ///< The cause in words, if `what` does not state it.
  std::string remedy = {};  ///< How to avoid the entry: "use KEY: ...".
};

struct AccountantReport {
  std::string name;  ///< As the manifest writes it: "zcdp".
  PrivacyAnswer epsilon;
  std::uint64_t steps = 0;  ///< The number of steps to which the answer refers.

  bool operator==(const AccountantReport&) const = default;
};

/// A value that the manifest gives as `auto`, and the value that the plan chose.
struct PlannedAuto {
  std::string where;  ///< As the manifest writes it: "aggregator.momentum".
  double value = 0.0;
  std::string reason;

  bool operator==(const PlannedAuto&) const = default;
};

/// The numbers of a plan for one owner of data: plain values that can be copied and compared.
struct PlanNumbers {
  PrivacyUnit unit = PrivacyUnit::example;
  std::uint64_t dataset_size = 0;  ///< Public.
  std::size_t parameters = 0;
  /// Given by the manifest or by a theorem; for fed_avg the most steps of any client, for
  /// dp_fed_avg the number of rounds.
  std::uint64_t planned_steps = 0;
  RunFacts facts;
  std::vector<PlannedAuto> auto_values;
  std::vector<double> optimized;  ///< The result of Aggregator::optimized().

  /// One per step. noise_multiplier is 0 in runs without noise; batch_size is the expected size,
  /// the constant divisor of the noisy sum.
  std::vector<double> noise_multiplier, clip_norm, learning_rate, batch_size;
  /// The batch sizes given to the sampler; empty: the sampler decides.
  std::vector<double> sampler_batch_size;
  /// Set if noise depends on releases. Then noise_multiplier, charges and beside assume that the
  /// noise never changes, epsilon() is the budget, and `event` costs the budget.
  std::optional<AdaptiveNoisePlan> noise_adapts;
  /// Whether the manifest's own noise values were multiplied by noise_factor to meet the target
  /// (privacy.calibrate: all).
  bool noise_is_rescaled = false;
  double noise_factor = 1.0;
  /// The influence behind the noise schedule (Schedule::influence()), one per step; may be empty.
  std::vector<double> influence;
  /// Whether the influence was computed from private rows without a charge.
  bool influence_is_unaccounted = false;
  /// Whether the steps' total cost depends only on the sum of 1 / noise_multiplier^2.
  bool costs_inverse_square = false;
  /// The multiplier of uniform noise with the same guarantee, by the same accountant. Absent
  /// without influence or target, and for correlated noise, whose effects do not add up.
  std::optional<double> uniform_noise;
  /// One per step if the clip norm follows a released count, otherwise empty: the count's noise, in
  /// examples, and the count's share of the joint bound (count_share()). noise_multiplier then
  /// applies to both releases together, and clip_norm is the first step's.
  std::vector<double> count_noise, count_share;
  Arithmetic arithmetic = Arithmetic::exact;
  /// Released before the first step, in this order.
  std::vector<PlannedStatistic> statistics;
  std::optional<PlannedReport> report;  ///< Released for the final model, and between steps.
  std::vector<Charge> charges;          ///< One per step; empty without noise.
  /// Other charged releases: first the statistics, then the reports, then a client's estimates; or
  /// the measurements for adaptive noise.
  std::vector<Charge> beside;
  std::uint64_t affordable_steps = 0;  ///< The number of steps that the budget can pay for.
  /// Whether releases decide how many steps are made. The proved cost is then an upper bound: the
  /// cost of all affordable steps, however many are made.
  bool is_accounted_in_full = false;
  /// Whether the charges are upper bounds on the cost of the releases, so that no accountant's
  /// answer about them is exact or has a lower bound.
  bool charges_are_bounds = false;
  /// The answers about the affordable steps and `beside`; the guarding accountant first. For
  /// fed_avg, each accountant answers about the client that it finds costliest.
  std::vector<AccountantReport> accountants;
  Event event = Event::nothing();  ///< The affordable steps and `beside` as one event.

  bool operator==(const PlanNumbers&) const = default;

  std::uint64_t steps() const { return planned_steps; }
  /// Whether a count is released with the sum of each step.
  bool releases_count() const { return !count_share.empty(); }
  /// The count's share of the joint bound at this step; 0 without a count.
  double count_share_at(std::uint64_t step) const {
    return releases_count() ? count_share[step] : 0.0;
  }
  /// Whether the clip norm follows releases; clip_norm then applies only to the first step.
  bool clip_norm_adapts() const { return releases_count(); }
  const PrivacyAnswer& epsilon() const { return accountants.front().epsilon; }
  /// The noise multiplier of only the gradients: above noise_multiplier if a count uses a share of
  /// the bound.
  std::vector<double> gradient_noise_multiplier() const;
};

/// Everything that can be known before the data are read, with calibrated noise and proved cost. A
/// plan does not change after it is made: runs make their own components for it (start_components),
/// and report results in their Outcome. Copies share everything behind a pointer.
///
/// With fed_avg, the steps, their noise and their cost belong to the client with the weakest
/// guarantee; with dp_fed_avg, they belong to the server. `federated` has all clients.
struct Plan : PlanNumbers {
  const Manifest* manifest = nullptr;
  std::shared_ptr<const Setting> setting;
  /// Set if the aggregator's releases share data or noise between steps, otherwise null.
  std::shared_ptr<const CorrelatedPlan> correlated;
  std::shared_ptr<const FederatedPlan> federated;  ///< Null: the data have a single owner.
  std::vector<Unaccounted> unaccounted;
  std::optional<std::string> order_key{};  ///< PublicFacts::order_key.
  /// The account that pays for the run; nothing if the manifest names none.
  std::optional<AccountFacts> account{};

  /// Whether the proof covers the exact bits that are released; false without noise.
  bool covers_bits() const;
  /// The number of steps between measurements for the progress line; > 0.
  std::uint64_t evaluate_every() const;
  /// How batches are chosen and accounted, in words.
  std::string sampling_words() const;
  /// The order for which the releases are charged; null if no order is drawn in advance.
  const DrawnOrder* public_order() const;
  /// The distribution of an example's cost over all examples; only with a public order.
  RhoOfExamples rho_of_examples() const;
};

/// The cost of all affordable steps, as an upper bound for a run that its releases end earlier:
/// such a run makes a prefix of a sequence that is private as a whole.
PrivacyAnswer of_all_steps(const PlanNumbers& plan);

/// The key from which all randomness of a run is derived. It is made from the seed, or by the
/// operating system if there is no seed.
RandomKey run_key(std::optional<std::uint64_t> seed);

/// \param manifest  must outlive the plan.
/// \param kept  the numbers of the first plan, to repeat it; null: this is the first plan.
/// \throws ManifestError for parts that do not fit together; PrivacyError for anything without a
///   proof, for a budget that cannot pay for a single step, and for anything that release mode
///   refuses, each with its place in the manifest; IoError as make_setting().
Plan make_plan(const Manifest& manifest, std::shared_ptr<KeptNumbers> kept = nullptr);

/// The plan of a process that takes part in a run, with the leading process's order of examples and
/// clients.
/// \param plan_key  the leading process's Setting::plan_key.
/// \param kept  the numbers of the leading process's plan.
/// \throws like make_plan().
Plan make_shared_plan(const Manifest& manifest, const RandomKey& plan_key,
                      std::shared_ptr<KeptNumbers> kept);

/// Repeats the plan of a run from the recorded facts. The plan has the same costs and statements,
/// but cannot be run, because it has no data.
/// \param kept  the numbers of that plan; null: only the numbers in `recorded` are kept.
/// \throws like the first overload, except IoError.
Plan make_plan(const Manifest& manifest, const PublicFacts& recorded,
               std::shared_ptr<KeptNumbers> kept = nullptr);

}  // namespace privgrad::core
