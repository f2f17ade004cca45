#include "replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/longest_stay.hpp"
#include "privgrad/trust/program_around.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {
namespace {

/// Whether the squares of the cells add up to at most levels^2. There are 2^26 levels per clip
/// norm, and a cell is at most 2^28 in size, so the squares of more than a million cells fit in 128
/// bits.
bool are_within(std::span<const std::int64_t> cells, std::uint64_t levels) {
  __extension__ using Wide = unsigned __int128;
  Wide squares = 0;
  for (const std::int64_t cell : cells) {
    const auto size = cell < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(cell)
                               : static_cast<std::uint64_t>(cell);
    if (size > levels) return false;
    squares += Wide{size} * size;
  }
  return squares <= Wide{levels} * levels;
}

double multiplier_of(const ReleaseRecipe& recipe) {
  double squares = 0.0;
  for (const NoiseTerm& term : recipe.noise) squares += term.multiplier * term.multiplier;
  return std::sqrt(squares);
}

/// Shortens cells towards zero by a common factor, as the core shortens differences of gradients.
std::vector<std::int64_t> shortened(std::vector<std::int64_t> cells, std::uint64_t bound) {
  if (are_within(cells, bound)) return cells;
  double squares = 0.0;
  for (const std::int64_t cell : cells)
    squares += static_cast<double>(cell) * static_cast<double>(cell);
  const double roundings = static_cast<double>(cells.size() + 8) * 0x1p-52;
  const double factor = static_cast<double>(bound) / (std::sqrt(squares) * (1.0 + roundings));
  for (std::int64_t& cell : cells)
    cell = static_cast<std::int64_t>(factor * static_cast<double>(cell));
  if (!are_within(cells, bound)) std::ranges::fill(cells, 0);
  return cells;
}

/// Converts a bound from clip norms to whole cells, rounded down.
std::uint64_t cells_of(double bound, double clip_norm) {
  const double cells = bound * clip_norm / clip_norm * static_cast<double>(kExactLevels);
  return static_cast<std::uint64_t>(cells * (1.0 - 0x1p-50));
}

}  // namespace

Replay::Replay(const Plan& plan, const RandomKey& key, Executor& executor,
               std::unique_ptr<Program> program, const std::vector<double>& class_weights)
    : plan_(plan),
      made_(start_components(plan)),
      key_(key),
      noise_key_(key.derive("noise")),
      augmentation_key_(key.derive("augmentation")),
      executor_(executor),
      program_(program != nullptr ? std::move(program)
                                  : make_program(plan, backend_, executor, class_weights)),
      multipliers_(plan.noise_multiplier),
      multiplier_(plan.noise_multiplier.front()) {
  if (made_.differences != nullptr) {
    anchor_ = make_program(plan, backend_, executor, class_weights);
    last_anchor_ = make_program(plan, backend_, executor, class_weights);
  }
  if (!plan.noise_adapts) return;
  noise_rule_ = plan.manifest->noise_multiplier.make<Schedule>();
  noise_rule_->start({.steps = plan.steps(), .slot = "noise_multiplier"});
}

// ---- noise that adapts

void Replay::follow_test_rows(std::uint64_t step, std::span<const float> model,
                              const Dataset& test) {
  if (!plan_.noise_adapts || plan_.noise_adapts->is_charged()) return;
  const Measurement& measurement = plan_.noise_adapts->measurement;
  if (step % measurement.every != 0) return;
  program_->load_parameters(model);
  step_ = step;
  follow(measured_on_test_rows(measurement, evaluate(*program_, test, executor_), test.rows()));
}

void Replay::follow(double measured) {
  measured_.push_back(measured);
  multiplier_ = noise_rule_->next(multiplier_, measured_);
}

void Replay::change_noise(std::uint64_t step) {
  if (!plan_.noise_adapts || multipliers_[step] == multiplier_) return;
  std::fill(multipliers_.begin() + static_cast<std::ptrdiff_t>(step), multipliers_.end(),
            multiplier_);
  start_aggregator(plan_.manifest->aggregator, *made_.aggregator, plan_.facts, multipliers_,
                   plan_.clip_norm, plan_.learning_rate);
}

// ---- contributions of rows

void Replay::begin_step(std::uint64_t step, std::span<const float> model, double clip_norm) {
  step_ = step;
  clip_norm_ = clip_norm;
  known_.clear();
  program_->load_parameters(model);
  program_->load_parameters(model);  // twice, to test that earlier parameters do not matter
  change_noise(step);
  if (made_.differences == nullptr || step % made_.differences->epoch_steps() != 0) return;
  std::swap(anchor_, last_anchor_);
  anchor_->load_parameters(model);
}

Clip Replay::clip() const {
  return {.rule = *made_.clipping,
          .groups = plan_.setting->groups,
          .clip_norm = clip_norm_,
          .count_share = plan_.count_share_at(step_)};
}

std::size_t Replay::parts() const {
  if (!plan_.correlated) return 1;
  const auto& all = plan_.correlated->parts;
  return static_cast<std::size_t>(
      std::ranges::count_if(all, [&](const auto& one) { return one.first_step <= step_; }));
}

std::size_t Replay::elements() const {
  return program_->parameter_count() + (plan_.releases_count() ? 1 : 0);
}

const Contribution& Replay::of_row(const Dataset& data, std::uint32_t row) {
  const auto [place, is_new] = known_.try_emplace(row);
  if (!is_new) return place->second;
  std::vector<float> features(data.row_size()), target(1);
  data.gather({&row, 1}, features, target);
  place->second = contribution({.features = features, .targets = target});
  return place->second;
}

Contribution Replay::contribution(const Batch& one) const {
  Contribution made;
  if (made_.differences != nullptr) {
    made.cells.push_back(row_cells(*anchor_, one));
    add_differences(one, made);
    return made;
  }
  const AugmentedStep augmented(*program_, augmentation_key_, step_);
  const auto* exact = ability_of<ExactClipping>(*program_);
  const bool by_cells = exact != nullptr && made_.scaling == nullptr;
  made.cells.push_back(by_cells ? exact_cells(*exact, one) : row_cells(*program_, one));
  made.within_bound = are_within(made.cells.front(), kExactLevels);
  return made;
}

void Replay::add_differences(const Batch& one, Contribution& made) const {
  const std::vector<CorrelatedPart>& parts = plan_.correlated->parts;
  const std::size_t size = program_->parameter_count();
  const auto less = [&](std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
    for (std::size_t i = 0; i < size; ++i) a[i] -= b[i];
    return a;
  };
  const std::vector<std::int64_t> at_anchor = made.cells.front();
  made.within_bound = are_within(at_anchor, kExactLevels);
  const bool is_anchor = step_ % made_.differences->epoch_steps() == 0;
  made.cells.push_back(is_anchor ? std::vector<std::int64_t>(size, 0)
                                 : shortened(less(row_cells(*program_, one), at_anchor),
                                             cells_of(parts[1].bound(step_), clip_norm_)));
  if (parts.size() < 3 || step_ < parts[2].first_step) return;
  made.cells.push_back(
      shortened(less(at_anchor, row_cells(*last_anchor_, one)),
                cells_of(parts[2].bound(step_ - parts[2].first_step), clip_norm_)));
}

std::vector<std::int64_t> Replay::exact_cells(const ExactClipping& program,
                                              const Batch& one) const {
  const auto pass = program.make_pass(1);
  if (pass == nullptr) {
    throw PluginError(plan_.manifest->backend.component->full_name() +
                      ": the program makes no memory for a pass");
  }
  const Clip clip = this->clip();
  const std::uint64_t count = count_cells(clip.count_share);
  const double share = count == 0 ? 1.0 : gradient_share(clip.count_share);
  const std::uint64_t most = whole_root(kExactLevels * kExactLevels - count * count);
  std::vector<double> norms(program.groups(), std::numeric_limits<double>::quiet_NaN());
  std::vector<double> scales(program.groups());
  program.backward(one, *pass, norms);
  const bool unclipped = clip_factors(clip, norms, scales);
  for (double& scale : scales) {
    scale *= share / clip.clip_norm * static_cast<double>(kExactLevels);
    if (!std::isfinite(scale)) scale = 0.0;
  }
  SquaredLength length{~std::uint64_t{0}, 0};
  program.make_cells(*pass, scales, most, {&length, 1});
  const std::uint8_t taken = length.high == 0 && length.low <= most * most ? 1 : 0;
  std::vector<std::int64_t> cells(elements(), 0);
  program.add_cells(*pass, {&taken, 1}, std::span(cells).first(program_->parameter_count()));
  if (count != 0)
    cells.back() = unclipped ? static_cast<std::int64_t>(count) : -static_cast<std::int64_t>(count);
  return cells;
}

std::vector<std::int64_t> Replay::row_cells(const Program& program, const Batch& one) const {
  const Clip clip = this->clip();
  const std::uint64_t count = count_cells(clip.count_share);
  std::vector<float> row(program.parameter_count(), std::numeric_limits<float>::quiet_NaN());
  program.gradient_rows(one, row);
  if (made_.scaling != nullptr) scale(row);
  std::vector<double> norms, factors(clip.groups.size());
  for (const ParameterGroup& group : clip.groups)
    norms.push_back(squared_norm_at_most(std::span(row).subspan(group.offset, group.size)));
  const bool unclipped = clip_factors(clip, norms, factors);
  for (double& factor : factors) factor *= count == 0 ? 1.0 : gradient_share(clip.count_share);
  std::vector<std::int32_t> rounded(row.size());
  round_to_grid(row, clip.groups, factors, clip.clip_norm, kExactLevels, rounded);
  if (!no_longer_than(rounded, kExactLevels * kExactLevels - count * count))
    std::ranges::fill(rounded, 0);
  std::vector<std::int64_t> cells(rounded.begin(), rounded.end());
  if (count != 0)
    cells.push_back(unclipped ? static_cast<std::int64_t>(count)
                              : -static_cast<std::int64_t>(count));
  return cells;
}

/// Subtracts the shift from each coordinate and divides by the scale, in double, and rounds to
/// float32.
void Replay::scale(std::span<float> row) const {
  const std::span<const float> shift = made_.scaling->shift(), by = made_.scaling->scale();
  constexpr double kMost = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < row.size(); ++i) {
    double value = row[i];
    value -= shift[i];
    value /= by[i];
    if (std::isfinite(value)) value = std::max(-kMost, std::min(kMost, value));
    row[i] = static_cast<float>(value);
  }
}

// ---- releases

void Replay::learn(const Released& release) {
  if (made_.scaling != nullptr) made_.scaling->learn(release);
}

double Replay::noise_stddev() const {
  return clip_norm_ * multiplier_of(made_.aggregator->recipe(step_)) / plan_.batch_size[step_];
}

std::vector<Replayed> Replay::release(std::vector<std::vector<std::int64_t>> sums,
                                      ReplayedSums& past, bool noised) const {
  const double width = clip_norm_ / static_cast<double>(kExactLevels) / plan_.batch_size[step_];
  std::vector<Replayed> made;
  for (std::size_t part = 0; part < sums.size(); ++part) {
    if (plan_.correlated) {
      made.push_back(past.release(part, step_, sums[part], width, noised));
    } else if (noised) {
      made.push_back({.values = release_once(std::move(sums[part]))});
    } else {
      made.emplace_back().values.reserve(sums[part].size());
      for (const std::int64_t cell : sums[part])
        made.back().values.push_back(static_cast<float>(static_cast<double>(cell) * width));
    }
  }
  return made;
}

/// Recomputes a release with independent noise.
std::vector<float> Replay::release_once(std::vector<std::int64_t> sum) const {
  const ReleaseRecipe recipe = made_.aggregator->recipe(step_);
  const std::uint64_t node = recipe.noise.front().node;
  const double multiplier = multiplier_of(recipe);
  const double width = clip_norm_ / static_cast<double>(kExactLevels);
  const double divisor = plan_.batch_size[step_];
  std::vector<float> released;
  released.reserve(sum.size());
  // This product is exact, because the number of levels is a power of two.
  const double sigma = multiplier * static_cast<double>(kExactLevels);
  const unsigned shift = release_shift(sigma);
  RoundedGaussianStream(noise_key_, node).release(0, sigma, shift, sum, sum);
  const double coarse = std::ldexp(width, static_cast<int>(shift)) / divisor;
  for (const std::int64_t cell : sum)
    released.push_back(static_cast<float>(static_cast<double>(cell) * coarse));
  return released;
}

/// The last released number is the count: each example adds or subtracts the step's count_share
/// times the clip norm, and the sum is divided by the divisor.
double Replay::next_clip_norm(std::span<const float> released) const {
  const double unit = 2.0 * plan_.count_share[step_] * clip_norm_;
  const double unclipped = static_cast<double>(released.back()) / unit + 0.5;
  const double next = made_.adaptive_clip_norm->next_clip_norm(clip_norm_, unclipped);
  return std::clamp(next, kSmallestClipNorm, kLargestClipNorm);
}

std::vector<float> Replay::release_beside(const Beside& what, std::span<const float> rows) const {
  const LongestStay rule;
  const std::vector<ParameterGroup> groups{{"rows", 0, what.width}};
  const Clip clip{.rule = rule, .groups = groups, .clip_norm = what.bound, .count_share = 0.0};
  std::vector<std::int64_t> sum(what.width, 0);
  std::vector<std::int32_t> cells(what.width);
  for (std::size_t begin = 0; begin < rows.size(); begin += what.width) {
    const std::span<const float> row = rows.subspan(begin, what.width);
    if (!all_finite(row)) continue;
    const double norm = squared_norm_at_most(row);
    double factor = 0.0;
    clip_factors(clip, {&norm, 1}, {&factor, 1});
    round_to_grid(row, groups, {&factor, 1}, what.bound, kExactLevels, cells);
    for (std::size_t i = 0; i < what.width; ++i) sum[i] += cells[i];
  }
  const double sigma = what.multiplier * static_cast<double>(kExactLevels);
  const unsigned shift = release_shift(sigma);
  RoundedGaussianStream(key_.derive(what.purpose), what.number).release(0, sigma, shift, sum, sum);
  const double width = what.bound / static_cast<double>(kExactLevels);
  const double coarse = std::ldexp(width, static_cast<int>(shift)) / what.divisor;
  std::vector<float> released;
  released.reserve(sum.size());
  for (const std::int64_t cell : sum)
    released.push_back(static_cast<float>(static_cast<double>(cell) * coarse));
  return released;
}

std::vector<double> Replay::losses(std::span<const float> model, const Dataset& data,
                                   std::span<const std::uint32_t> rows) {
  program_->load_parameters(model);
  std::vector<double> losses;
  losses.reserve(rows.size());
  std::vector<float> features(data.row_size()), target(1);
  for (const std::uint32_t row : rows) {
    data.gather({&row, 1}, features, target);
    losses.push_back(program_->evaluate({.features = features, .targets = target}).loss);
  }
  return losses;
}

std::vector<float> Replay::halves(std::span<const float> model, const Dataset& data,
                                  std::span<const std::uint32_t> rows) {
  program_->load_parameters(model);
  std::vector<float> halves;
  std::vector<float> features(data.row_size()), target(1);
  for (const std::uint32_t row : rows) {
    data.gather({&row, 1}, features, target);
    const Evaluation one = program_->evaluate({.features = features, .targets = target});
    halves.push_back(static_cast<float>(static_cast<double>(one.correct) - 0.5));
  }
  return halves;
}

}  // namespace privgrad::core
