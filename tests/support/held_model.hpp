// A run, as its features see it, that holds nothing but parameters.
#pragma once

#include <utility>
#include <vector>

#include "privgrad/train/run_feature.hpp"

namespace privgrad {

struct HeldModel final : core::RunModel {
  explicit HeldModel(std::vector<float> parameters) : held(std::move(parameters)) {}

  const std::vector<float>& parameters() override { return held; }
  void load(std::vector<float> parameters) override { held = std::move(parameters); }
  core::Metrics measure() override {
    core::Metrics metrics;
    metrics.train_loss = held.front();
    return metrics;
  }
  void report_once() override { reported.push_back(held); }

  std::vector<float> held;
  std::vector<std::vector<float>> reported;  ///< The parameters in each call of report_once().
};

}  // namespace privgrad
