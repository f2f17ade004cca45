#include "privgrad/falsify/falsify.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "neighbours.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/record/scratch_folder.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "recorded_run.hpp"
#include "records.hpp"
#include "replayed_owner.hpp"
#include "replayed_statistics.hpp"
#include "same_bits.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint64_t kMostSeeds = 1000;
/// The most seeds that are tried with a federated plan, one run each, because the participants are
/// known only after the run.
constexpr std::uint64_t kMostRuns = 16;

bool is_amplified(const Charge& charge) {
  const auto sampling = sampling_of(charge.cost);
  return sampling && (sampling->rate < 1.0 || sampling->draw != Sampling::Draw::coins);
}

bool is_before_steps(ReleaseSeen::What what) {
  return what == ReleaseSeen::What::statistic || what == ReleaseSeen::What::rows ||
         what == ReleaseSeen::What::classes;
}

/// The manifest of the compared runs: the plan's manifest without account and checkpoints. The seed
/// is set for each first run.
Manifest manifest_of_runs(Manifest manifest) {
  manifest.account.reset();
  manifest.checkpoint.is_off = true;
  return manifest;
}

class Comparison {
 public:
  Comparison(const Plan& plan, const FalsifyOptions& options)
      : plan_(plan),
        raw_(raw_data(plan.manifest->data, *plan.setting)),
        manifest_(manifest_of_runs(*plan.manifest)),
        steps_(std::min(options.steps, std::max<std::uint64_t>(1, plan.affordable_steps))),
        options_(options),
        executor_(make_executor(1)),
        folder_("falsify"),
        last_(plan.unit == PrivacyUnit::client
                  ? static_cast<std::uint32_t>(plan.federated->clients.size() - 1)
                  : static_cast<std::uint32_t>(raw_.train.rows() - 1)) {}

  Falsified result() && {
    make_first_run();
    found_.steps = steps_of_first_run();
    compare_payment();
    compare_keys();
    repeat();
    for (const LastRow change : neighbours_of(plan_)) {
      now_ = to_text(change, plan_.unit);
      found_.neighbours.push_back(now_);
      lead(change);
    }
    return std::move(found_);
  }

 private:
  RandomKey key(std::uint64_t seed) const { return RandomKey::from_seed(seed); }

  // ---- the first run

  /// Makes the first run with the first seed for which the differing row or client takes part; if
  /// there is no such seed, the result states this.
  void make_first_run() {
    const bool is_central = !plan_.federated;
    const std::uint64_t seeds = !is_central                       ? kMostRuns
                                : plan_.public_order() != nullptr ? 1
                                                                  : kMostSeeds;
    for (std::uint64_t i = 0; i < seeds; ++i) {
      seed_ = options_.seed + i;
      if (is_central && i + 1 < seeds && !takes_part(seed_)) continue;
      run_first();
      if (found_.participations > 0) return;
    }
    if (seed_ != options_.seed) {
      seed_ = options_.seed;
      run_first();
    }
    const std::string who = plan_.unit == PrivacyUnit::client ? "client" : "row";
    found_.not_compared.push_back("contributions: the differing " + who + " is in no batch of " +
                                  std::to_string(steps_) + " steps, with " + std::to_string(seeds) +
                                  " seed(s); use more steps");
  }

  void run_first() {
    manifest_.seed = seed_;
    first_.reset();
    first_ = run_on(LastRow::as_it_is, "a" + std::to_string(seed_) + "-" + std::to_string(runs_++),
                    {.steps = steps_, .threads = 1});
    if (first_->thrown()) std::rethrow_exception(first_->thrown());
    found_.participations = 0;
    for (const RecordedRelease* one : first_->releases()) {
      if (one->name.what == ReleaseSeen::What::gradient &&
          std::ranges::find(one->batch, last_) != one->batch.end())
        ++found_.participations;
    }
  }

  std::unique_ptr<RecordedRun> run_on(LastRow change, const std::string& name,
                                      const RecordedRun::Options& options) {
    return std::make_unique<RecordedRun>(plan_on(plan_, manifest_, raw_, change),
                                         folder_.path() / name, options);
  }

  std::uint64_t steps_of_first_run() const {
    std::uint64_t most = 0;
    for (const RecordedRelease* one : first_->releases()) {
      if (one->name.what == ReleaseSeen::What::gradient) most = std::max(most, one->name.step + 1);
    }
    return most;
  }

  /// Checks that the ledger of each owner has charges for all of its releases.
  void compare_payment() {
    now_ = to_text(LastRow::as_it_is);
    std::map<std::optional<std::size_t>, std::uint64_t> made;
    for (const RecordedRelease* one : first_->releases()) ++made[one->name.client];
    for (const auto& [client, count] : made) {
      const std::size_t paid = read_ledger(ledger_of(first_->directory(), client)).releases.size();
      if (count > paid)
        report("charges", std::nullopt,
               std::to_string(count) + " releases were made, but the ledger charges only " +
                   std::to_string(paid));
    }
  }

  /// The batches of a central run's compared steps.
  std::vector<std::vector<std::uint32_t>> batches(std::uint64_t seed) const {
    const Components made = start_components(plan_);
    const std::shared_ptr<const RandomSource> random =
        plan_.public_order() != nullptr ? plan_.public_order()->random
                                        : make_random_source(key(seed).derive("sampler"));
    std::vector<std::vector<std::uint32_t>> all(std::min(steps_, plan_.steps()));
    for (std::uint64_t step = 0; step < all.size(); ++step)
      made.sampler->sample(step, raw_.train.rows(), *random, all[step]);
    return all;
  }

  bool takes_part(std::uint64_t seed) const {
    const auto all = batches(seed);
    return std::ranges::any_of(
        all, [&](const auto& batch) { return std::ranges::find(batch, last_) != batch.end(); });
  }

  void compare_keys() {
    const bool drawn = std::ranges::any_of(plan_.charges, is_amplified);
    if (!drawn || plan_.public_order() != nullptr || plan_.federated) return;
    now_ = to_text(LastRow::as_it_is);
    for (const std::uint64_t other : {seed_ + 1, seed_ + 2, seed_ + 3}) {
      if (batches(seed_) != batches(other)) return;
    }
    report("key", std::nullopt,
           "batches are charged as drawn at random, but are the same under four keys");
  }

  /// Repeats the first run with a different number of threads, which must change no bit.
  void repeat() {
    now_ = to_text(LastRow::as_it_is);
    const auto again =
        run_on(LastRow::as_it_is, "again", {.steps = steps_, .threads = options_.threads});
    for (const RecordedRelease* one : first_->releases()) {
      const RecordedRelease* other = again->find(one->name);
      const bool same =
          other != nullptr &&
          std::ranges::equal(one->own, other->own, [](const Released& a, const Released& b) {
            return same_bits(a.values(), b.values());
          });
      if (!same)
        report("repeat", one->name.step,
               "the same data, key and parameters gave different bits in the second run");
    }
  }

  // ---- the other runs

  /// Leads a run on the neighbouring data through the releases of the first run.
  void lead(LastRow change) {
    ReplayedStatistics in_here(plan_, *first_, last_), in_there(plan_, *first_, last_);
    const RunData here = neighbouring_data(plan_, raw_, LastRow::as_it_is, &in_here);
    const RunData there = try_transforms(change, here, in_there);
    if (there.train.rows() == 0) return;
    in_here.count(here.train);
    in_there.count(there.train);
    compare_transforms(here.train, there.train);
    compare_learnt(here, there);
    const auto other =
        run_on(change, "b" + std::to_string(runs_++), {.steps = steps_, .led_by = first_.get()});
    compare_statistics(in_here, in_there, *other);
    compare_releases(here, there, *other);
    for (const std::string& text : differing_ledgers(first_->directory(), other->directory()))
      report("charges", std::nullopt, text);
    if (compare_ends(*other)) {
      for (const std::string& text :
           differing_records(plan_, first_->directory(), other->directory()))
        report("record", std::nullopt, text);
    }
  }

  /// \returns whether the files of the two runs must be the same.
  bool compare_ends(const RecordedRun& other) {
    if (other.thrown() != nullptr) {
      report("status", other.releases().size(),
             "the run fails only with the neighbour: " + other.end());
      return false;
    }
    if (first_->diverged_by_training_loss() != other.diverged_by_training_loss()) {
      found_.not_compared.push_back(
          "files and status, with " + now_ +
          ": in research mode a training loss that is not a number ends a run as diverged");
      return false;
    }
    if (other.end() != first_->end())
      report("status", std::nullopt,
             "the runs end differently: " + first_->end() + "; " + other.end());
    return true;
  }

  /// Compares the releases before the first step, in the order of the transforms.
  void compare_statistics(const ReplayedStatistics& here, const ReplayedStatistics& there,
                          const RecordedRun& other) {
    for (const PlannedStatistic& one : plan_.statistics) {
      found_.coordinates += 2 * one.size;
      if (other.find(name_of(one)) == nullptr)
        return report("status", std::nullopt, "only one of the two runs releases a statistic");
    }
    if (const auto what = difference_of_statistics(plan_, key(seed_), here, there, *first_, other))
      report("statistic", std::nullopt, *what);
  }

  void compare_releases(const RunData& here, const RunData& there, const RecordedRun& other) {
    std::map<std::optional<std::size_t>, ReplayedOwner> owners;
    const RandomKey run_key = key(seed_);
    for (const RecordedRelease* one : first_->releases()) {
      if (is_before_steps(one->name.what)) continue;  // already compared
      const RecordedRelease* of_other = other.find(one->name);
      if (of_other == nullptr) {
        report("status", one->name.step, "only one of the two runs makes the step");
        break;
      }
      const auto [owner, is_new] = owners.try_emplace(
          one->name.client, plan_, one->name.client, run_key,
          ReplayedOwner::Worlds{here, there, last_, divisor_of(plan_.dataset_size, *first_),
                                class_weights_of(plan_, *first_)},
          *executor_,
          [this, client = one->name.client](const std::string& what, std::uint64_t step,
                                            const std::string& detail) {
            const std::string whose = client ? "client " + std::to_string(*client) + ": " : "";
            report(what, step, whose + detail);
          });
      owner->second.compare(*one, *of_other);
    }
    for (const auto& [client, owner] : owners) found_.coordinates += owner.coordinates();
  }

  // ---- the transformed rows

  /// \returns the neighbour's rows; no rows if transforms refuse only the neighbour.
  RunData try_transforms(LastRow change, const RunData& here, ReplayedStatistics& statistics) {
    try {
      return neighbouring_data(plan_, raw_, change, &statistics);
    } catch (const std::exception& problem) {
      if (here.train.rows() > 0)
        report("transforms", std::nullopt,
               std::string("the transforms fail only on the neighbour: ") + problem.what());
      return {};
    }
  }

  /// Compares the transformed rows. Transforms that are listed as unaccounted may depend on all
  /// rows; others must not.
  void compare_transforms(const Dataset& here, const Dataset& there) {
    const auto& statistics = plan_.setting->statistics;
    const bool fitted = std::ranges::any_of(statistics, [](Statistic statistic) {
      return statistic == Statistic::unaccounted || statistic == Statistic::declared_public;
    });
    if (fitted || (statistics.empty() && plan_.setting->frozen_layers == 0)) return;
    const std::vector<std::uint32_t> changed = changed_rows(plan_, raw_.train);
    const std::size_t width = here.row_size();
    std::vector<float> one(width), other(width), target(1);
    for (std::uint32_t row = 0; row < std::min(here.rows(), there.rows()); ++row) {
      if (std::ranges::binary_search(changed, row)) continue;
      here.gather({&row, 1}, one, target);
      there.gather({&row, 1}, other, target);
      if (same_bits(one, other)) continue;
      return report(
          "transforms", std::nullopt,
          "row " + std::to_string(row) +
              " is transformed differently, although its own features are the same and no "
              "transform declares that it was fitted to private rows");
    }
  }

  /// Compares the saved values of transforms that claim to learn nothing from private rows.
  void compare_learnt(const RunData& here, const RunData& there) {
    const auto same = [](const FittedTensor& a, const FittedTensor& b) {
      return a.name == b.name && a.shape == b.shape && a.values == b.values;
    };
    const auto& statistics = plan_.setting->statistics;
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      if (statistics[i] != Statistic::none && statistics[i] != Statistic::is_public) continue;
      const auto& a = here.preprocessing[i].values;
      const auto& b = there.preprocessing[i].values;
      if (std::ranges::equal(a, b, same)) continue;
      return report("transforms", std::nullopt,
                    "transform " + std::to_string(i) +
                        " saves different numbers with the model, but declares that it learns "
                        "nothing from private rows");
    }
  }

  /// Reports each kind of difference only at its first step, because the first causes the others.
  void report(const std::string& what, std::optional<std::uint64_t> step,
              const std::string& detail) {
    const bool known = std::ranges::any_of(found_.differences, [&](const Difference& other) {
      return other.what == what && other.neighbour == now_;
    });
    if (!known) found_.differences.push_back({what, step, now_, detail});
  }

  const Plan& plan_;
  RunData raw_;
  Manifest manifest_;
  std::uint64_t steps_;
  const FalsifyOptions& options_;
  std::unique_ptr<Executor> executor_;
  ScratchFolder folder_;
  std::uint32_t last_;  // the differing row or client
  Falsified found_;
  std::uint64_t seed_ = 0, runs_ = 0;
  std::unique_ptr<RecordedRun> first_;
  std::string now_;
};

/// The reason why nothing can be compared; "" if a comparison is possible.
std::string nothing_to_compare(const Plan& plan) {
  if (plan.manifest->noise_off) return "a run without noise: it protects nobody";
  if (plan.setting->info.train_rows < 2) return "data with a single row: no other row could change";
  if (!plan.federated) return "";
  const Federated& wish = *plan.manifest->federated;
  if (plan.federated->estimates && wish.estimates == EstimateMode::unaccounted)
    return "federated.estimates is unaccounted: all rounds depend on private rows, as the run "
           "states";
  if (plan.federated->at_server && plan.federated->clients.size() < 2)
    return "a single client: no other client could change";
  return "";
}

/// The parts that the comparison omits.
std::vector<std::string> left_out(const Plan& plan) {
  std::vector<std::string> list;
  const Plan& owner =
      plan.federated && !plan.federated->at_server ? *plan.federated->clients.front().plan : plan;
  if (owner.arithmetic != Arithmetic::exact)
    list.emplace_back("bits of released numbers: arithmetic is float");
  else if (owner.correlated && !ReplayedSums::are_whole(owner.correlated->parts))
    list.emplace_back(
        "differences of released numbers below a few hundredths of their noise: fractions of "
        "earlier "
        "sums are carried in fixed point");
  if (plan.federated)
    list.emplace_back("which client has which examples: the neighbour is divided like the data");
  if (plan.unit == PrivacyUnit::client)
    list.emplace_back("the removal of a client: the manifest gives their number");
  return list;
}

}  // namespace

Falsified falsify(const Plan& plan, const FalsifyOptions& options) {
  if (options.steps == 0 || options.threads <= 0)
    throw ConfigError("the steps and threads of a comparison must be above 0");
  if (const std::string why = nothing_to_compare(plan); !why.empty()) {
    Falsified nothing;
    nothing.not_compared.push_back(why);
    return nothing;
  }
  obey_policies_unprotected(*plan.manifest, "what falsify finds quotes the rows");
  Falsified result = Comparison(plan, options).result();
  for (const std::string& text : left_out(plan)) result.not_compared.push_back(text);
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
