// Training set-ups whose private and plain steps the benchmarks measure.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "plain_step.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::bench {

using Floats = std::vector<float>;

/// The aggregator of a private step.
struct Noise {
  std::string aggregator = "gaussian";
  Value::Object params = {};
};

struct Case {
  std::string name;
  Network network;
  std::size_t batch = 0;
  int repeats = 0;
  Noise noise = {};
};

inline Network network_of(Shape features, std::vector<Node> nodes) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = 10;
  network.nodes = std::move(nodes);
  network.loss = Loss::cross_entropy;
  return network;
}

inline Network dense_network() {
  return network_of({28, 28}, {Dense{1000}, Activation{}, Dense{10}});
}

inline Network conv_network() {
  const Pool pool{.kind = PoolKind::max, .window = 2, .stride = 2};
  return network_of({28, 28}, {Conv2d{.channels = 32, .kernel = 5}, Activation{}, pool,
                               Conv2d{.channels = 64, .kernel = 5}, Activation{}, pool, Flatten{},
                               Dense{512}, Activation{}, Dense{10}});
}

/// A ledger that has been charged for many steps, so that benchmarks can make releases without
/// measuring payments.
class Payments {
 public:
  Payments(const Catalog& catalog, std::span<const Event> releases)
      : accountant_(catalog.create<Accountant>("zcdp", Value::Object{})) {
    accountant_->start(Adjacency::add_or_remove_one);
    std::vector<core::Charge> charges;
    for (std::uint64_t step = 0; step < releases.size(); ++step) {
      charges.push_back({step, releases[step], releases[step]});
    }
    const auto file = std::filesystem::temp_directory_path() /
                      ("privgrad-bench-" + std::to_string(::getpid()) + ".jsonl");
    std::filesystem::remove(file);
    core::Ledger ledger(file, {.target_epsilon = {}, .target_delta = 1e-5}, *accountant_, "zcdp",
                        nlohmann::json::object());
    for (core::Receipt& receipt : ledger.charge(charges)) receipts_.push_back(std::move(receipt));
    std::filesystem::remove(file);
  }

  core::Receipt next() {
    if (receipts_.empty()) throw std::out_of_range("a bench makes more steps than it has paid for");
    core::Receipt receipt = std::move(receipts_.front());
    receipts_.pop_front();
    return receipt;
  }

 private:
  ComponentPtr<Accountant> accountant_;
  std::deque<core::Receipt> receipts_;
};

/// A training set-up: the same program, data and optimizer with and without privacy.
class Bench {
 public:
  Bench(const Catalog& catalog, const Case& one, int threads)
      : one_(one),
        executor_(core::make_executor(threads)),
        program_(catalog.create<Backend>("cpu", Value::Object{})->compile(one.network, *executor_)),
        plain_(one.network, *executor_),
        clipping_(catalog.create<Clipping>("flat", Value::Object{})),
        groups_(parameter_groups(one.network)),
        optimizer_(catalog.create<Optimizer>("sgd", Value::Object{})),
        aggregator_(started_aggregator(catalog, one.noise)),
        recipes_(core::CorrelatedRecipes::of(*aggregator_, kMostSteps)),
        payments_(catalog, std::vector<Event>(kMostSteps, Event::gaussian(1.0))),
        mechanism_(*aggregator_, core::RandomKey::from_seed(1), *executor_,
                   recipes_ ? &*recipes_ : nullptr),
        parameters_(program_->parameter_count()),
        data_(make_data(one)) {
    std::mt19937_64 random(1);
    for (const ParameterBlock& block : parameter_blocks(one.network)) {
      std::normal_distribution<float> normal(
          0.0f, block.fan_in > 0 ? std::sqrt(2.0f / static_cast<float>(block.fan_in)) : 0.01f);
      for (std::size_t i = 0; i < element_count(block.shape); ++i) {
        parameters_[block.offset + i] = normal(random);
      }
    }
    program_->load_parameters(parameters_);
    clipping_->start(groups_);
    optimizer_->start(parameters_.size());
    batch_.resize(one.batch);
    std::iota(batch_.begin(), batch_.end(), 0u);
    std::shuffle(batch_.begin(), batch_.end(), random);
  }

  /// Clips and sums.
  /// \param check  checks one contribution; may be null.
  void clip(core::ContributionCheck* check = nullptr) {
    sum_.emplace(core::deferred_exact_sum(*program_, data_, batch_,
                                          {.rule = *clipping_, .groups = groups_, .clip_norm = 1.0},
                                          *executor_, 0, memory_, PrivacyUnit::example, check));
  }

  /// Returns the seconds of one private step: clipping and summing, releasing, updating.
  std::array<double, 3> private_step(core::ContributionCheck* check = nullptr) {
    std::array<double, 3> seconds{};
    seconds[0] = seconds_of([&] { clip(check); });
    std::optional<Released> released;
    seconds[1] = seconds_of([&] {
      released.emplace(mechanism_.release(std::move(*sum_), payments_.next(),
                                          static_cast<double>(batch_.size())));
    });
    seconds[2] = seconds_of([&] {
      optimizer_->step(parameters_, *released, {.step = step_++, .learning_rate = 1e-6});
      program_->load_parameters(parameters_);
    });
    return seconds;
  }

  /// Times a step without privacy, through OpenBLAS: see PlainSum.
  double plain_step() {
    return seconds_of([&] {
      const std::size_t rows = std::min(plain_.microbatch_rows(), batch_.size());
      plain_.load_parameters(parameters_);
      features_.resize(rows * data_.row_size());
      targets_.resize(rows);
      gradient_.assign(parameters_.size(), 0.0f);
      for (std::size_t first = 0; first < batch_.size(); first += rows) {
        const std::size_t count = std::min(rows, batch_.size() - first);
        executor_->for_each_chunk((count + 31) / 32, [&](std::size_t i) {
          const std::size_t some = std::min<std::size_t>(32, count - i * 32);
          data_.gather(
              std::span(batch_).subspan(first + i * 32, some),
              std::span(features_).subspan(i * 32 * data_.row_size(), some * data_.row_size()),
              std::span(targets_).subspan(i * 32, some));
        });
        plain_.add({std::span(features_).first(count * data_.row_size()),
                    std::span(targets_).first(count)},
                   gradient_);
      }
      const float rate = 1e-6f / static_cast<float>(batch_.size());
      for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i] -= rate * gradient_[i];
    });
  }

  std::size_t parameter_count() const { return parameters_.size(); }

 private:
  static constexpr std::uint64_t kMostSteps = 100;

  static ComponentPtr<Aggregator> started_aggregator(const Catalog& catalog, const Noise& noise) {
    auto aggregator = catalog.create<Aggregator>(noise.aggregator, noise.params);
    const std::vector<double> multipliers(kMostSteps, 1.0);
    const AggregationPlan plan{.steps = kMostSteps, .noise_multipliers = multipliers};
    const std::vector<double> optimized = aggregator->optimized(plan);
    if (!optimized.empty()) aggregator->use(optimized);
    aggregator->start(plan);
    return aggregator;
  }

  static Dataset make_data(const Case& one) {
    std::mt19937_64 random(2);
    const std::size_t size = element_count(one.network.input.features);
    std::vector<std::uint8_t> bytes(one.batch * size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    Floats targets(one.batch);
    for (float& target : targets) target = static_cast<float>(random() % 10);
    return Dataset(one.network.input, std::move(bytes), 1.0f / 255, std::move(targets));
  }

  const Case& one_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Program> program_;
  PlainSum plain_;
  ComponentPtr<Clipping> clipping_;
  std::vector<ParameterGroup> groups_;
  ComponentPtr<Optimizer> optimizer_;
  ComponentPtr<Aggregator> aggregator_;
  std::optional<core::CorrelatedRecipes> recipes_;  // used if several steps share noise
  Payments payments_;
  core::Mechanism mechanism_;
  Floats parameters_;
  Dataset data_;
  std::vector<std::uint32_t> batch_;
  core::SumMemory memory_;
  std::optional<core::BoundedOnGrid> sum_;
  Floats features_, targets_, gradient_;
  std::uint64_t step_ = 0;
};

/// Loads the plugins that Bench needs.
inline void load_step_plugins(host::PluginHost& host, const std::filesystem::path& plugins) {
  for (const char* file : {"backends/cpu", "optimizers/sgd", "aggregators/gaussian",
                           "aggregators/matrix", "clippings/flat", "accountants/zcdp"}) {
    host.load(plugins / (std::string(file) + ".privgrad.so"));
  }
}

}  // namespace privgrad::bench
