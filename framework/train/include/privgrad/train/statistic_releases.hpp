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
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {

/// What the keys of statistics' noise are derived for.
inline constexpr std::string_view kStatisticPurpose = "statistics";

/// The key of the noise of a kind of statistics, each its own.
/// \param key  of nothing but statistics.
RandomKey noise_key_of(StatisticOf of, const RandomKey& key);

/// Noise of what transforms of a plan learn from: of transform i its own, from the vector i.
class StatisticNoiseRecipes final : public Aggregator {
 public:
  explicit StatisticNoiseRecipes(const std::vector<PlannedStatistic>& statistics);
  void start(const AggregationPlan&) override {}
  ReleaseRecipe recipe(std::uint64_t transform) const override;

 private:
  std::vector<double> multipliers_;  // one per transform; 0: none
};

/// Makes the releases before the first step, counts and what transforms learn from: pays for all of
/// them at once, before it looks at a row, and then releases each from the rows as the transforms
/// before it have left them.
///
/// Privacy: each is one Gaussian mechanism of exactly what was charged for it. Which function of the
/// rows a later one releases follows from earlier releases: adaptive composition, as of steps.
class StatisticReleases final : public Teacher {
 public:
  /// Told of each release before anything follows from it.
  using Shown = std::function<void(const PlannedStatistic&, std::span<const float>)>;

  /// \param plan, executor, ledger, witness  outlive this.
  /// \param key  of nothing else; who draws with it twice, draws the same.
  /// \param ledger  null without noise. \param witness  null: none.
  StatisticReleases(const Plan& plan, const RandomKey& key, Executor& executor, Ledger* ledger,
                    ReleaseWitness* witness, Shown shown);

  /// \throws PrivacyError if the budget does not pay for them, which the plan has said it does.
  void pay();

  /// The counts that are planned, before any transform learns: the number of rows is what all later
  /// sums are divided by.
  /// \pre pay()
  const ReleasedCounts& release_counts(const Dataset& train);

  /// \pre pay(), release_counts()
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

 private:
  BoundedOnGrid sum(const PlannedStatistic& planned, const BoundedStatistic& transform,
                    const Dataset& train) const;
  /// One release, against the next receipt: each is used for the statistic that it was charged for,
  /// since they are released in the plan's order.
  /// \param own  keeps it, where nobody stands between.
  /// \returns what the run goes on with, once it was shown.
  const Released& release(const PlannedStatistic& planned, BoundedOnGrid sum, double divisor,
                          Mechanism& mechanism, ReleaseSeen::What what, std::vector<Released>& own);

  const Plan& plan_;
  RandomKey key_;
  Executor& executor_;
  Ledger* ledger_;
  ReleaseWitness* witness_;
  Shown shown_;
  StatisticNoiseRecipes noise_;
  Mechanism mechanism_;
  ReleasedCounts counts_;
  std::vector<Receipt> receipts_;  // in reverse order: the next one is the last
};

/// Gives transforms what they had learnt when a checkpoint was made.
class KeptStatistics final : public Teacher {
 public:
  /// \param kept  one per transform; outlives this.
  explicit KeptStatistics(const std::vector<FittedTransform>& kept) : kept_(kept) {}
  /// \throws IoError if it is not what the transform can have learnt.
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

 private:
  const std::vector<FittedTransform>& kept_;
};

}  // namespace privgrad::core
