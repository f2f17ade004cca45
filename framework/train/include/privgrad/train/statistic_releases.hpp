// The releases before the first step: counts of rows, and statistics from which transforms learn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/statement/released_counts.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The purpose (RandomKey::derive()) of the keys for statistics' noise.
inline constexpr std::string_view kStatisticPurpose = "statistics";

/// The key for the noise of one kind of statistics; each kind has its own.
/// \param key  used only for statistics.
RandomKey noise_key_of(StatisticOf of, const RandomKey& key);

/// Recipes for the noise of the statistics from which transforms learn: the statistic of transform
/// i has the noise of node i.
class StatisticNoiseRecipes final : public Aggregator {
 public:
  explicit StatisticNoiseRecipes(const std::vector<PlannedStatistic>& statistics);
  void start(const AggregationPlan&) override {}
  ReleaseRecipe recipe(std::uint64_t transform) const override;

 private:
  std::vector<double> multipliers_;  // by transform; 0 for transforms without a statistic
};

/// Makes the releases before the first step: counts, and the statistics of transforms. Pays for all
/// releases at once before it reads a row, and computes each from the outputs of the preceding
/// transforms.
///
/// Privacy: each release is exactly the charged Gaussian mechanism. Which function of the rows a
/// later release computes depends on earlier ones: adaptive composition, as for steps.
class StatisticReleases final : public Teacher {
 public:
  /// Called with each release before the run uses it.
  using Shown = std::function<void(const PlannedStatistic&, std::span<const float>)>;

  /// \param plan, executor, ledger, witness  must outlive this.
  /// \param key  a key that nothing else uses; a second use would give the same noise.
  /// \param ledger  null without noise.
  /// \param witness  may be null.
  /// \param second_look  must outlive this.
  StatisticReleases(const Plan& plan, const RandomKey& key, Executor& executor, Ledger* ledger,
                    ReleaseWitness* witness, SecondLook& second_look, Shown shown);

  /// \throws PrivacyError if, contrary to the plan, the budget does not pay for all releases.
  void pay();

  /// Releases the planned counts, before any transform learns, because all later sums are divided
  /// by the number of rows.
  /// \pre pay()
  void release_counts(const Dataset& train);

  /// \pre pay(), release_counts()
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

  const ReleasedCounts& counts() const noexcept { return counts_; }

 private:
  BoundedOnGrid sum(const PlannedStatistic& planned, const BoundedStatistic& transform,
                    const Dataset& train) const;
  /// Makes one release with the next receipt. Statistics are released in the plan's order, so each
  /// uses the receipt of its own charge.
  /// \param own  stores the release if there is no witness.
  /// \returns the release with which to continue, once it was shown.
  const Released& release(const PlannedStatistic& planned, BoundedOnGrid sum, double divisor,
                          Mechanism& mechanism, ReleaseSeen::What what, std::vector<Released>& own);

  const Plan& plan_;
  RandomKey key_;
  Executor& executor_;
  Ledger* ledger_;
  ReleaseWitness* witness_;
  SecondLook& second_look_;
  Shown shown_;
  StatisticNoiseRecipes noise_;
  Mechanism mechanism_;
  ReleasedCounts counts_;
  std::vector<Receipt> receipts_;  // in reverse order: the last one is used next
};

/// Writes the values that were released and learnt before the first step, for KeptStatistics. They
/// are as private as the releases, and thus as the run's models.
/// \param learnt  one per transform of the manifest (RunData::preprocessing).
void save_statistics(StateWriter& out, const PlanNumbers& plan, const ReleasedCounts& counts,
                     const std::vector<FittedTransform>& learnt);

/// Gives transforms the values that they have learnt in an earlier process, or in another process
/// of the run, from the text of save_statistics().
class KeptStatistics final : public Teacher {
 public:
  /// \param plan  a plan of the manifest with which the values were saved.
  /// \throws IoError if the text cannot belong to this plan.
  KeptStatistics(StateReader& in, const Plan& plan);
  const ReleasedCounts& counts() const noexcept { return counts_; }
  /// \throws IoError if the transform cannot have learnt these values.
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

 private:
  ReleasedCounts counts_;
  std::vector<FittedTransform> learnt_;
};

}  // namespace privgrad::core
