#include "privgrad/trust/clipped_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Rows per chunk: enough for efficient matrix work, few enough that the rows of a large model fit
/// in memory. Depends on the model alone, so that results do not depend on the machine.
std::size_t rows_per_chunk(std::size_t parameters) {
  constexpr std::size_t kChunkFloats = std::size_t{4} << 20;  // 16 MiB of gradients
  return std::clamp<std::size_t>(kChunkFloats / parameters, 1, 64);
}

/// Chunks are dealt to a fixed number of lanes, each lane adds its chunks up in order: memory is
/// one sum per lane, and the order of every addition is fixed.
constexpr std::size_t kLanes = 8;

/// More than the norm of what 2^40 results below the normal range of float32, in sums of up to 2^40
/// of them, can be off by.
constexpr double kUnderflow = 0x1p-85;

/// What some examples, those of a lane or all, add up to.
template <class Real>
struct TotalOf {
  std::vector<Real> sum;
  std::uint64_t examples = 0, unclipped = 0;
};
using LaneTotal = TotalOf<double>;
using Total = TotalOf<float>;

/// The part of an example's gradient that is in a group.
std::span<const float> part(const Clip& clip, std::span<const float> row, std::size_t group) {
  return row.subspan(clip.groups[group].offset, clip.groups[group].size);
}

/// \param out  [groups]: at least the squared norm of each part.
void squared_norms(const Clip& clip, std::span<const float> row, std::span<double> out) {
  for (std::size_t group = 0; group < out.size(); ++group) {
    out[group] = squared_norm_at_most(part(clip, row, group));
  }
}

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
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        sum[i] += factor * static_cast<double>(gradient[i]);
      }
    }
  }

 private:
  const Clip& clip_;
  LaneTotal& total_;
  std::vector<double> squared_norms_, factors_;
};

/// Clips, rounds to the grid and adds the examples of one row each.
class GridAdder {
 public:
  GridAdder(const Clip& clip, std::uint64_t levels, std::vector<std::int64_t>& sum)
      : clip_(clip),
        levels_(levels),
        sum_(sum),
        squared_norms_(clip.groups.size()),
        factors_(clip.groups.size()),
        cells_(sum.size()) {}

  void add(std::span<const float> row) {
    squared_norms(clip_, row, squared_norms_);
    clip_factors(clip_, squared_norms_, factors_);
    round_to_grid(row, clip_.groups, factors_, clip_.clip_norm, levels_, cells_);
    for (std::size_t i = 0; i < cells_.size(); ++i) sum_[i] += cells_[i];
  }

 private:
  const Clip& clip_;
  std::uint64_t levels_;
  std::vector<std::int64_t>& sum_;
  std::vector<double> squared_norms_, factors_;
  std::vector<std::int32_t> cells_;
};

/// The vector of joint_release.hpp: gradients made a little smaller, and the count beside them.
void add_count(const Clip& clip, Total& total) {
  const double share = gradient_share(clip.count_share);
  for (float& value : total.sum) value = static_cast<float>(share * value);
  const double balance =
      static_cast<double>(total.unclipped) - 0.5 * static_cast<double>(total.examples);
  total.sum.push_back(static_cast<float>(2.0 * clip.count_share * clip.clip_norm * balance));
}

/// Scratch of one task: the examples of a chunk.
struct Chunk {
  explicit Chunk(const Dataset& data, std::size_t rows)
      : features(rows * data.row_size()), targets(rows) {}

  Batch gather(const Dataset& data, std::span<const std::uint32_t> rows) {
    const std::span<float> some_features = std::span(features).first(rows.size() * data.row_size());
    const std::span<float> some_targets = std::span(targets).first(rows.size());
    data.gather(rows, some_features, some_targets);
    return {some_features, some_targets};
  }

  std::vector<float> features;
  std::vector<float> targets;
};

/// Marks each row, so that one that a backend forgets to write counts as zero instead of holding
/// the gradient of another example.
void poison(std::span<float> gradients, std::size_t parameters) {
  for (std::size_t end = parameters; end <= gradients.size(); end += parameters) {
    gradients[end - 1] = std::numeric_limits<float>::quiet_NaN();
  }
}

void check_batch(std::span<const std::uint32_t> batch, std::size_t rows) {
  std::vector<bool> seen(rows);
  for (const std::uint32_t row : batch) {
    if (row >= rows || seen[row]) {
      throw PluginError("the sampler broke its contract: row " + std::to_string(row) +
                        (row >= rows ? " does not exist" : " was drawn twice in one batch"));
    }
    seen[row] = true;
  }
}

/// How many lanes the rows of a batch are dealt to.
std::size_t lanes_of(const Program& program, std::size_t rows) {
  const std::size_t chunk_rows = rows_per_chunk(program.parameter_count());
  return std::min(kLanes, (rows + chunk_rows - 1) / chunk_rows);
}

/// For each lane at once: makes its adder, and hands it the gradients of the lane's examples, one
/// row after the other.
template <class MakeAdder>
void add_rows(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
              Executor& executor, const MakeAdder& adder_of_lane) {
  const std::size_t parameters = program.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t chunks = (batch.size() + chunk_rows - 1) / chunk_rows;
  const std::size_t lanes = lanes_of(program, batch.size());
  executor.for_each_chunk(lanes, [&](std::size_t lane) {
    auto adder = adder_of_lane(lane);
    Chunk scratch(data, chunk_rows);
    std::vector<float> gradients(chunk_rows * parameters);
    for (std::size_t chunk = lane; chunk < chunks; chunk += lanes) {
      const std::size_t begin = chunk * chunk_rows;
      const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
      poison(std::span(gradients).first(rows.size() * parameters), parameters);
      program.gradient_rows(scratch.gather(data, rows),
                            std::span(gradients).first(rows.size() * parameters));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        adder.add(std::span<const float>(gradients).subspan(i * parameters, parameters));
      }
    }
  });
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

Total fused_total(const FusedClipping& program, std::size_t parameters, const Dataset& data,
                  std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                  std::size_t most_rows, SumMemory& memory) {
  Total total;
  total.examples = batch.size();
  const auto rule = [&](std::span<const double> squared_norms, std::span<double> factors) {
    if (clip_factors(clip, squared_norms, factors, kUnderflow)) ++total.unclipped;
  };
  total.sum = fused_sum(program, parameters, data, batch, rule, executor, most_rows, memory);
  return total;
}

/// Every parameter is in one group, and the norms come by these groups.
void check_groups(const Clip& clip, const Program& program) {
  std::size_t end = 0;
  for (const ParameterGroup& group : clip.groups) {
    if (group.offset != end)
      throw PluginError("groups of parameters leave a gap before " + group.name);
    end += group.size;
  }
  const auto* fused = dynamic_cast<const FusedClipping*>(&program);
  const std::size_t groups = fused == nullptr ? clip.groups.size() : fused->groups();
  if (end == program.parameter_count() && groups == clip.groups.size()) return;
  throw PluginError("the program has " + std::to_string(program.parameter_count()) +
                    " parameters in " + std::to_string(groups) + " groups, the network has " +
                    std::to_string(end) + " in " + std::to_string(clip.groups.size()));
}

}  // namespace

Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    std::size_t most_rows, SumMemory* memory, PrivacyUnit unit) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
  SumMemory own;
  const auto* fused = dynamic_cast<const FusedClipping*>(&program);
  Total total = fused == nullptr
                    ? total_of_rows(program, data, batch, clip, executor)
                    : fused_total(*fused, program.parameter_count(), data, batch, clip, executor,
                                  most_rows, memory != nullptr ? *memory : own);
  if (clip.count_share > 0.0) add_count(clip, total);
  return TrustBase::bounded(std::move(total.sum), clip.clip_norm, unit);
}

BoundedOnGrid clipped_sum_on_grid(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> batch, const Clip& clip,
                                  std::uint64_t levels, Executor& executor, PrivacyUnit unit) {
  check_grid_levels(levels);
  if (clip.count_share != 0.0) throw ConfigError("a count has no place on a grid");
  check_batch(batch, data.rows());
  check_groups(clip, program);
  const std::size_t parameters = program.parameter_count();
  std::vector<std::vector<std::int64_t>> sums(lanes_of(program, batch.size()));
  add_rows(program, data, batch, executor, [&](std::size_t lane) {
    sums[lane].assign(parameters, 0);
    return GridAdder(clip, levels, sums[lane]);
  });
  std::vector<std::int64_t> total(parameters, 0);
  for (const std::vector<std::int64_t>& sum : sums) {
    for (std::size_t i = 0; i < parameters; ++i) total[i] += sum[i];
  }
  return TrustBase::bounded_on_grid(std::move(total), levels, clip.clip_norm, unit);
}

namespace {

/// An example's clipped gradients and their differences, added to the sums of a lane.
class AnchoredAdder {
 public:
  AnchoredAdder(const Clip& clip, const DifferenceBounds& bounds, std::size_t parameters)
      : clip_(clip),
        bounds_(bounds),
        squared_norms_(clip.groups.size()),
        factors_(clip.groups.size()),
        at_anchor_(parameters),
        other_(parameters) {}

  /// \param sums  of a lane: of the anchor, since the anchor, between anchors (empty: not wanted).
  /// \param current, last_anchor  rows; empty: not wanted.
  void add(std::span<const float> anchor, std::span<const float> current,
           std::span<const float> last_anchor, std::span<std::vector<double>> sums) {
    clipped(anchor, at_anchor_);
    for (std::size_t i = 0; i < at_anchor_.size(); ++i) sums[0][i] += at_anchor_[i];
    if (!current.empty()) {
      clipped(current, other_);
      for (std::size_t i = 0; i < other_.size(); ++i) other_[i] -= at_anchor_[i];
      add_clipped(bounds_.since_anchor, sums[1]);
    }
    if (!last_anchor.empty()) {
      clipped(last_anchor, other_);
      for (std::size_t i = 0; i < other_.size(); ++i) other_[i] = at_anchor_[i] - other_[i];
      add_clipped(bounds_.between_anchors, sums[2]);
    }
  }

 private:
  void clipped(std::span<const float> row, std::span<double> out) {
    squared_norms(clip_, row, squared_norms_);
    clip_factors(clip_, squared_norms_, factors_);
    for (std::size_t group = 0; group < factors_.size(); ++group) {
      const double factor = factors_[group];
      const std::span<const float> gradient = part(clip_, row, group);
      const std::span<double> to = out.subspan(clip_.groups[group].offset, gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i)
        to[i] = factor == 0.0 ? 0.0 : factor * static_cast<double>(gradient[i]);
    }
  }

  /// other_, made no longer than the bound.
  void add_clipped(double bound, std::vector<double>& sum) {
    const double factor = factor_to_bound(other_, bound);
    if (factor == 0.0) return;
    for (std::size_t i = 0; i < other_.size(); ++i) sum[i] += factor * other_[i];
  }

  const Clip& clip_;
  const DifferenceBounds& bounds_;
  std::vector<double> squared_norms_, factors_;
  std::vector<double> at_anchor_, other_;
};

}  // namespace

std::vector<Bounded> anchored_sums(const Iterates& iterates, const Dataset& data,
                                   std::span<const std::uint32_t> batch, const Clip& clip,
                                   const DifferenceBounds& bounds, Executor& executor) {
  if (clip.count_share != 0.0) throw ConfigError("a count has no place beside differences");
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  const std::array<const Program*, 3> programs{&iterates.anchor, iterates.current,
                                               iterates.last_anchor};
  for (const Program* program : programs) {
    if (program != nullptr) check_groups(clip, *program);
  }
  const std::size_t parameters = iterates.anchor.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t chunks = (batch.size() + chunk_rows - 1) / chunk_rows;
  const std::size_t lanes = lanes_of(iterates.anchor, batch.size());
  std::vector<std::array<std::vector<double>, 3>> totals(lanes);
  executor.for_each_chunk(lanes, [&](std::size_t lane) {
    for (std::vector<double>& sum : totals[lane]) sum.assign(parameters, 0.0);
    // Shorter ones, of iterates that are nearly the same, would be lost in roundings: none.
    const auto kept = [](double bound) { return bound < kSmallestClipNorm ? 0.0 : bound; };
    const DifferenceBounds kept_bounds{kept(bounds.since_anchor), kept(bounds.between_anchors)};
    AnchoredAdder adder(clip, kept_bounds, parameters);
    Chunk scratch(data, chunk_rows);
    std::array<std::vector<float>, 3> gradients;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      if (programs[p] != nullptr) gradients[p].resize(chunk_rows * parameters);
    }
    for (std::size_t chunk = lane; chunk < chunks; chunk += lanes) {
      const std::size_t begin = chunk * chunk_rows;
      const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
      const Batch examples = scratch.gather(data, rows);
      for (std::size_t p = 0; p < programs.size(); ++p) {
        if (programs[p] == nullptr) continue;
        const auto some = std::span(gradients[p]).first(rows.size() * parameters);
        poison(some, parameters);
        programs[p]->gradient_rows(examples, some);
      }
      const auto row = [&](std::size_t p, std::size_t i) {
        return programs[p] == nullptr
                   ? std::span<const float>{}
                   : std::span<const float>(gradients[p]).subspan(i * parameters, parameters);
      };
      for (std::size_t i = 0; i < rows.size(); ++i)
        adder.add(row(0, i), row(1, i), row(2, i), totals[lane]);
    }
  });
  const std::array<double, 3> norms{clip.clip_norm, bounds.since_anchor, bounds.between_anchors};
  std::vector<Bounded> sums;
  for (std::size_t p = 0; p < (iterates.last_anchor == nullptr ? 2U : 3U); ++p) {
    std::vector<float> total(parameters);
    for (std::size_t i = 0; i < parameters; ++i) {
      double sum = 0.0;
      for (const auto& lane : totals) sum += lane[p][i];
      total[i] = static_cast<float>(sum);
    }
    sums.push_back(TrustBase::bounded(std::move(total), norms[p], PrivacyUnit::example));
  }
  return sums;
}

Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor) {
  constexpr std::size_t kRows = 256;
  const std::size_t chunks = (data.rows() + kRows - 1) / kRows;
  std::vector<Evaluation> parts(chunks);
  executor.for_each_chunk(chunks, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kRows;
    std::vector<std::uint32_t> rows(std::min(kRows, data.rows() - begin));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin));
    Chunk scratch(data, rows.size());
    parts[chunk] = program.evaluate(scratch.gather(data, rows));
  });
  Evaluation total;
  for (const Evaluation& part : parts) {
    total.loss += part.loss;
    total.correct += part.correct;
  }
  return total;
}

namespace {

/// Adds whole gradients.
class PlainAdder {
 public:
  explicit PlainAdder(std::vector<double>& sum) : sum_(sum) {}
  void add(std::span<const float> row) {
    for (std::size_t i = 0; i < row.size(); ++i) sum_[i] += static_cast<double>(row[i]);
  }

 private:
  std::vector<double>& sum_;
};

/// A few thousand rows at a time, so that float32 sums lose nothing that matters.
std::vector<double> plain_sum(const Program& program, const Dataset& data, Executor& executor) {
  constexpr std::size_t kRows = 4096;
  const std::size_t parameters = program.parameter_count();
  std::vector<double> total(parameters, 0.0);
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0U);
  const auto* fused = dynamic_cast<const FusedClipping*>(&program);
  SumMemory memory;
  const auto whole = [](std::span<const double>, std::span<double> factors) {
    std::fill(factors.begin(), factors.end(), 1.0);
  };
  for (std::size_t begin = 0; begin < rows.size(); begin += kRows) {
    const auto batch =
        std::span<const std::uint32_t>(rows).subspan(begin, std::min(kRows, rows.size() - begin));
    if (fused != nullptr) {
      const auto sum = fused_sum(*fused, parameters, data, batch, whole, executor, 0, memory);
      for (std::size_t i = 0; i < parameters; ++i) total[i] += static_cast<double>(sum[i]);
      continue;
    }
    std::vector<std::vector<double>> lanes(lanes_of(program, batch.size()));
    add_rows(program, data, batch, executor, [&](std::size_t lane) {
      lanes[lane].assign(parameters, 0.0);
      return PlainAdder(lanes[lane]);
    });
    for (const std::vector<double>& lane : lanes) {
      for (std::size_t i = 0; i < parameters; ++i) total[i] += lane[i];
    }
  }
  return total;
}

}  // namespace

double mean_gradient_norm(const Program& program, const Dataset& data, Executor& executor) {
  if (data.rows() == 0) return 0.0;
  double squares = 0.0;
  for (const double value : plain_sum(program, data, executor)) squares += value * value;
  return std::sqrt(squares) / static_cast<double>(data.rows());
}

}  // namespace privgrad::core
