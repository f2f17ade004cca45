#include "token_canaries.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "audit_bounds.hpp"
#include "drawn_rows.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/scratch_folder.hpp"
#include "privgrad/train/trainer.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kReferences = 1023;
constexpr std::uint64_t kDefaultCanaries = 1000;

std::string exposure_refusal(const Setting& setting, const AuditOptions& options) {
  if (setting.network.loss != Loss::next_token)
    return "needs the loss next_token; this model's is " +
           std::string(to_text(setting.network.loss));
  if (setting.frozen_layers > 0)
    return "compares losses of rows of tokens, and here they pass frozen layers first; train all "
           "layers";
  if (options.kind != AuditKind::one_run) return "is measured in one run";
  if (options.canaries > setting.info.train_rows)
    return "replaces training rows, of which there are " + std::to_string(setting.info.train_rows) +
           ", by " + std::to_string(options.canaries) + " canaries";
  return "";
}

class TokenAudit {
 public:
  TokenAudit(const Plan& plan, const AuditOptions& options)
      : plan_(plan),
        options_(options),
        canaries_(options.canaries > 0
                      ? options.canaries
                      : std::min<std::uint64_t>(plan.setting->info.train_rows, kDefaultCanaries)),
        key_((options.key ? *options.key : run_key(plan.manifest->seed)).derive("audit of tokens")),
        executor_(make_executor(options.threads)),
        bench_(make_workbench(plan, *executor_)),
        own_(drawn("canaries", canaries_)),
        others_(drawn("others", canaries_)),
        references_(drawn("references", kReferences)) {}

  AuditResult result() {
    const auto begin = std::chrono::steady_clock::now();
    const auto family = sampled_family(plan_.event, plan_.manifest->adjacency);
    AuditResult result{.bounds = planned_bounds(plan_, options_, canaries_, family),
                       .adjacency = plan_.manifest->adjacency,
                       .epsilon_upper = plan_.epsilon().value,
                       .delta = plan_.manifest->target_delta,
                       .confidence = options_.confidence,
                       .canaries = canaries_,
                       .runs = 1,
                       .steps = plan_.affordable_steps,
                       .seconds = 0.0};
    const auto random = make_random_source(key_.derive("coins"))->stream(0);
    for (std::uint64_t i = 0; i < canaries_; ++i) coins_.push_back(random->uniform_below(2) == 1);
    train();
    if (options_.on_run) options_.on_run(1, 1);
    compare(result, family);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  Dataset drawn(const std::string& purpose, std::size_t rows) const {
    return drawn_rows(plan_.setting->network, rows, key_.derive(purpose));
  }

  std::size_t row_of(std::size_t canary, std::size_t rows) const {
    return (2 * canary + 1) * rows / (2 * canaries_);
  }

  /// The plan's rows, with the canaries that the coins select.
  Dataset marked(const Dataset& data) const {
    const std::size_t width = data.row_size();
    std::vector<float> features(data.rows() * width), targets(data.rows());
    std::vector<std::uint32_t> all(data.rows());
    for (std::uint32_t row = 0; row < all.size(); ++row) all[row] = row;
    data.gather(all, features, targets);
    for (std::size_t i = 0; i < canaries_; ++i) {
      const auto to = std::span(features).subspan(row_of(i, data.rows()) * width, width);
      const bool is_exchanged = plan_.manifest->adjacency == Adjacency::replace_one;
      if (coins_[i] || is_exchanged) {
        const auto canary = static_cast<std::uint32_t>(i);
        float target = 0.0f;
        (coins_[i] ? own_ : others_).gather(std::span(&canary, 1), to, std::span(&target, 1));
      } else {
        std::ranges::fill(to, kEmptyPlace);
      }
    }
    return {data.shape(), std::move(features), std::move(targets)};
  }

  void train() {
    const RunData data = options_.rows == AuditRows::drawn
                             ? drawn_data(*plan_.setting, key_.derive("rows"))
                             : read_data(*plan_.manifest, *plan_.setting);
    const Dataset rows = marked(data.train);
    std::vector<std::uint32_t> present;
    std::optional<std::span<const std::uint32_t>> some;
    if (plan_.manifest->adjacency == Adjacency::add_or_remove_one) {
      std::vector<bool> is_there(rows.rows(), true);
      for (std::size_t i = 0; i < canaries_; ++i) is_there[row_of(i, rows.rows())] = coins_[i];
      for (std::uint32_t row = 0; row < rows.rows(); ++row)
        if (is_there[row]) present.push_back(row);
      some = present;
    }
    const RandomKey key = key_.derive("run");
    Trainer trainer(plan_, rows, key, *executor_, {.rows = some});
    bench_.load(initial_parameters(plan_, key));
    const std::filesystem::path ledger = ledgers_.path() / "ledger.jsonl";
    if (!plan_.manifest->noise_off) trainer.open_ledger(ledger, nlohmann::json{{"audit", true}});
    for (std::uint64_t step = 0; step < plan_.steps(); ++step) {
      check_not_stopped(options_);
      if (!trainer.choose_noise(step, bench_, data.test) || !trainer.pay_for(step)) break;
      if (!trainer.take_step(step, bench_)) break;
    }
  }

  std::vector<double> losses_of(const Dataset& rows) const {
    std::vector<double> losses;
    std::vector<float> features(rows.row_size()), target(1);
    for (std::uint32_t row = 0; row < rows.rows(); ++row) {
      rows.gather(std::span(&row, 1), features, target);
      losses.push_back(bench_.program->evaluate({features, target}).loss);
    }
    return losses;
  }

  void compare(AuditResult& result, const std::optional<SampledFamily>& family) {
    const std::vector<double> own = losses_of(own_);
    std::vector<double> references = losses_of(references_);
    std::ranges::sort(references);
    const double middle =
        std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    const bool is_exchanged = plan_.manifest->adjacency == Adjacency::replace_one;
    const std::vector<double> others = is_exchanged ? losses_of(others_) : std::vector<double>();
    std::vector<AuditGuess> guesses;
    Exposure exposure{.references = references.size()};
    for (std::size_t i = 0; i < canaries_; ++i) {
      double score = (is_exchanged ? others[i] : middle) - own[i];
      if (!std::isfinite(score)) score = 0.0;
      guesses.push_back({score, (score > 0.0) == coins_[i]});
      if (!coins_[i]) continue;
      // References with the same loss rank before the canary.
      const auto before = std::ranges::upper_bound(references, own[i]) - references.begin();
      const double rank = std::isfinite(own[i]) ? static_cast<double>(before) + 1.0
                                                : static_cast<double>(references.size()) + 1.0;
      exposure.mean_bits += exposure.most_bits() - std::log2(rank);
      ++exposure.trained;
    }
    if (exposure.trained > 0) exposure.mean_bits /= static_cast<double>(exposure.trained);
    exposure.most_expected_bits =
        std::min(exposure.most_bits(), (result.epsilon_upper + 1.0) / std::log(2.0) +
                                           result.delta * exposure.most_bits());
    result.exposure = exposure;
    evaluate(result, std::move(guesses), family);
  }

  const Plan& plan_;
  const AuditOptions& options_;
  std::uint64_t canaries_;
  RandomKey key_;
  std::unique_ptr<Executor> executor_;
  Workbench bench_;
  Dataset own_, others_, references_;
  std::vector<bool> coins_;
  ScratchFolder ledgers_{"audit"};
};

}  // namespace

AuditResult audit_exposure(const Plan& plan, const AuditOptions& options) {
  if (const std::string why = exposure_refusal(*plan.setting, options); !why.empty())
    throw ConfigError("exposure: " + why);
  return TokenAudit(plan, options).result();
}

}  // namespace privgrad::core
