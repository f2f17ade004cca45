#include "privgrad/trust/participation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad::core {

Participation::Participation(std::uint64_t groups,
                             const std::vector<std::vector<std::uint32_t>>& members_of_steps)
    : Participation(groups) {
  for (const auto& members : members_of_steps) add_step(members);
}

Participation Participation::drawn(PublicOrder& order, std::uint64_t steps,
                                   const RandomSource& random) {
  const std::uint64_t groups = order.groups();
  if (groups == 0 || groups > std::numeric_limits<std::uint32_t>::max()) {
    throw PluginError("the sampler's order has " + std::to_string(groups) +
                      " groups of rows, expected 1 to 4294967295");
  }
  Participation result(groups);
  result.begins_.reserve(steps + 1);
  std::vector<std::uint32_t> members;
  for (std::uint64_t step = 0; step < steps; ++step) {
    order.groups_in(step, random, members);
    result.add_step(members);
  }
  return result;
}

void Participation::add_step(std::vector<std::uint32_t> members) {
  std::ranges::sort(members);
  const auto twice = std::ranges::adjacent_find(members);
  const bool exist = members.empty() || members.back() < groups_;
  if (twice != members.end() || !exist) {
    throw PluginError("the sampler's order names group " +
                      std::to_string(exist ? *twice : members.back()) + " of " +
                      std::to_string(groups_) + (exist ? " twice" : "") + " in step " +
                      std::to_string(steps()));
  }
  members_.insert(members_.end(), members.begin(), members.end());
  begins_.push_back(members_.size());
}

bool Participation::covers(std::uint64_t step, std::span<const std::uint32_t> rows,
                           const PublicOrder& order) const {
  const std::span<const std::uint32_t> members = at(step);
  return std::ranges::all_of(rows, [&](std::uint32_t row) {
    return std::ranges::binary_search(members, order.group_of(row));
  });
}

std::vector<std::uint64_t> Participation::counts() const {
  std::vector<std::uint64_t> counts(groups_, 0);
  for (const std::uint32_t group : members_) ++counts[group];
  return counts;
}

SquaredSensitivity::SquaredSensitivity(const Participation& participation)
    : participation_(participation),
      squares_(participation.groups(), 0.0),
      change_(participation.groups(), 0.0) {}

void SquaredSensitivity::add_entry(std::uint64_t step, double coefficient) {
  const double size = std::fabs(coefficient);
  if (size == 0.0) return;
  for (const std::uint32_t group : participation_.at(step)) {
    if (change_[group] == 0.0) touched_.push_back(group);
    change_[group] += size;
  }
}

void SquaredSensitivity::end_release(double noise) {
  for (const std::uint32_t group : touched_) {
    const double relative = change_[group] / noise;
    squares_[group] += relative * relative;
    worst_ = std::max(worst_, squares_[group]);
    change_[group] = 0.0;
  }
  touched_.clear();
}

}  // namespace privgrad::core
