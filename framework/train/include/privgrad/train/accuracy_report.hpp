#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// What the key of a report's noise is derived for.
inline constexpr std::string_view kReportPurpose = "report";

/// What each row adds to the report: 1/2 if the program classifies it rightly, and else -1/2. Each row
/// by itself, so that no other one is behind its number.
/// \param rows  which examples.
std::vector<float> correct_halves(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> rows, Executor& executor);

/// A released accuracy.
struct ReportedAccuracy {
  double value = 0.0;         ///< In [0, 1].
  double noise_stddev = 0.0;  ///< Of the number before it was brought into [0, 1].
};

/// The accuracies that a run has released.
struct ReportedAccuracies {
  std::vector<std::uint64_t> steps;      ///< Behind which those between the steps were.
  std::vector<double> between;           ///< One for each of `steps`.
  std::optional<ReportedAccuracy> kept;  ///< Of the model that is kept, once it was released.
};

/// Pays for a report, and releases the accuracy of the model on the bench.
/// \param charge  PlannedReport::charge(), or charge_behind() so many steps, which chooses the noise:
///   of one key, each charge's own.
/// \param divisor  of the sum: divisor_of().
/// \param key  of nothing but reports.
/// \param ledger  null without noise. \param witness  null: none.
/// \returns nothing if the ledger does not pay for it.
std::optional<ReportedAccuracy> release_accuracy(const Plan& plan, const Charge& charge,
                                                 double divisor, const Dataset& train,
                                                 const Workbench& bench, const RandomKey& key,
                                                 Ledger* ledger, ReleaseWitness* witness,
                                                 Executor& executor);

/// What was planned, with what was made of it.
nlohmann::json to_json(const PlannedReport& planned, const ReportedAccuracies& made);

}  // namespace privgrad::core
