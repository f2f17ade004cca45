// A clipping with factors that a test writes, and clipped sums in one call.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/exact_sum.hpp"

/// A clipping whose factors the test writes.
class ScriptedClipping final : public privgrad::Clipping {
 public:
  using Rule = std::function<void(std::span<const double>, double, std::span<double>)>;
  explicit ScriptedClipping(Rule rule) : rule_(std::move(rule)) {}
  void start(std::span<const privgrad::ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    rule_(squared_norms, clip_norm, factors);
  }

 private:
  Rule rule_;
};

/// Returns the rule of the clipping `flat`.
inline const ScriptedClipping& flat_clipping() {
  static const ScriptedClipping flat(
      [](std::span<const double> squared_norms, double clip_norm, std::span<double> factors) {
        double squares = 0.0;
        for (const double x : squared_norms) squares += x;
        const double norm = std::sqrt(squares);
        std::fill(factors.begin(), factors.end(), norm <= clip_norm ? 1.0 : clip_norm / norm);
      });
  return flat;
}

/// Returns groups of which only the number matters: the exact program's number, or one group for
/// other programs.
inline std::vector<privgrad::ParameterGroup> groups_of(const privgrad::Program& program) {
  const auto* exact = dynamic_cast<const privgrad::ExactClipping*>(&program);
  std::vector<privgrad::ParameterGroup> groups;
  for (std::size_t i = 1; exact != nullptr && i < exact->groups(); ++i) {
    groups.push_back({"one parameter", i - 1, 1});
  }
  groups.push_back({"the others", groups.size(), program.parameter_count() - groups.size()});
  return groups;
}

/// Returns a sum clipped flat, in floating point; with a count share, also the count.
inline privgrad::Bounded clipped_sum(const privgrad::Program& program,
                                     const privgrad::Dataset& data,
                                     std::span<const std::uint32_t> batch, double clip_norm,
                                     privgrad::Executor& executor, double count_share = 0.0) {
  const auto groups = groups_of(program);
  return privgrad::core::clipped_sum(program, data, batch,
                                     {.rule = flat_clipping(),
                                      .groups = groups,
                                      .clip_norm = clip_norm,
                                      .count_share = count_share},
                                     executor);
}

/// Returns a sum clipped flat, in whole cells.
inline privgrad::core::BoundedOnGrid exact_sum(const privgrad::Program& program,
                                               const privgrad::Dataset& data,
                                               std::span<const std::uint32_t> batch,
                                               double clip_norm, privgrad::Executor& executor,
                                               std::size_t most_rows = 0,
                                               privgrad::core::SumMemory* memory = nullptr,
                                               double count_share = 0.0) {
  const auto groups = groups_of(program);
  return privgrad::core::exact_sum(program, data, batch,
                                   {.rule = flat_clipping(),
                                    .groups = groups,
                                    .clip_norm = clip_norm,
                                    .count_share = count_share},
                                   executor, most_rows, memory);
}
