#include "privgrad/train/accuracy_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "privgrad/data/breach.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {

std::vector<float> correct_halves(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> rows, Executor& executor) {
  const std::vector<Evaluation> all = example_evaluations(program, data, rows, executor);
  std::vector<float> halves(rows.size());
  std::ranges::transform(all, halves.begin(),
                         [](const Evaluation& one) { return one.correct == 1 ? 0.5f : -0.5f; });
  return halves;
}

std::optional<ReportedAccuracy> release_accuracy(
    const Plan& plan, const Charge& charge, double divisor,
    const std::function<std::vector<float>()>& halves_of_rows, std::span<const float> model,
    const RandomKey& key, Ledger* ledger, ReleaseWitness* witness, Executor& executor) {
  std::vector<Receipt> receipts;
  if (ledger != nullptr) {
    receipts = ledger->charge({&charge, 1});
    if (receipts.empty()) return std::nullopt;
  }
  std::vector<float> halves;
  in_run_of(plan.manifest->backend.component->full_name(), [&] { halves = halves_of_rows(); });
  const IndependentNoise noise(plan.report->noise_multiplier);
  Mechanism mechanism(noise, key, executor);
  BoundedOnGrid sum = row_sum(std::move(halves), 1, PlannedReport::kBound, executor);
  std::vector<Released> own;
  if (ledger == nullptr) {
    own.push_back(mechanism.release_without_noise(std::move(sum), divisor));
  } else {
    own.push_back(mechanism.release(std::move(sum), std::move(receipts.front()), divisor));
  }
  const std::span<const Released> released = led_by(witness,
                                                    {.what = ReleaseSeen::What::report,
                                                     .client = std::nullopt,
                                                     .step = charge.step,
                                                     .batch = {},
                                                     .model = model,
                                                     .reached = {},
                                                     .clip_norm = PlannedReport::kBound},
                                                    own);
  const auto mean = static_cast<double>(released.front().values().front());
  return ReportedAccuracy{.value = std::clamp(mean + 0.5, 0.0, 1.0),
                          .noise_stddev = released.front().noise_stddev()};
}

nlohmann::json to_json(const PlannedReport& planned, const ReportedAccuracies& made) {
  nlohmann::json json = to_json(planned);
  if (planned.every > 0) json["between"] = {{"step", made.steps}, {"value", made.between}};
  if (!made.kept) return json;
  json["value"] = made.kept->value;
  json["noise_stddev"] = made.kept->noise_stddev;
  return json;
}

}  // namespace privgrad::core
