// Checks and charges for samplers that go through the rows epoch by epoch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/event.hpp"
#include "privgrad/sampler.hpp"

/// An epoch of N rows in batches of B has ceil(N/B) steps. Each row is in exactly one batch of an
/// epoch, and the last batch may be smaller.
namespace epochs {

/// \returns the most expensive of an epoch's releases: the common event if all are equal, otherwise
///   the Gaussian with the smallest noise multiplier, which dominates the others (adding noise to
///   its output gives their outputs).
/// \throws PrivacyError if their kinds cannot be ordered by cost.
inline privgrad::Event most_expensive(const std::string& sampler,
                                      std::span<const privgrad::Event> releases) {
  const privgrad::Event& first = releases.front();
  if (std::ranges::all_of(releases, [&](const privgrad::Event& event) { return event == first; })) {
    return first;
  }
  double smallest = std::numeric_limits<double>::infinity();
  for (const privgrad::Event& event : releases) {
    const auto* gaussian = std::get_if<privgrad::GaussianEvent>(&event.kind());
    if (gaussian == nullptr) {
      throw privgrad::PrivacyError(sampler + ": an epoch mixes a " + std::string(first.name()) +
                                   " with a " + std::string(event.name()) +
                                   " release, and only gaussian ones can be ordered by cost; use "
                                   "one kind of release, or sampler full_batch");
    }
    smallest = std::min(smallest, gaussian->noise_multiplier);
  }
  return privgrad::Event::gaussian(smallest);
}

/// Charges the first step of each epoch for the epoch's most expensive release, and the other steps
/// for nothing (parallel composition).
inline std::vector<privgrad::Event> charges(const std::string& sampler, std::uint64_t epoch_steps,
                                            std::span<const privgrad::Event> releases) {
  std::vector<privgrad::Event> charged(releases.size(), privgrad::Event::nothing());
  for (std::size_t begin = 0; begin < releases.size(); begin += epoch_steps) {
    const std::size_t count = std::min<std::size_t>(epoch_steps, releases.size() - begin);
    charged[begin] = most_expensive(sampler, releases.subspan(begin, count));
  }
  return charged;
}

inline void check_sizes(const std::string& sampler, std::uint64_t batch_size,
                        const privgrad::SamplingPlan& plan) {
  if (batch_size > plan.dataset_size) {
    throw privgrad::ConfigError(sampler + ": batch_size is " + std::to_string(batch_size) +
                                ", allowed are at most the " + std::to_string(plan.dataset_size) +
                                " that there are to draw from");
  }
  if (plan.dataset_size > std::numeric_limits<std::uint32_t>::max()) {
    throw privgrad::ConfigError(sampler + ": " + std::to_string(plan.dataset_size) +
                                " examples, allowed are at most 4294967295");
  }
}

inline void check_rows(const std::string& sampler, std::size_t rows,
                       const privgrad::SamplingPlan& plan) {
  if (rows == plan.dataset_size) return;
  throw privgrad::ConfigError(sampler + ": there are " + std::to_string(rows) +
                              " rows, but the plan, and the proof, say " +
                              std::to_string(plan.dataset_size));
}

/// Refuses add_or_remove_one: one more row shifts all later batches, so neighbours would differ in
/// each of them.
inline void refuse_add_or_remove(const std::string& sampler, const privgrad::SamplingPlan& plan) {
  if (plan.adjacency != privgrad::Adjacency::add_or_remove_one) return;
  throw privgrad::PrivacyError(
      sampler +
      ": nothing is proved under add_or_remove_one, where one example more shifts every later "
      "batch; use adjacency replace_one or zero_out, or sampler poisson");
}

}  // namespace epochs
