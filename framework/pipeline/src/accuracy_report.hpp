#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "privgrad/executor.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/release_witness.hpp"
#include "privgrad/pipeline/trainer.hpp"
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

/// Pays for the report, and releases the accuracy of the model on the bench.
/// \param key  of nothing else.
/// \param ledger  null without noise. \param witness  null: none.
/// \returns nothing if the ledger does not pay for it.
std::optional<ReportedAccuracy> release_accuracy(const Plan& plan, const Dataset& train,
                                                 const Workbench& bench, const RandomKey& key,
                                                 Ledger* ledger, ReleaseWitness* witness,
                                                 Executor& executor);

/// \param made  nothing: it was not released.
nlohmann::json to_json(const PlannedReport& planned, const std::optional<ReportedAccuracy>& made);

}  // namespace privgrad::core
