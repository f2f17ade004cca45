// Computes, pays for and records the noisy training accuracy that a run may release.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The purpose (RandomKey::derive()) of the key for a report's noise.
inline constexpr std::string_view kReportPurpose = "report";

/// The contribution of each row to the report: 1/2 if the program classifies it correctly,
/// otherwise -1/2. Each row is evaluated separately, so its contribution depends on no other row.
/// \param rows  numbers of the examples.
std::vector<float> correct_halves(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> rows, Executor& executor);

/// A released accuracy.
struct ReportedAccuracy {
  double value = 0.0;         ///< In [0, 1].
  double noise_stddev = 0.0;  ///< Of the value before it was clamped to [0, 1].
};

/// The accuracies that a run has released.
struct ReportedAccuracies {
  std::vector<std::uint64_t> steps;      ///< The steps after which an accuracy was released.
  std::vector<double> between;           ///< The accuracies, one for each of `steps`.
  std::optional<ReportedAccuracy> kept;  ///< The kept model's accuracy, once released.
};

/// Pays for a report, and then releases the accuracy of a model.
/// \param charge  PlannedReport::charge() for the final model, otherwise charge_behind(). Reports
///   with different charges have different noise, all derived from `key`.
/// \param divisor  the divisor of the sum, from divisor_of().
/// \param halves_of_rows  computes correct_halves() of all training rows, after the payment.
/// \param model  the parameters of the model.
/// \param key  used only for reports.
/// \param ledger  null without noise.
/// \param witness  may be null.
/// \returns nothing if the ledger does not pay for the report.
std::optional<ReportedAccuracy> release_accuracy(
    const Plan& plan, const Charge& charge, double divisor,
    const std::function<std::vector<float>()>& halves_of_rows, std::span<const float> model,
    const RandomKey& key, Ledger* ledger, ReleaseWitness* witness, Executor& executor);

/// Returns the planned report together with the accuracies that were released.
nlohmann::json to_json(const PlannedReport& planned, const ReportedAccuracies& made);

}  // namespace privgrad::core
