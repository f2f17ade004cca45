#include "replayed_owner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "privgrad/train/accuracy_report.hpp"
#include "privgrad/value.hpp"
#include "same_bits.hpp"

namespace privgrad::core {
namespace {

/// The allowed error of sums for ReleaseReach::near, as a share of the clip norm.
constexpr double kNear = 1e-3;

RandomKey key_of_owner(PrivacyUnit unit, std::optional<std::size_t> client, const RandomKey& key) {
  if (client) return Client::key_of(*client, key);
  return unit == PrivacyUnit::client ? server_key(key) : key;
}

const Plan& plan_of_owner(const Plan& run, std::optional<std::size_t> client) {
  return client ? *run.federated->clients[*client].plan : run;
}

}  // namespace

ReleaseReach reach_of(const Plan& plan) {
  if (plan.arithmetic != Arithmetic::exact) return ReleaseReach::differences;
  if (plan.unit == PrivacyUnit::client) return ReleaseReach::bits;  // ClientProgram is reproducible
  const ExactAbilities& program = plan.setting->program;
  return program.clipping || program.rows ? ReleaseReach::bits : ReleaseReach::near;
}

ReplayedOwner::ReplayedOwner(const Plan& run, std::optional<std::size_t> client,
                             const RandomKey& key, const Worlds& worlds, Executor& executor,
                             Report report)
    : run_(run),
      plan_(plan_of_owner(run, client)),
      client_(client),
      worlds_(worlds),
      report_(std::move(report)),
      reach_(reach_of(plan_)),
      clip_norm_(plan_.clip_norm.front()) {
  const RandomKey own = key_of_owner(run.unit, client, key);
  std::unique_ptr<Program> in_a, in_b;
  if (is_server()) {
    std::vector<float> numbers(run.federated->clients.size());
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    const std::size_t count = numbers.size();
    numbers_ = Dataset({{1}, 0}, std::move(numbers), std::vector<float>(count, 0.0f));
    in_a = here_.emplace(run, worlds.here.train, key, executor).take_program();
    in_b = there_.emplace(run, worlds.there.train, key, executor).take_program();
  }
  in_a_ = std::make_unique<Replay>(plan_, own, executor, std::move(in_a), worlds.class_weights);
  in_b_ = std::make_unique<Replay>(plan_, own, executor, std::move(in_b), worlds.class_weights);
  if (!plan_.correlated) return;
  past_a_.emplace(plan_.correlated->parts, own.derive("noise"), in_a_->elements());
  past_b_.emplace(plan_.correlated->parts, own.derive("noise"), in_b_->elements());
}

void ReplayedOwner::compare(const RecordedRelease& here, const RecordedRelease& there) {
  compare_parameters(here, there);
  if (here.own.size() != there.own.size())
    report_("release", here.name.step, "the runs release different numbers of vectors");
  if (here.name.what == ReleaseSeen::What::measurement) return compare_measurement(here, there);
  if (here.name.what == ReleaseSeen::What::report) return compare_report(here, there);
  compare_batches(here, there);
  if (here.name.what == ReleaseSeen::What::estimate) return compare_estimate(here, there);
  compare_gradient(here, there);
}

/// Compares the parameters, which must be equal, because both runs have used the same releases.
void ReplayedOwner::compare_parameters(const RecordedRelease& here, const RecordedRelease& there) {
  const auto compare = [&](const std::vector<float>& a, const std::vector<float>& b) {
    if (same_bits(a, b)) return;
    std::size_t i = 0;
    while (i < a.size() && i < b.size() && same_bits({&a[i], 1}, {&b[i], 1})) ++i;
    std::string detail = "after the same releases parameter " + std::to_string(i) + " is ";
    detail += i < a.size() ? format_number(a[i]) : "missing";
    detail += i < b.size() ? " and " + format_number(b[i]) : " and missing";
    report_("parameters", here.name.step, detail);
  };
  compare(here.model, there.model);
  compare(here.reached, there.reached);
}

bool ReplayedOwner::has_last(const RecordedRelease& at) const {
  return std::ranges::find(at.batch, worlds_.last) != at.batch.end();
}

void ReplayedOwner::compare_batches(const RecordedRelease& here, const RecordedRelease& there) {
  std::vector<std::uint32_t> expected = here.batch, found = there.batch;
  if (worlds_.there.train.rows() < worlds_.here.train.rows()) std::erase(expected, worlds_.last);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  if (expected == found) return;
  report_(
      "batch", here.name.step,
      "rows of both data sets are drawn in only one of them: " + std::to_string(expected.size()) +
          " expected, " + std::to_string(found.size()) + " drawn");
}

// ---- steps

void ReplayedOwner::begin_step(const RecordedRelease& here) {
  const std::uint64_t step = here.name.step;
  if (is_server()) {
    here_->begin_round(step);
    there_->begin_round(step);
  }
  for (Replay* replay : {in_a_.get(), in_b_.get()}) {
    replay->follow_test_rows(step, here.model, worlds_.here.test);
    replay->begin_step(step, here.model, here.clip_norm);
  }
}

void ReplayedOwner::compare_gradient(const RecordedRelease& here, const RecordedRelease& there) {
  const bool is_measured = plan_.noise_adapts && plan_.noise_adapts->is_charged();
  if (is_measured && here.name.step == 0) look_at_losses(here.model);
  begin_step(here);
  compare_constants(here, there);
  Sums in_a(in_a_->parts(), std::vector<std::int64_t>(in_a_->elements(), 0)), in_b = in_a;
  const Dataset& rows_here = is_server() ? numbers_ : worlds_.here.train;
  const Dataset& rows_there = is_server() ? numbers_ : worlds_.there.train;
  for (const std::uint32_t row : here.batch) add(here, row, *in_a_, rows_here, in_a);
  // Takes the other rows' contributions from the first world, because they must not have changed.
  for (const std::uint32_t row : there.batch) {
    if (row != worlds_.last) add(here, row, *in_a_, rows_here, in_b);
  }
  if (has_last(there)) add(there, worlds_.last, *in_b_, rows_there, in_b);
  compare_sums(here, there, std::move(in_a), std::move(in_b));
  for (Replay* replay : {in_a_.get(), in_b_.get()}) replay->learn(here.own.front());
  if (plan_.clip_norm_adapts()) clip_norm_ = in_a_->next_clip_norm(here.own.front().values());
}

void ReplayedOwner::compare_constants(const RecordedRelease& here, const RecordedRelease& there) {
  const std::uint64_t step = here.name.step;
  const double planned = plan_.clip_norm_adapts() ? clip_norm_ : plan_.clip_norm[step];
  for (const double clip_norm : {here.clip_norm, there.clip_norm}) {
    if (clip_norm != planned)
      report_(
          "clip norm", step,
          "the clip norm is " + format_number(clip_norm) + ", expected " + format_number(planned));
  }
  for (std::size_t part = 0; part < std::min(here.own.size(), there.own.size()); ++part) {
    const double a = here.own[part].noise_stddev(), b = there.own[part].noise_stddev();
    if (a != b)
      report_("noise", step,
              "the standard deviation is " + format_number(a) + " and " + format_number(b));
    if (plan_.correlated) continue;
    const double expected = in_a_->noise_stddev();
    if (std::abs(a - expected) > 1e-12 * a)
      report_("noise", step,
              "the standard deviation is " + format_number(a) + ", expected " +
                  format_number(expected));
  }
}

void ReplayedOwner::add(const RecordedRelease& at, std::uint32_t row, Replay& replay,
                        const Dataset& data, Sums& sums) {
  const Contribution& one = replay.of_row(data, row);
  if (!one.within_bound)
    report_("contribution", at.name.step,
            "the whole numbers of row " + std::to_string(row) + " are longer than the clip norm");
  for (std::size_t part = 0; part < std::min(sums.size(), one.cells.size()); ++part) {
    for (std::size_t i = 0; i < sums[part].size(); ++i) sums[part][i] += one.cells[part][i];
  }
}

void ReplayedOwner::compare_sums(const RecordedRelease& here, const RecordedRelease& there,
                                 Sums in_a, Sums in_b) {
  const std::uint64_t step = here.name.step;
  ReplayedSums none({}, RandomKey::from_seed(0), 0);  // not used by independent noise
  const bool noised = reach_ != ReleaseReach::differences;
  const auto a = in_a_->release(std::move(in_a), past_a_ ? *past_a_ : none, noised);
  const auto b = in_a_->release(std::move(in_b), past_b_ ? *past_b_ : none, noised);
  for (std::size_t part = 0; part < a.size(); ++part) {
    if (part >= here.own.size() || part >= there.own.size())
      return report_("release", step, "a part of the release is missing");
    const auto found_a = here.own[part].values(), found_b = there.own[part].values();
    coordinates_ += found_a.size() + found_b.size();
    if (noised) {
      check_release(step, found_a, a[part], "");
      check_release(step, found_b, b[part], " of the neighbour");
      continue;
    }
    Replayed difference{.values = a[part].values,
                        .near = kNear * here.clip_norm / plan_.batch_size[step]};
    std::vector<float> found(found_a.begin(), found_a.end());
    for (std::size_t i = 0; i < std::min(found.size(), found_b.size()); ++i) {
      difference.values[i] -= b[part].values[i];
      found[i] -= found_b[i];
    }
    check_release(step, found, difference, " of the difference");
  }
}

void ReplayedOwner::check_release(std::uint64_t step, std::span<const float> found,
                                  const Replayed& expected, const std::string& whose) {
  double near = expected.near;
  if (reach_ == ReleaseReach::near)
    near = std::max(near, kNear * plan_.clip_norm[step] / plan_.batch_size[step]);
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double wanted = expected.values[i];
    if (i < found.size() && std::abs(found[i] - wanted) <= near) continue;
    const std::string is = i < found.size() ? format_number(found[i]) : "missing";
    std::string what = "coordinate " + std::to_string(i);
    what.append(whose).append(" is ").append(is);
    what.append("; recomputed from the rows, the noise and the divisor: ");
    return report_("release", step, what.append(format_number(wanted)));
  }
}

// ---- releases besides the steps

/// The losses of the rows, clipped to the measurement's bound.
std::vector<double> ReplayedOwner::bounded_losses(Replay& replay, const Dataset& data,
                                                  std::span<const std::uint32_t> rows,
                                                  std::span<const float> model) const {
  const double bound = plan_.noise_adapts->measurement.loss_bound;
  std::vector<double> losses = replay.losses(model, data, rows);
  for (double& loss : losses) loss = std::isfinite(loss) ? std::clamp(loss, 0.0, bound) : bound;
  return losses;
}

/// Stores the losses of all rows in the first world, and the loss of the differing row in the
/// second world (0 if the row was removed).
void ReplayedOwner::look_at_losses(std::span<const float> model) {
  std::vector<std::uint32_t> rows(worlds_.here.train.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  losses_ = bounded_losses(*in_a_, worlds_.here.train, rows, model);
  const std::uint32_t last = worlds_.last;
  loss_there_ = last < worlds_.there.train.rows()
                    ? bounded_losses(*in_b_, worlds_.there.train, {&last, 1}, model).front()
                    : 0.0;
}

void ReplayedOwner::compare_beside(const Replay::Beside& what, const RecordedRelease& here,
                                   const RecordedRelease& there, std::span<const float> rows_here,
                                   std::span<const float> rows_there) {
  if (here.own.empty() || there.own.empty()) return;
  coordinates_ += 2 * what.width;
  check_release(here.name.step, here.own.front().values(),
                {.values = in_a_->release_beside(what, rows_here)}, "");
  check_release(here.name.step, there.own.front().values(),
                {.values = in_a_->release_beside(what, rows_there)}, " of the neighbour");
}

void ReplayedOwner::compare_measurement(const RecordedRelease& here, const RecordedRelease& there) {
  const std::vector<double> before = losses_;
  const double before_there = loss_there_;
  look_at_losses(here.model);
  std::vector<float> changes;
  for (std::size_t row = 0; row < losses_.size(); ++row)
    changes.push_back(static_cast<float>(losses_[row] - before[row]));
  std::vector<float> changes_there = changes;
  changes_there[worlds_.last] = static_cast<float>(loss_there_ - before_there);
  const Measurement& measurement = plan_.noise_adapts->measurement;
  compare_beside({.purpose = "noise/checks",
                  .number = here.name.step,
                  .width = 1,
                  .bound = measurement.loss_bound,
                  .multiplier = measurement.noise_multiplier,
                  .divisor = static_cast<double>(plan_.dataset_size)},
                 here, there, changes, changes_there);
  const double measured = here.own.front().values().front();
  for (Replay* replay : {in_a_.get(), in_b_.get()}) replay->follow(measured);
}

/// Uses the first world's rows in both worlds, except for the differing row, because the other rows
/// must not have changed.
void ReplayedOwner::compare_report(const RecordedRelease& here, const RecordedRelease& there) {
  std::vector<std::uint32_t> rows(worlds_.here.train.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  const std::vector<float> halves = in_a_->halves(here.model, worlds_.here.train, rows);
  std::vector<float> halves_there = halves;
  const std::uint32_t last = worlds_.last;
  if (last < worlds_.there.train.rows()) {
    halves_there[last] = in_b_->halves(here.model, worlds_.there.train, {&last, 1}).front();
  } else {
    halves_there.erase(halves_there.begin() + static_cast<std::ptrdiff_t>(last));
  }
  compare_beside({.purpose = kReportPurpose,
                  .number = here.name.step,
                  .width = 1,
                  .bound = PlannedReport::kBound,
                  .multiplier = plan_.report->noise_multiplier,
                  .divisor = worlds_.divisor},
                 here, there, halves, halves_there);
}

/// For each row: the change of its loss from the received model to the final model, and the second
/// difference of its losses at the received model, halfway, and at the final model.
std::vector<float> ReplayedOwner::changes_along(Replay& replay, const Dataset& data,
                                                const RecordedRelease& at,
                                                std::span<const std::uint32_t> rows) {
  std::vector<float> middle(at.model.size());
  for (std::size_t j = 0; j < middle.size(); ++j)
    middle[j] = 0.5f * at.model[j] + 0.5f * at.reached[j];
  const std::vector<double> before = replay.losses(at.model, data, rows),
                            halfway = replay.losses(middle, data, rows),
                            after = replay.losses(at.reached, data, rows);
  std::vector<float> changes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    changes.push_back(static_cast<float>(after[i] - before[i]));
    changes.push_back(static_cast<float>(after[i] - 2.0 * halfway[i] + before[i]));
  }
  return changes;
}

void ReplayedOwner::compare_estimate(const RecordedRelease& here, const RecordedRelease& there) {
  const FederatedPlan& federated = *run_.federated;
  const Federated& wish = *run_.manifest->federated;
  std::vector<std::uint32_t> others = there.batch;
  std::erase(others, worlds_.last);
  const std::vector<float> rows_here = changes_along(*in_a_, worlds_.here.train, here, here.batch);
  std::vector<float> rows_there = changes_along(*in_a_, worlds_.here.train, here, others);
  if (has_last(there)) {
    const auto own = changes_along(*in_b_, worlds_.there.train, here, std::span(&worlds_.last, 1));
    rows_there.insert(rows_there.end(), own.begin(), own.end());
  }
  const auto sampler =
      start_estimate_sampler(*plan_.manifest, plan_.dataset_size, federated.estimate_batch_size);
  compare_beside({.purpose = "estimates",
                  .number = here.name.step,
                  .width = 2,
                  .bound = wish.estimate_bound,
                  .multiplier = federated.estimate_noise,
                  .divisor = sampler->expected_batch_size(0)},
                 here, there, rows_here, rows_there);
}

}  // namespace privgrad::core
