#include "privgrad/trust/clipped_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gradient_rows.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/wide_registers.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// The sum over some examples: those of a lane, or all.
template <class Real>
struct TotalOf {
  std::vector<Real> sum;
  std::uint64_t examples = 0, unclipped = 0;
};
using LaneTotal = TotalOf<double>;
using Total = TotalOf<float>;

/// Clips and adds the examples of one row each.
class Adder {
 public:
  Adder(const Clip& clip, LaneTotal& total)
      : clip_(clip),
        total_(total),
        squared_norms_(clip.groups.size()),
        factors_(clip.groups.size()) {}

  void add(std::span<const float> row) {
    squared_norms(clip_, row, squared_norms_);
    ++total_.examples;
    if (clip_factors(clip_, squared_norms_, factors_)) ++total_.unclipped;
    for (std::size_t group = 0; group < factors_.size(); ++group) {
      const double factor = factors_[group];
      if (factor == 0.0) continue;  // 0 * infinity would be NaN
      const std::span<const float> gradient = part(clip_, row, group);
      const std::span<double> sum = std::span(total_.sum).subspan(clip_.groups[group].offset);
      in_wide_registers([&] {
        for (std::size_t i = 0; i < gradient.size(); ++i)
          sum[i] += factor * static_cast<double>(gradient[i]);
      });
    }
  }

 private:
  const Clip& clip_;
  LaneTotal& total_;
  std::vector<double> squared_norms_, factors_;
};

/// The vector of joint_release.hpp: gradients made a little smaller, and the count beside them.
void add_count(const Clip& clip, Total& total) {
  const double share = gradient_share(clip.count_share);
  for (float& value : total.sum) value = static_cast<float>(share * value);
  const double balance =
      static_cast<double>(total.unclipped) - 0.5 * static_cast<double>(total.examples);
  total.sum.push_back(static_cast<float>(2.0 * clip.count_share * clip.clip_norm * balance));
}

Total total_of_rows(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor) {
  const std::size_t parameters = program.parameter_count();
  std::vector<LaneTotal> totals(lanes_of(program, batch.size()));
  add_rows(program, data, batch, executor, [&](std::size_t lane) {
    totals[lane].sum.assign(parameters, 0.0);
    return Adder(clip, totals[lane]);
  });
  Total total;
  for (const LaneTotal& lane : totals) {
    total.examples += lane.examples;
    total.unclipped += lane.unclipped;
  }
  total.sum.reserve(parameters + 1);  // for the count
  for (std::size_t i = 0; i < parameters; ++i) {
    double sum = 0.0;
    for (const LaneTotal& lane : totals) sum += lane.sum[i];
    total.sum.push_back(static_cast<float>(sum));
  }
  return total;
}

}  // namespace

Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    PrivacyUnit unit) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
  Total total = total_of_rows(program, data, batch, clip, executor);
  if (clip.count_share > 0.0) add_count(clip, total);
  return TrustBase::bounded(std::move(total.sum), clip.clip_norm, unit);
}

namespace {

constexpr std::size_t kEvaluatedRows = 256;  // in a part

}  // namespace

std::size_t evaluation_parts(const Dataset& data) {
  return (data.rows() + kEvaluatedRows - 1) / kEvaluatedRows;
}

std::vector<Evaluation> evaluate_parts(const Program& program, const Dataset& data,
                                       std::size_t begin, std::size_t end, Executor& executor) {
  std::vector<Evaluation> parts(end - begin);
  executor.for_each_chunk(parts.size(), [&](std::size_t i) {
    const std::size_t first = (begin + i) * kEvaluatedRows;
    std::vector<std::uint32_t> rows(std::min(kEvaluatedRows, data.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    Chunk scratch(data, rows.size());
    parts[i] = program.evaluate(scratch.gather(data, rows));
  });
  return parts;
}

Evaluation total_of(std::span<const Evaluation> parts) {
  Evaluation total;
  for (const Evaluation& part : parts) {
    total.loss += part.loss;
    total.correct += part.correct;
  }
  return total;
}

Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor) {
  return total_of(evaluate_parts(program, data, 0, evaluation_parts(data), executor));
}

}  // namespace privgrad::core
