// The time of each part of an exact clipped sum, compared with a plain step. See README.md.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "places.hpp"
#include "plain_step.hpp"
#include "privgrad/backend.hpp"
#include "steps.hpp"
#include "yardstick.hpp"

namespace {

using Json = nlohmann::ordered_json;
using namespace privgrad;
using namespace privgrad::bench;

constexpr std::uint64_t kCells = std::uint64_t{1} << 26;

struct Parts {
  double backward = 0, make = 0, add = 0;
  double all() const { return backward + make + add; }
};

/// A program with random parameters and examples, for exact and for plain sums.
class Sums {
 public:
  Sums(const Catalog& catalog, const Case& one, int threads)
      : executor_(core::make_executor(threads)),
        program_(catalog.create<Backend>("cpu", Value::Object{})->compile(one.network, *executor_)),
        exact_(dynamic_cast<const ExactClipping&>(*program_)),
        plain_(one.network, *executor_),
        row_size_(element_count(one.network.input.features)),
        parameters_(program_->parameter_count()),
        features_(one.batch * row_size_),
        targets_(one.batch),
        gradient_(parameters_.size()),
        cells_(parameters_.size()) {
    std::mt19937_64 random(1);
    for (const ParameterBlock& block : parameter_blocks(one.network)) {
      std::normal_distribution<float> normal(
          0.0f, block.fan_in > 0 ? std::sqrt(2.0f / static_cast<float>(block.fan_in)) : 0.01f);
      for (std::size_t i = 0; i < element_count(block.shape); ++i) {
        parameters_[block.offset + i] = normal(random);
      }
    }
    for (float& feature : features_) feature = static_cast<float>(random() % 256) / 255.0f;
    for (float& target : targets_) target = static_cast<float>(random() % 10);
    program_->load_parameters(parameters_);
    plain_.load_parameters(parameters_);
  }

  double plain() {
    return seconds_of([&] {
      std::fill(gradient_.begin(), gradient_.end(), 0.0f);
      for_each_microbatch(plain_.microbatch_rows(),
                          [&](const Batch& batch) { plain_.add(batch, gradient_); });
    });
  }

  Parts exact() {
    Parts parts;
    std::fill(cells_.begin(), cells_.end(), 0);
    const std::size_t groups = exact_.groups();
    for_each_microbatch(exact_.microbatch_rows(), [&](const Batch& batch) {
      if (pass_ == nullptr) pass_ = exact_.make_pass(batch.rows());
      norms_.resize(batch.rows() * groups);
      scales_.resize(norms_.size());
      lengths_.resize(batch.rows());
      taken_.assign(batch.rows(), 1);
      parts.backward += seconds_of([&] { exact_.backward(batch, *pass_, norms_); });
      for (std::size_t i = 0; i < batch.rows(); ++i) {
        double squared = 0;
        for (std::size_t g = 0; g < groups; ++g) squared += norms_[i * groups + g];
        const double scale = static_cast<double>(kCells) / std::max(1.0, std::sqrt(squared));
        for (std::size_t g = 0; g < groups; ++g) scales_[i * groups + g] = scale;
      }
      parts.make += seconds_of([&] { exact_.make_cells(*pass_, scales_, kCells, lengths_); });
      parts.add += seconds_of([&] { exact_.add_cells(*pass_, taken_, cells_); });
    });
    return parts;
  }

 private:
  void for_each_microbatch(std::size_t rows, const std::function<void(const Batch&)>& body) {
    for (std::size_t first = 0; first < targets_.size(); first += rows) {
      const std::size_t count = std::min(rows, targets_.size() - first);
      body({std::span(features_).subspan(first * row_size_, count * row_size_),
            std::span(targets_).subspan(first, count)});
    }
  }

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Program> program_;
  const ExactClipping& exact_;
  PlainSum plain_;
  std::size_t row_size_;
  Floats parameters_, features_, targets_, gradient_;
  std::vector<std::int64_t> cells_;
  std::unique_ptr<ExactClipping::Pass> pass_;
  std::vector<double> norms_, scales_;
  std::vector<SquaredLength> lengths_;
  std::vector<std::uint8_t> taken_;
};

/// Alternates the measurements, so that a disturbance affects all of them, and takes the fastest of
/// each.
Json report(const Catalog& catalog, const Case& one, int threads) {
  used_clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  Sums sums(catalog, one, threads);
  double plain = 1e300;
  Parts best{1e300, 1e300, 1e300};
  for (int i = 0; i < one.repeats; ++i) {
    plain = std::min(plain, sums.plain());
    const Parts parts = sums.exact();
    best = {std::min(best.backward, parts.backward), std::min(best.make, parts.make),
            std::min(best.add, parts.add)};
  }
  return {{"network", one.name},
          {"batch", one.batch},
          {"threads", threads},
          {"plain_sum_ms", plain * 1e3},
          {"backward_ms", best.backward * 1e3},
          {"make_cells_ms", best.make * 1e3},
          {"add_cells_ms", best.add * 1e3},
          {"exact_over_plain", best.all() / plain}};
}

}  // namespace

/// Usage: cells [dense|conv]
int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "all";
  use_own_kernels(argv);
  const std::filesystem::path plugins = privgrad::places::plugins();
  host::PluginHost host({.directories = {plugins}, .pins = {}});
  load_step_plugins(host, plugins);
  Json found = Json::array();
  for (const int threads : {1, 2}) {
    for (const std::size_t batch : {16, 64, 256, 1024}) {
      if (what == "conv") break;
      found.push_back(report(host.catalog(), {"784-1000-10", dense_network(), batch, 30}, threads));
    }
    for (const std::size_t batch : {16, 256}) {
      if (what == "dense") break;
      found.push_back(report(host.catalog(),
                             {"conv 5x5x32, pool, conv 5x5x64, pool, 512, 10", conv_network(),
                              batch, batch > 16 ? 8 : 30},
                             threads));
    }
  }
  std::cout << found.dump(2) << '\n';
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::cerr << "cells: error: " << error.what() << '\n';
  return EXIT_FAILURE;
}
