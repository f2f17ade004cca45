// The @KIND@ @NAME@.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"

namespace @NAMESPACE@ {

/// Deals the examples into fixed groups by row number (row i into group i mod groups), and gives
/// one group to each step, in turn.
///
/// Accounting: the steps of a round of `groups` steps use disjoint data, and an example's group
/// depends only on its row number. Whichever example differs between two neighbouring data sets,
/// only one step of the round uses it (parallel composition: McSherry 2009, Theorem 4), so the
/// round costs at most its most expensive release. This requires fixed row numbers and therefore a
/// public size: under add_or_remove_one there is no such proof, and the sampler refuses.
class @CLASS@ final : public privgrad::Sampler {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "Fixed groups of examples in turn, each used once per round.",
        .reference = "McSherry 2009, Privacy Integrated Queries, Theorem 4 (parallel composition)",
        .params = {param::integer("groups", "Number of groups; a round has this many steps.")
                       .at_least(1)
                       .example(4)},
        // Behind the parameters, if charges() has random_allocation:
        // .traits = {std::string(privgrad::trait::epoch_coins)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params)
      : groups_(static_cast<std::uint64_t>(params.integer("groups"))) {}

  void start(const privgrad::SamplingPlan& plan) override {
    if (groups_ > plan.dataset_size) {
      throw privgrad::ConfigError("@NAME@: groups is " + std::to_string(groups_) +
                                  ", allowed is at most the number of examples, " +
                                  std::to_string(plan.dataset_size));
    }
    plan_ = plan;
  }

  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(plan_.dataset_size) / static_cast<double>(groups_);
  }

  std::vector<privgrad::Event> charges(std::span<const privgrad::Event> releases) const override {
    if (plan_.adjacency == privgrad::Adjacency::add_or_remove_one) {
      throw privgrad::PrivacyError(
          "@NAME@: fixed groups need a public number of examples; use adjacency zero_out or "
          "replace_one");
    }
    std::vector<privgrad::Event> charges(releases.size(), privgrad::Event::nothing());
    // Charged at the first step of each round, so that every prefix is covered.
    for (std::size_t first = 0; first < releases.size(); first += groups_) {
      const std::size_t count = std::min<std::size_t>(groups_, releases.size() - first);
      charges[first] = most_expensive(releases.subspan(first, count));
    }
    return charges;
  }

  void sample(std::uint64_t step, std::size_t rows, const privgrad::RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    if (rows != plan_.dataset_size) {
      throw privgrad::ConfigError("@NAME@: the plan says " + std::to_string(plan_.dataset_size) +
                                  " training examples, there are " + std::to_string(rows));
    }
    batch.clear();
    for (std::uint64_t row = step % groups_; row < rows; row += groups_) {
      batch.push_back(static_cast<std::uint32_t>(row));
    }
  }

 private:
  static privgrad::Event most_expensive(std::span<const privgrad::Event> releases) {
    std::optional<double> smallest;
    for (const privgrad::Event& release : releases) {
      const auto* gaussian = std::get_if<privgrad::GaussianEvent>(&release.kind());
      if (gaussian == nullptr) {
        throw privgrad::PrivacyError(
            "@NAME@: knows which of several gaussian releases costs most, "
            "not what " +
            std::string(release.name()) + " costs beside them");
      }
      smallest =
          std::min(smallest.value_or(gaussian->noise_multiplier), gaussian->noise_multiplier);
    }
    return privgrad::Event::gaussian(smallest.value());
  }

  std::uint64_t groups_;
  privgrad::SamplingPlan plan_;
};

}  // namespace @NAMESPACE@
