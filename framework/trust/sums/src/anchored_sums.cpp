#include "privgrad/trust/anchored_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "gradient_rows.hpp"
#include "privgrad/error.hpp"
#include "privgrad/wide_registers.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Adds an example's clipped gradients and their differences, in double, to one lane's sums. The
/// second pass over the rows recomputes the clipped gradients, which is faster than storing them.
class AnchoredAdder {
 public:
  using Number = double;

  AnchoredAdder(const Clip& clip, const DifferenceBounds& bounds, std::size_t parameters)
      : clip_(clip),
        bounds_(bounds),
        squared_norms_(clip.groups.size()),
        zeros_(parameters),
        anchor_(clip.groups.size()),
        current_(clip.groups.size()),
        last_anchor_(clip.groups.size()) {}

  /// \param sums  the lane's sums: at the anchor, since the anchor, between anchors (the third is
  ///   empty if there is no last anchor).
  /// \param current, last_anchor  rows; empty if not wanted.
  void add(std::span<const float> anchor, std::span<const float> current,
           std::span<const float> last_anchor, std::span<std::vector<double>> sums) {
    clipped(anchor, anchor_);
    clipped(current, current_);
    clipped(last_anchor, last_anchor_);
    const double since = current.empty() ? 0.0 : factor(anchor_, current_, bounds_.since_anchor);
    const double between =
        last_anchor.empty() ? 0.0 : factor(last_anchor_, anchor_, bounds_.between_anchors);
    for (std::size_t group = 0; group < anchor_.size(); ++group) {
      const Part at = anchor_[group], now = current_[group], before = last_anchor_[group];
      double* const sum = sums[0].data() + clip_.groups[group].offset;
      double* const sum_since = sums[1].data() + clip_.groups[group].offset;
      double* const sum_between = sums[2].data() + clip_.groups[group].offset;
      in_wide_registers([&] {
        for (std::size_t i = 0; i < clip_.groups[group].size; ++i) {
          const double x = at[i];
          sum[i] += x;
          sum_since[i] += since * (now[i] - x);
          sum_between[i] += between * (x - before[i]);
        }
      });
    }
  }

 private:
  /// A clipped row's numbers in one group.
  struct Part {
    double factor;
    const float* gradient;
    double operator[](std::size_t i) const { return factor * static_cast<double>(gradient[i]); }
  };

  /// An example that is left out counts as zeros, because its numbers may be infinite; so does a
  /// row that is not wanted.
  void clipped(std::span<const float> row, std::vector<Part>& parts) {
    std::fill(factors_.begin(), factors_.end(), 0.0);
    if (!row.empty()) {
      squared_norms(clip_, row, squared_norms_);
      clip_factors(clip_, squared_norms_, factors_);
    }
    for (std::size_t group = 0; group < parts.size(); ++group) {
      const double factor = factors_[group];
      parts[group] = {factor, factor == 0.0 ? zeros_.data() : part(clip_, row, group).data()};
    }
  }

  /// Returns the factor that brings the difference of two clipped rows within the bound.
  double factor(const std::vector<Part>& from, const std::vector<Part>& to, double bound) const {
    LengthBound length(bound);
    for (std::size_t group = 0; group < from.size(); ++group) {
      length.add(clip_.groups[group].size,
                 [&](std::size_t i) { return to[group][i] - from[group][i]; });
    }
    return length.factor();
  }

  const Clip& clip_;
  const DifferenceBounds& bounds_;
  std::vector<double> squared_norms_, factors_ = squared_norms_;
  std::vector<float> zeros_;
  std::vector<Part> anchor_, current_, last_anchor_;
};

/// Returns a bound in whole cells, rounded down by more than the two rounding errors made here.
std::uint64_t cells_of(double bound, double clip_norm) {
  const double cells = bound / clip_norm * static_cast<double>(kExactLevels);
  return static_cast<std::uint64_t>(cells * (1.0 - 0x1p-50));
}

/// Does the same as AnchoredAdder, in whole cells.
class AnchoredGridAdder {
 public:
  using Number = std::int64_t;

  AnchoredGridAdder(const Clip& clip, const DifferenceBounds& bounds, std::size_t parameters)
      : clip_(clip),
        since_anchor_(cells_of(bounds.since_anchor, clip.clip_norm)),
        between_anchors_(cells_of(bounds.between_anchors, clip.clip_norm)),
        squared_norms_(clip.groups.size()),
        factors_(clip.groups.size()),
        at_anchor_(parameters),
        other_(parameters) {}

  /// Like AnchoredAdder::add().
  void add(std::span<const float> anchor, std::span<const float> current,
           std::span<const float> last_anchor, std::span<std::vector<std::int64_t>> sums) {
    round(anchor, at_anchor_);
    for (std::size_t i = 0; i < at_anchor_.size(); ++i) sums[0][i] += at_anchor_[i];
    if (!current.empty()) {
      round(current, other_);
      for (std::size_t i = 0; i < other_.size(); ++i) other_[i] -= at_anchor_[i];
      add_clipped(since_anchor_, sums[1]);
    }
    if (!last_anchor.empty()) {
      round(last_anchor, other_);
      for (std::size_t i = 0; i < other_.size(); ++i) other_[i] = at_anchor_[i] - other_[i];
      add_clipped(between_anchors_, sums[2]);
    }
  }

 private:
  void round(std::span<const float> row, std::span<std::int32_t> cells) {
    squared_norms(clip_, row, squared_norms_);
    clip_factors(clip_, squared_norms_, factors_);
    round_to_grid(row, clip_.groups, factors_, clip_.clip_norm, kExactLevels, cells);
  }

  /// Adds other_, scaled towards zero to at most `bound` cells; if integer arithmetic finds it
  /// still too long, it is left out.
  void add_clipped(std::uint64_t bound, std::vector<std::int64_t>& sum) {
    if (!no_longer_than(other_, bound * bound)) shorten(bound);
    if (!no_longer_than(other_, bound * bound)) return;
    for (std::size_t i = 0; i < other_.size(); ++i) sum[i] += other_[i];
  }

  void shorten(std::uint64_t bound) {
    double squares = 0.0;
    for (const std::int32_t cell : other_)
      squares += static_cast<double>(cell) * static_cast<double>(cell);
    const double roundings = static_cast<double>(other_.size() + 8) * 0x1p-52;
    const double factor = static_cast<double>(bound) / (std::sqrt(squares) * (1.0 + roundings));
    for (std::int32_t& cell : other_) cell = static_cast<std::int32_t>(factor * cell);
  }

  const Clip& clip_;
  std::uint64_t since_anchor_, between_anchors_;
  std::vector<double> squared_norms_, factors_;
  std::vector<std::int32_t> at_anchor_, other_;
};

/// Returns the three sums, [parameters] each.
template <class Adder>
std::array<std::vector<typename Adder::Number>, 3> sums_of(
    const Iterates& iterates, const Dataset& data, std::span<const std::uint32_t> batch,
    const Clip& clip, const DifferenceBounds& bounds, Executor& executor) {
  if (clip.count_share != 0.0)
    throw ConfigError("a count cannot be released together with differences");
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
  std::vector<std::array<std::vector<typename Adder::Number>, 3>> totals(lanes);
  executor.for_each_chunk(lanes, [&](std::size_t lane) {
    for (auto& sum : totals[lane]) sum.assign(parameters, 0);
    Adder adder(clip, bounds, parameters);
    Chunk scratch(data, std::min(chunk_rows, batch.size()));
    std::vector<GradientRows> gradients;
    gradients.reserve(programs.size());
    for (const Program* program : programs)
      gradients.emplace_back(program == nullptr ? 0 : std::min(chunk_rows, batch.size()),
                             parameters);
    for (std::size_t chunk = lane; chunk < chunks; chunk += lanes) {
      const std::size_t begin = chunk * chunk_rows;
      const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
      const Batch examples = scratch.gather(data, rows);
      for (std::size_t p = 0; p < programs.size(); ++p) {
        if (programs[p] != nullptr) gradients[p].compute(*programs[p], examples);
      }
      const auto row = [&](std::size_t p, std::size_t i) {
        return programs[p] == nullptr ? std::span<const float>{} : gradients[p].row(i);
      };
      for (std::size_t i = 0; i < rows.size(); ++i)
        adder.add(row(0, i), row(1, i), row(2, i), totals[lane]);
    }
  });
  std::array<std::vector<typename Adder::Number>, 3> sums;
  for (std::size_t p = 0; p < 3; ++p) {
    sums[p].assign(parameters, 0);
    for (const auto& lane : totals) {
      for (std::size_t i = 0; i < parameters; ++i) sums[p][i] += lane[p][i];
    }
  }
  return sums;
}

std::size_t wanted(const Iterates& iterates) { return iterates.last_anchor == nullptr ? 2 : 3; }

}  // namespace

std::vector<Bounded> anchored_sums(const Iterates& iterates, const Dataset& data,
                                   std::span<const std::uint32_t> batch, const Clip& clip,
                                   const DifferenceBounds& bounds, Executor& executor) {
  // Nearly equal iterates have a bound below the smallest clip norm, which would be lost in
  // rounding errors, so their differences count as zero.
  const auto kept = [](double bound) { return bound < kSmallestClipNorm ? 0.0 : bound; };
  const DifferenceBounds kept_bounds{kept(bounds.since_anchor), kept(bounds.between_anchors)};
  const auto totals = sums_of<AnchoredAdder>(iterates, data, batch, clip, kept_bounds, executor);
  const std::array<double, 3> norms{clip.clip_norm, bounds.since_anchor, bounds.between_anchors};
  std::vector<Bounded> sums;
  for (std::size_t p = 0; p < wanted(iterates); ++p) {
    std::vector<float> total(totals[p].begin(), totals[p].end());
    sums.push_back(TrustBase::bounded(std::move(total), norms[p], PrivacyUnit::example));
  }
  return sums;
}

std::vector<BoundedOnGrid> anchored_exact_sums(const Iterates& iterates, const Dataset& data,
                                               std::span<const std::uint32_t> batch,
                                               const Clip& clip, const DifferenceBounds& bounds,
                                               Executor& executor) {
  auto totals = sums_of<AnchoredGridAdder>(iterates, data, batch, clip, bounds, executor);
  const std::array<std::uint64_t, 3> levels{kExactLevels,
                                            cells_of(bounds.since_anchor, clip.clip_norm),
                                            cells_of(bounds.between_anchors, clip.clip_norm)};
  const double width = clip.clip_norm / static_cast<double>(kExactLevels);
  std::vector<BoundedOnGrid> sums;
  for (std::size_t p = 0; p < wanted(iterates); ++p) {
    sums.push_back(TrustBase::bounded_on_grid(std::move(totals[p]), levels[p],
                                              static_cast<double>(levels[p]) * width, width,
                                              batch.size(), PrivacyUnit::example));
  }
  return sums;
}

}  // namespace privgrad::core
