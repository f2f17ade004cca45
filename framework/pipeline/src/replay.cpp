#include "replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/pipeline/augmented_program.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/discrete_gaussian.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"

namespace privgrad::core {
namespace {

/// 2^26 cells and 2^28 at most, each: the squares of more than a million of them fit in 128 bits.
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

}  // namespace

Replay::Replay(const Plan& plan, const RandomKey& key, Executor& executor)
    : plan_(plan),
      made_(start_components(plan)),
      noise_key_(key.derive("noise")),
      augmentation_key_(key.derive("augmentation")),
      levels_(plan.grid_levels != 0 ? plan.grid_levels : kExactLevels),
      program_(make_program(plan, backend_, executor)) {}

void Replay::load(const std::vector<float>& parameters) {
  program_->load_parameters(parameters);
  known_.clear();
}

const Replay::Contribution& Replay::of_row(std::uint64_t step, const Dataset& data,
                                           std::uint32_t row) {
  const auto [place, is_new] = known_.try_emplace(row);
  if (!is_new) return place->second;
  std::vector<float> features(data.row_size()), target(1);
  data.gather({&row, 1}, features, target);
  const Batch one{.features = features, .targets = target};
  const Clip clip{
      .rule = *made_.clipping, .groups = plan_.setting->groups, .clip_norm = plan_.clip_norm[step]};
  const AugmentedStep augmented(*program_, augmentation_key_, step);
  const auto* exact = dynamic_cast<const ExactClipping*>(program_.get());
  const bool by_cells = exact != nullptr && plan_.grid_levels == 0;
  place->second = by_cells ? exact_cells(*exact, one, clip) : row_cells(one, clip);
  place->second.within_bound = are_within(place->second.cells, levels_);
  return place->second;
}

Replay::Contribution Replay::exact_cells(const ExactClipping& program, const Batch& one,
                                         const Clip& clip) const {
  const auto pass = program.make_pass(1);
  if (pass == nullptr) {
    throw PluginError(program_owner(*plan_.manifest, *plan_.setting) +
                      ": the program makes no memory for a pass");
  }
  std::vector<double> norms(program.groups(), std::numeric_limits<double>::quiet_NaN());
  std::vector<double> scales(program.groups());
  program.backward(one, *pass, norms);
  clip_factors(clip, norms, scales);
  for (double& scale : scales) {
    scale *= 1.0 / clip.clip_norm * static_cast<double>(levels_);
    if (!std::isfinite(scale)) scale = 0.0;
  }
  SquaredLength length{~std::uint64_t{0}, 0};
  program.make_cells(*pass, scales, levels_, {&length, 1});
  const std::uint8_t taken = length.high == 0 && length.low <= levels_ * levels_ ? 1 : 0;
  Contribution made{.cells = std::vector<std::int64_t>(program_->parameter_count(), 0)};
  program.add_cells(*pass, {&taken, 1}, made.cells);
  return made;
}

Replay::Contribution Replay::row_cells(const Batch& one, const Clip& clip) const {
  std::vector<float> row(program_->parameter_count(), std::numeric_limits<float>::quiet_NaN());
  program_->gradient_rows(one, row);
  std::vector<double> norms, factors(clip.groups.size());
  for (const ParameterGroup& group : clip.groups)
    norms.push_back(squared_norm_at_most(std::span(row).subspan(group.offset, group.size)));
  clip_factors(clip, norms, factors);
  std::vector<std::int32_t> cells(row.size());
  round_to_grid(row, clip.groups, factors, clip.clip_norm, levels_, cells);
  return {.cells = {cells.begin(), cells.end()}};
}

double Replay::noise_stddev(std::uint64_t step) const {
  const double multiplier = multiplier_of(made_.aggregator->recipe(step));
  const double bound = plan_.clip_norm[step];
  if (plan_.grid_levels == 0) return bound * multiplier / plan_.batch_size[step];
  const double width = bound / static_cast<double>(levels_);
  return static_cast<double>(sigma_in_cells(multiplier, levels_)) * width / plan_.batch_size[step];
}

std::vector<float> Replay::release(std::uint64_t step, std::vector<std::int64_t> sum) const {
  const ReleaseRecipe recipe = made_.aggregator->recipe(step);
  const std::uint64_t node = recipe.noise.front().node;
  const double multiplier = multiplier_of(recipe);
  const double width = plan_.clip_norm[step] / static_cast<double>(levels_);
  const double divisor = plan_.batch_size[step];
  std::vector<float> released;
  released.reserve(sum.size());
  if (plan_.grid_levels != 0) {
    DiscreteGaussianStream stream(noise_key_, node, sigma_in_cells(multiplier, levels_));
    std::vector<std::int64_t> noise(kDiscreteChunk);
    for (std::size_t begin = 0; begin < sum.size(); begin += kDiscreteChunk) {
      const std::size_t size = std::min(kDiscreteChunk, sum.size() - begin);
      stream.fill(begin / kDiscreteChunk, std::span(noise).first(size));
      for (std::size_t i = 0; i < size; ++i) {
        const auto noised = static_cast<double>(sum[begin + i] + noise[i]);
        released.push_back(static_cast<float>(noised * width / divisor));
      }
    }
    return released;
  }
  const double sigma = multiplier * static_cast<double>(levels_);  // exact: a power of two
  const unsigned shift = release_shift(sigma);
  RoundedGaussianStream(noise_key_, node).release(0, sigma, shift, sum, sum);
  const double coarse = std::ldexp(width, static_cast<int>(shift)) / divisor;
  for (const std::int64_t cell : sum)
    released.push_back(static_cast<float>(static_cast<double>(cell) * coarse));
  return released;
}

}  // namespace privgrad::core
