#include "privgrad/train/statistic_releases.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {
namespace {

const PlannedStatistic& planned_for(const PlanNumbers& plan, std::size_t number) {
  const auto found = std::ranges::find_if(plan.statistics, [&](const auto& one) {
    return one.of == StatisticOf::transform && one.transform == number;
  });
  if (found != plan.statistics.end()) return *found;
  throw PrivacyError("transform " + std::to_string(number) +
                     " learns from a statistic that was not planned");
}

/// Draws a check that compares some examples' contributions, computed alone and among others.
ContributionCheck drawn_check(const RandomKey& key, std::size_t number, std::size_t rows,
                              std::string_view who) {
  const auto random = make_random_source(key.derive("contribution checks"))->stream(number);
  ContributionCheck check{.place = static_cast<std::size_t>(random->uniform_below(rows)),
                          .program = who,
                          .clipping = who};
  for (std::size_t i = 0; i < ContributionCheck::kOthers; ++i)
    check.others.push_back(random->uniform_below(std::uint64_t{1} << 63));
  return check;
}

/// The transform's contributions in pieces; empty if it makes only whole contributions.
PiecesOf pieces_of(const BoundedStatistic& transform, const Shape& shape) {
  const std::vector<float> made_up(element_count(shape));
  if (transform.contribution_in_pieces(shape, made_up) == nullptr) return {};
  return [&transform, &shape](std::span<const float> features) {
    return transform.contribution_in_pieces(shape, features);
  };
}

/// The sum for a count: a row adds 1 to the single number (StatisticOf::rows), or to the number of
/// its class.
BoundedOnGrid sum_of_count(const PlannedStatistic& planned, const Dataset& train,
                           Executor& executor) {
  if (planned.of == StatisticOf::rows)
    return row_sum(std::vector<float>(train.rows(), 1.0f), 1, 1.0, executor);
  return class_sum(train.targets(), planned.size, executor);
}

}  // namespace

RandomKey noise_key_of(StatisticOf of, const RandomKey& key) {
  switch (of) {
    case StatisticOf::rows:
      return key.derive("noise of the number of rows");
    case StatisticOf::classes:
      return key.derive("noise of the class counts");
    case StatisticOf::transform:
      break;
  }
  return key.derive("noise");
}

StatisticNoiseRecipes::StatisticNoiseRecipes(const std::vector<PlannedStatistic>& statistics) {
  for (const PlannedStatistic& one : statistics) {
    if (one.of != StatisticOf::transform) continue;
    multipliers_.resize(one.transform + 1, 0.0);
    multipliers_.back() = one.noise_multiplier;
  }
}

ReleaseRecipe StatisticNoiseRecipes::recipe(std::uint64_t transform) const {
  return {.keep = 0.0,
          .earlier = {},
          .noise = {{.node = transform, .multiplier = multipliers_.at(transform)}},
          .scale = 1.0};
}

StatisticReleases::StatisticReleases(const Plan& plan, const RandomKey& key, Executor& executor,
                                     Ledger* ledger, ReleaseWitness* witness,
                                     SecondLook& second_look, Shown shown)
    : plan_(plan),
      key_(key),
      executor_(executor),
      ledger_(ledger),
      witness_(witness),
      second_look_(second_look),
      shown_(std::move(shown)),
      noise_(plan.statistics),
      mechanism_(noise_, noise_key_of(StatisticOf::transform, key), executor) {}

void StatisticReleases::pay() {
  if (ledger_ == nullptr) {
    if (plan_.manifest->noise_off) return;
    throw PrivacyError("statistics with noise need a ledger, and none was opened");
  }
  const std::vector<Charge> charges = charges_of(plan_.statistics);
  receipts_ = ledger_->charge(charges);
  if (receipts_.size() != charges.size())
    throw PrivacyError("the budget does not pay for the statistics of the rows");
  std::ranges::reverse(receipts_);
}

BoundedOnGrid StatisticReleases::sum(const PlannedStatistic& planned,
                                     const BoundedStatistic& transform,
                                     const Dataset& train) const {
  const Shape& shape = train.shape().features;
  const std::string who = plan_.manifest->transforms[planned.transform].component->full_name();
  std::optional<BoundedOnGrid> made;
  in_run_of(who, [&] {
    ContributionCheck check =
        drawn_check(key_, planned.transform, std::max<std::size_t>(1, train.rows()), who);
    made.emplace(
        statistic_sum([&](std::span<const float> features,
                          std::span<float> out) { transform.contribution(shape, features, out); },
                      train, planned.size, planned.l2_bound, executor_,
                      train.rows() > 0 ? &check : nullptr, pieces_of(transform, shape)));
  });
  return std::move(*made);
}

const Released& StatisticReleases::release(const PlannedStatistic& planned, BoundedOnGrid sum,
                                           double divisor, Mechanism& mechanism,
                                           ReleaseSeen::What what, std::vector<Released>& own) {
  if (ledger_ == nullptr) {
    own.push_back(mechanism.release_without_noise(std::move(sum), divisor));
  } else {
    if (receipts_.empty())
      throw PrivacyError("a statistic that was not charged is about to be released");
    Receipt receipt = std::move(receipts_.back());
    receipts_.pop_back();
    own.push_back(mechanism.release(std::move(sum), std::move(receipt), divisor));
  }
  const Released& released = led_by(witness_,
                                    {.what = what,
                                     .client = std::nullopt,
                                     .step = planned.transform,
                                     .batch = {},
                                     .model = {},
                                     .reached = {},
                                     .clip_norm = planned.l2_bound},
                                    own)
                                 .front();
  if (shown_) shown_(planned, released.values());
  return released;
}

void StatisticReleases::release_counts(const Dataset& train) {
  for (const PlannedStatistic& one : plan_.statistics) {
    if (one.of == StatisticOf::transform) continue;
    const bool is_of_rows = one.of == StatisticOf::rows;
    const IndependentNoise noise(one.noise_multiplier);
    Mechanism mechanism(noise, noise_key_of(one.of, key_), executor_);
    std::vector<Released> own;
    // A count is a sum, so its divisor is 1.
    const Released& released =
        release(one, sum_of_count(one, train, executor_), 1.0, mechanism,
                is_of_rows ? ReleaseSeen::What::rows : ReleaseSeen::What::classes, own);
    if (is_of_rows) {
      counts_.rows = count_of_rows(released.values().front());
    } else {
      counts_.classes.assign(released.values().begin(), released.values().end());
    }
  }
}

void StatisticReleases::teach(std::size_t number, Transform& transform, const Dataset& train) {
  const PlannedStatistic& planned = planned_for(plan_, number);
  const ComponentPtr<Transform> shown_rows = plan_.manifest->transforms[number].make<Transform>();
  const auto* contributes = dynamic_cast<const BoundedStatistic*>(shown_rows.get());
  auto* learner = dynamic_cast<BoundedStatistic*>(&transform);
  if (learner == nullptr || contributes == nullptr)
    throw PluginError(planned.name + " asks for no statistic, but the plan has one");
  std::vector<Released> own;
  const Released& released =
      release(planned, sum(planned, *contributes, train), divisor_of(plan_, counts_), mechanism_,
              ReleaseSeen::What::statistic, own);
  in_run_of(plan_.manifest->transforms[number].component->full_name(),
            [&] { learner->learn(train.shape(), released); });
  second_look_.check_learnt(number, train.shape(), released, transform);
  const std::span<const float> values = released.values();
  if (values.size() > kMostRecordedNumbers) return;
  counts_.statistics.push_back({number, {values.begin(), values.end()}, released.noise_stddev()});
}

void save_statistics(StateWriter& out, const PlanNumbers& plan, const ReleasedCounts& counts,
                     const std::vector<FittedTransform>& learnt) {
  std::size_t recorded = 0;
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::rows) out.word(counts.rows.value());
    if (one.of == StatisticOf::classes) out.array(counts.classes);
    if (one.of != StatisticOf::transform) continue;
    if (one.size <= kMostRecordedNumbers) {
      out.array(counts.statistics.at(recorded).values);
      out.real(counts.statistics.at(recorded++).noise_stddev);
    }
    const std::vector<FittedTensor>& values = learnt.at(one.transform).values;
    out.word(values.size());
    for (const FittedTensor& tensor : values) {
      out.bytes(tensor.name);
      out.array(std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end()));
      out.array(tensor.values);
    }
  }
}

KeptStatistics::KeptStatistics(StateReader& in, const Plan& plan)
    : learnt_(plan.manifest->transforms.size()) {
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::rows) {
      counts_.rows = in.word();
      if (*counts_.rows == 0) in.fail("its released number of rows is 0");
    }
    if (one.of == StatisticOf::classes) counts_.classes = in.array<double>(one.size);
    if (one.of != StatisticOf::transform) continue;
    if (one.size <= kMostRecordedNumbers) {
      std::vector<float> values = in.array<float>(one.size);
      counts_.statistics.push_back({one.transform, std::move(values), in.real()});
    }
    for (std::uint64_t left = in.word(); left > 0; --left) {
      FittedTensor tensor;
      tensor.name = in.bytes();
      const std::vector<std::uint64_t> shape = in.array<std::uint64_t>();
      tensor.shape.assign(shape.begin(), shape.end());
      tensor.values = in.array<double>();
      learnt_[one.transform].values.push_back(std::move(tensor));
    }
  }
}

void KeptStatistics::teach(std::size_t number, Transform& transform, const Dataset&) {
  if (!transform.is_restorable() || number >= learnt_.size())
    throw IoError("the kept statistics lack what transform " + std::to_string(number) +
                  " has learnt");
  try {
    transform.restore(learnt_[number].values);
  } catch (const ConfigError& problem) {
    throw IoError(std::string("what was kept of the statistics: ") + problem.what());
  }
}

}  // namespace privgrad::core
