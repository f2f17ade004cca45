#include "privgrad/train/accuracy_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "privgrad/data/breach.hpp"
#include "privgrad/record/facts.hpp"
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

std::optional<RunStatus> AccuracyReports::ends_run() const {
  if (planned_.ends_run(between_)) return RunStatus::stopped_early;
  return std::nullopt;
}

std::optional<RunStatus> AccuracyReports::before_step(std::uint64_t step, RunModel& /*model*/) {
  if (step >= affordable_) return RunStatus::budget_exhausted;
  return std::nullopt;
}

bool AccuracyReports::after_step(std::uint64_t steps, RunModel& /*model*/) {
  if (!planned_.is_due(steps, affordable_)) return false;
  const auto made = release_(planned_.charge_behind(steps));
  // The plan's budget includes all reports; if it is used up here, the next step ends the run.
  if (!made) return false;
  steps_.push_back(steps);
  between_.push_back(made->value);
  return true;
}

void AccuracyReports::model_is_final(RunModel& /*model*/) { kept_ = release_(planned_.charge()); }

void AccuracyReports::save(StateWriter& out) const { out.put(steps_, between_); }

void AccuracyReports::restore(StateReader& in) {
  in.get(steps_, between_);
  if (between_.size() != steps_.size()) in.fail("its measurements have another size");
}

void AccuracyReports::add_to_metrics(MetricsLine& line, std::uint64_t steps,
                                     RunModel& /*model*/) const {
  if (!steps_.empty() && steps_.back() == steps) line.reported_accuracy = between_.back();
}

void AccuracyReports::add_to_summary(Summary& summary) const {
  if (!summary.reported) summary.reported.emplace();
  AccuracySummary& reported = summary.reported->train_accuracy.emplace();
  static_cast<ReportFacts&>(reported) = facts_of(planned_);
  if (planned_.every > 0) reported.between = ValuesOfSteps{steps_, between_};
  if (!kept_) return;
  reported.value = kept_->value;
  reported.noise_stddev = kept_->noise_stddev;
}

}  // namespace privgrad::core
