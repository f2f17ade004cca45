#include "privgrad/pipeline/falsify.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "neighbours.hpp"
#include "privgrad/error.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/scratch_folder.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/value.hpp"
#include "records.hpp"
#include "replay.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint64_t kMostSeeds = 1000;
/// Of the clip norm: what sums may be off by where floating point is not covered anyway.
constexpr double kNear = 1e-3;

/// How far the released numbers of a plan can be made again.
enum class ReleaseReach {
  bits = 1,     ///< Exactly.
  near,         ///< But for the roundings of a sum in floating point.
  differences,  ///< The noise is not rounded noise: only what two worlds differ by.
  nothing,
};

ReleaseReach reach_of(const Plan& plan) {
  if (plan.correlated || plan.clip_norm_adapts()) return ReleaseReach::nothing;
  if (plan.arithmetic != Arithmetic::exact && plan.grid_levels == 0)
    return ReleaseReach::differences;
  const ExactAbilities& program = plan.setting->program;
  return program.clipping || program.rows ? ReleaseReach::bits : ReleaseReach::near;
}

bool is_amplified(const Event& event) {
  return std::holds_alternative<PoissonSampledEvent>(event.kind()) ||
         std::holds_alternative<SampledWithoutReplacementEvent>(event.kind());
}

/// What is seen of a step, by value.
struct Taken {
  std::vector<std::uint32_t> batch;
  std::vector<float> values;
  double noise_stddev = 0.0, clip_norm = 0.0;
  bool is_paid = false, is_finite = false;
  std::string failure;  ///< What was thrown; empty if nothing was.
};

/// One of the two data sets, and who trains on it.
class World {
 public:
  World(const Plan& plan, Dataset data, const RandomKey& key, Executor& executor,
        const std::filesystem::path& ledger)
      : data_(std::move(data)),
        trainer_(plan, data_, std::nullopt, key, executor),
        bench_(make_workbench(plan, executor)) {
    trainer_.open_ledger(ledger, nlohmann::json::object());
    trainer_.show_steps_to([this](const StepSeen& seen) {
      taken_.batch.assign(seen.batch.begin(), seen.batch.end());
      taken_.values.assign(seen.gradient.values().begin(), seen.gradient.values().end());
      taken_.noise_stddev = seen.gradient.noise_stddev();
      taken_.clip_norm = seen.clip_norm;
    });
  }

  const Taken& take_step(std::uint64_t step, const std::vector<float>& parameters) {
    taken_ = {};
    try {
      bench_.load(parameters);
      taken_.is_paid = trainer_.pay_for(step);
      if (taken_.is_paid) taken_.is_finite = trainer_.take_step(step, bench_);
    } catch (const std::exception& problem) {
      taken_.failure = problem.what();
    }
    return taken_;
  }

  const Dataset& data() const { return data_; }
  const std::vector<float>& parameters() const { return bench_.parameters; }

 private:
  Dataset data_;
  Trainer trainer_;
  Workbench bench_;
  Taken taken_;
};

class Comparison {
 public:
  Comparison(const Plan& plan, const FalsifyOptions& options)
      : plan_(plan),
        raw_(raw_data(plan)),
        steps_(std::min({options.steps, plan.steps(), plan.affordable_steps})),
        options_(options),
        reach_(reach_of(plan)),
        seed_(find_seed()) {}

  Falsified result() && {
    found_.steps = steps_;
    compare_keys();
    std::vector<std::vector<float>> first;
    for (const LastRow change : neighbours_under(plan_.manifest->adjacency)) {
      now_ = to_text(change);
      found_.neighbours.push_back(now_);
      const auto released = lead(change);
      if (first.empty()) first = released;
      for (std::size_t step = 0; step < std::min(first.size(), released.size()); ++step) {
        if (same_bits(first[step], released[step])) continue;
        report("repeat", step, "the same data, key and parameters gave other bits the second time");
        break;
      }
    }
    compare_records();
    return std::move(found_);
  }

 private:
  RandomKey key(std::uint64_t seed) const { return RandomKey::from_seed(seed); }

  std::vector<std::vector<std::uint32_t>> batches(std::uint64_t seed) const {
    const Components made = start_components(plan_);
    const std::shared_ptr<const RandomSource> random =
        plan_.correlated ? plan_.correlated->random
                         : make_random_source(key(seed).derive("sampler"));
    std::vector<std::vector<std::uint32_t>> all(steps_);
    for (std::uint64_t step = 0; step < steps_; ++step)
      made.sampler->sample(step, raw_.train.rows(), *random, all[step]);
    return all;
  }

  std::uint64_t count_of_last(std::uint64_t seed) const {
    const auto last = static_cast<std::uint32_t>(raw_.train.rows() - 1);
    std::uint64_t count = 0;
    for (const auto& batch : batches(seed))
      count += std::find(batch.begin(), batch.end(), last) != batch.end() ? 1 : 0;
    return count;
  }

  /// The first seed with which the last row takes part; without one, the comparison says so.
  std::uint64_t find_seed() {
    const std::uint64_t tried = plan_.correlated ? 1 : kMostSeeds;
    for (std::uint64_t i = 0; i < tried; ++i) {
      found_.participations = count_of_last(options_.seed + i);
      if (found_.participations > 0) return options_.seed + i;
    }
    found_.not_compared.push_back("contributions: the row that differs is in no batch of " +
                                  std::to_string(steps_) + " steps, with " + std::to_string(tried) +
                                  " seed(s); more steps are needed");
    return options_.seed;
  }

  void compare_keys() {
    const bool drawn = std::any_of(plan_.charges.begin(), plan_.charges.end(),
                                   [](const Charge& charge) { return is_amplified(charge.cost); });
    if (!drawn || plan_.correlated) return;
    now_ = to_text(LastRow::as_it_is);
    for (const std::uint64_t other : {seed_ + 1, seed_ + 2, seed_ + 3}) {
      if (batches(seed_) != batches(other)) return;
    }
    report("key", std::nullopt,
           "batches are charged as drawn at random, and are the same under four keys");
  }

  /// Leads both worlds through the steps.
  /// \returns what the first one released.
  std::vector<std::vector<float>> lead(LastRow change) {
    // The first pass and the others must agree bit by bit: threads change nothing.
    const auto executor = make_executor(found_.neighbours.size() == 1 ? options_.threads : 1);
    RunData here = neighbouring_data(plan_, raw_, LastRow::as_it_is);
    RunData there = try_transforms(change, here);
    if (there.train.rows() == 0) return {};
    compare_transforms(here.train, there.train);
    compare_learnt(here, there);
    const ScratchFolder folder("falsify");
    std::vector<std::vector<float>> released;
    {
      World a(plan_, std::move(here.train), key(seed_), *executor, folder.path() / "a");
      World b(plan_, std::move(there.train), key(seed_), *executor, folder.path() / "b");
      Replay replay(plan_, key(seed_), *executor);
      at_step_ = initial_parameters(plan_, key(seed_));
      for (std::uint64_t step = 0; step < steps_; ++step) {
        replay.load(at_step_);
        const Taken& in_a = a.take_step(step, at_step_);
        const Taken& in_b = b.take_step(step, at_step_);
        if (!in_a.failure.empty()) throw PluginError(in_a.failure);
        if (!compare_status(step, in_a, in_b)) break;
        compare_batches(step, in_a, in_b, change);
        compare_constants(step, replay, in_a, in_b);
        compare_releases(step, replay, a, in_a, b, in_b);
        released.push_back(in_a.values);
        if (!in_a.is_finite) break;
        at_step_ = a.parameters();
      }
    }
    compare_ledgers(folder.path());
    return released;
  }

  /// \returns no rows if the neighbour cannot be transformed where the data can.
  RunData try_transforms(LastRow change, const RunData& here) {
    try {
      return neighbouring_data(plan_, raw_, change);
    } catch (const std::exception& problem) {
      if (here.train.rows() > 0)
        report("transforms", std::nullopt,
               std::string("fail on the neighbour alone: ") + problem.what());
      return {};
    }
  }

  /// What is listed as unaccounted may follow from all rows; nothing else may.
  void compare_transforms(const Dataset& here, const Dataset& there) {
    const auto& statistics = plan_.setting->statistics;
    const bool fitted = std::any_of(statistics.begin(), statistics.end(), [](Statistic statistic) {
      return statistic == Statistic::unaccounted || statistic == Statistic::declared_public;
    });
    if (fitted || (statistics.empty() && plan_.setting->frozen_layers == 0)) return;
    const std::size_t width = here.row_size();
    std::vector<float> one(width), other(width), target(1);
    for (std::uint32_t row = 0; row + 1 < here.rows(); ++row) {
      here.gather({&row, 1}, one, target);
      there.gather({&row, 1}, other, target);
      if (same_bits(one, other)) continue;
      return report("transforms", std::nullopt,
                    "row " + std::to_string(row) +
                        " becomes another, though its own features are the same and no transform "
                        "says that it was fitted to private rows");
    }
  }

  /// What is saved of transforms that say they learn nothing from private rows.
  void compare_learnt(const RunData& here, const RunData& there) {
    const auto same = [](const FittedTensor& a, const FittedTensor& b) {
      return a.name == b.name && a.shape == b.shape && a.values == b.values;
    };
    const auto& statistics = plan_.setting->statistics;
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      if (statistics[i] != Statistic::none && statistics[i] != Statistic::is_public) continue;
      const auto& a = here.preprocessing[i].values;
      const auto& b = there.preprocessing[i].values;
      if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) continue;
      return report("transforms", std::nullopt,
                    "transform " + std::to_string(i) +
                        " saves other numbers with the model, and says that it learns none from "
                        "private rows");
    }
  }

  bool compare_status(std::uint64_t step, const Taken& a, const Taken& b) {
    if (!b.failure.empty()) {
      report("status", step, "fails with the neighbour alone: " + b.failure);
      return false;
    }
    if (a.is_paid != b.is_paid) report("charges", step, "one of the two runs is paid for");
    return a.is_paid && b.is_paid;
  }

  void compare_batches(std::uint64_t step, const Taken& a, const Taken& b, LastRow change) {
    std::vector<std::uint32_t> expected = a.batch, found = b.batch;
    if (change == LastRow::removed)
      std::erase(expected, static_cast<std::uint32_t>(raw_.train.rows() - 1));
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    if (expected == found) return;
    report("batch", step,
           "rows that both data sets have are drawn in one of them only: " +
               std::to_string(expected.size()) + " expected, " + std::to_string(found.size()) +
               " drawn");
  }

  void compare_constants(std::uint64_t step, const Replay& replay, const Taken& a, const Taken& b) {
    if (plan_.clip_norm_adapts()) return;  // told by the clip norm, which follows releases
    if (a.noise_stddev != b.noise_stddev)
      report("noise", step,
             "its standard deviation is " + format_number(a.noise_stddev) + " and " +
                 format_number(b.noise_stddev));
    if (reach_ == ReleaseReach::nothing) return;
    if (std::abs(a.noise_stddev - replay.noise_stddev(step)) > 1e-12 * a.noise_stddev)
      report("noise", step,
             "its standard deviation is " + format_number(a.noise_stddev) + ", planned " +
                 format_number(replay.noise_stddev(step)));
    for (const double clip_norm : {a.clip_norm, b.clip_norm}) {
      if (clip_norm != plan_.clip_norm[step])
        report(
            "clip norm", step,
            "is " + format_number(clip_norm) + ", planned " + format_number(plan_.clip_norm[step]));
    }
  }

  void compare_releases(std::uint64_t step, Replay& replay, const World& a, const Taken& in_a,
                        const World& b, const Taken& in_b) {
    if (reach_ == ReleaseReach::nothing) return;
    std::vector<std::int64_t> sum_a(replay.parameters(), 0), sum_b = sum_a;
    for (const std::uint32_t row : in_a.batch) add(step, row, replay, a.data(), sum_a);
    // What the other rows add is taken from the first world: it must not have changed.
    const auto last = static_cast<std::uint32_t>(raw_.train.rows() - 1);
    for (const std::uint32_t row : in_b.batch) {
      if (row != last) add(step, row, replay, a.data(), sum_b);
    }
    if (std::find(in_b.batch.begin(), in_b.batch.end(), last) != in_b.batch.end()) {
      replay.load(at_step_);
      add(step, last, replay, b.data(), sum_b);
    }
    found_.coordinates += in_a.values.size() + in_b.values.size();
    if (reach_ == ReleaseReach::differences)
      return compare_difference(step, replay, sum_a, sum_b, in_a, in_b);
    check_release(step, in_a.values, replay.release(step, std::move(sum_a)), "");
    check_release(step, in_b.values, replay.release(step, std::move(sum_b)), " of the neighbour");
  }

  void add(std::uint64_t step, std::uint32_t row, Replay& replay, const Dataset& data,
           std::vector<std::int64_t>& sum) {
    const Replay::Contribution& one = replay.of_row(step, data, row);
    if (!one.within_bound)
      report("contribution", step,
             "the cells of row " + std::to_string(row) + " are longer than the clip norm");
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one.cells[i];
  }

  void compare_difference(std::uint64_t step, const Replay& replay,
                          const std::vector<std::int64_t>& sum_a,
                          const std::vector<std::int64_t>& sum_b, const Taken& a, const Taken& b) {
    const double unit = plan_.clip_norm[step] / plan_.batch_size[step];
    for (std::size_t i = 0; i < sum_a.size(); ++i) {
      const double expected =
          unit * static_cast<double>(sum_a[i] - sum_b[i]) / replay.cells_per_clip_norm();
      const double found = static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]);
      if (std::abs(found - expected) <= kNear * unit) continue;
      return report("release", step,
                    "coordinate " + std::to_string(i) + " differs by " + format_number(found) +
                        ", the row's own part by " + format_number(expected));
    }
  }

  void check_release(std::uint64_t step, const std::vector<float>& found,
                     const std::vector<float>& expected, const std::string& whose) {
    const double near =
        reach_ == ReleaseReach::bits ? 0.0 : kNear * plan_.clip_norm[step] / plan_.batch_size[step];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (i < found.size() && std::abs(found[i] - expected[i]) <= near) continue;
      const std::string is = i < found.size() ? format_number(found[i]) : "missing";
      std::string what = "coordinate " + std::to_string(i);
      what.append(whose).append(" is ").append(is);
      what.append("; from the rows' own cells, the noise and the divisor comes ");
      return report("release", step, what.append(format_number(expected[i])));
    }
  }

  void compare_ledgers(const std::filesystem::path& folder) {
    const LedgerContents a = read_ledger(folder / "a"), b = read_ledger(folder / "b");
    if (const auto text = difference_of(a, b)) report("charges", std::nullopt, *text);
  }

  void compare_records() {
    for (const LastRow change : {LastRow::zeros, LastRow::removed}) {
      const auto tried = neighbours_under(plan_.manifest->adjacency);
      if (std::find(tried.begin(), tried.end(), change) == tried.end()) continue;
      now_ = to_text(change);
      const ScratchFolder folder("falsify");
      for (const std::string& text : differing_records(plan_, raw_, change, seed_, folder.path()))
        report("record", std::nullopt, text);
    }
  }

  /// Once for each thing, at the first step that shows it: the others follow from it.
  void report(const std::string& what, std::optional<std::uint64_t> step,
              const std::string& detail) {
    const bool known = std::any_of(
        found_.differences.begin(), found_.differences.end(),
        [&](const Difference& other) { return other.what == what && other.neighbour == now_; });
    if (!known) found_.differences.push_back({what, step, now_, detail});
  }

  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
      return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    });
  }

  const Plan& plan_;
  RunData raw_;
  std::uint64_t steps_;
  const FalsifyOptions& options_;
  ReleaseReach reach_;
  Falsified found_;
  std::uint64_t seed_;
  std::vector<float> at_step_;  ///< The parameters that both worlds take the step from.
  std::string now_;
};

/// What cannot be compared at all; "" if something can.
std::string nothing_to_compare(const Plan& plan) {
  if (plan.federated) return "federated runs: clients and rounds are not made again here";
  if (plan.manifest->noise_off) return "a run without noise: it protects nobody";
  if (plan.noise_adapts) return "noise that adapts: it follows from releases of both data sets";
  if (plan.setting->info.train_rows < 2) return "a single row: there is nothing beside it";
  return "";
}

}  // namespace

Falsified falsify(const Plan& plan, const FalsifyOptions& options) {
  if (options.steps == 0 || options.threads <= 0)
    throw ConfigError("steps and threads of a comparison must be above 0");
  if (const std::string why = nothing_to_compare(plan); !why.empty()) {
    Falsified nothing;
    nothing.not_compared.push_back(why);
    return nothing;
  }
  Falsified result = Comparison(plan, options).result();
  if (plan.correlated)
    result.not_compared.push_back("released numbers: releases that share noise are not made again");
  if (plan.clip_norm_adapts())
    result.not_compared.push_back("released numbers: the clip norm follows what was released");
  if (plan.grid_levels == 0 && plan.arithmetic != Arithmetic::exact)
    result.not_compared.push_back("bits of released numbers: arithmetic is float");
  return result;
}

nlohmann::json to_json(const Falsified& result) {
  auto differences = nlohmann::json::array();
  for (const Difference& one : result.differences) {
    differences.push_back({{"what", one.what},
                           {"step", one.step ? nlohmann::json(*one.step) : nlohmann::json(nullptr)},
                           {"neighbour", one.neighbour},
                           {"detail", one.detail}});
  }
  return {{"falsified", !result.differences.empty()},
          {"differences", differences},
          {"not_compared", result.not_compared},
          {"neighbours", result.neighbours},
          {"steps", result.steps},
          {"participations", result.participations},
          {"coordinates", result.coordinates}};
}

}  // namespace privgrad::core
