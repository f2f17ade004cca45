#include "averaged_noise.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "privgrad/api/predicted_noise.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/trust/correlated_recipes.hpp"

namespace privgrad::api {
namespace {

// A standard deviation that is estimated from n independent normals has the relative standard error
// 1 / sqrt(2 n).
constexpr std::uint64_t kMostCopies = 2048, kFewestCopies = 256;
// The product of copies and steps. At this size, a simulation takes seconds, and tree_reduced needs
// less than 200 MB for an epoch.
constexpr std::uint64_t kWork = 50'000'000;

/// The noise of one sum that is released step by step, in many copies of one coordinate.
class SimulatedPart {
 public:
  SimulatedPart(const core::CorrelatedRecipes& recipes, std::size_t copies)
      : recipes_(recipes), copies_(copies) {}

  /// \param out  receives the noise of the next release, in units of its bound.
  void next(std::mt19937_64& random, std::span<float> out) {
    if (recipes_.window() > 0) return next_of_window(random, out);
    std::normal_distribution<float> normal;
    const double keep = recipes_.keep(step_);
    for (Kept& kept : kept_) kept.carried *= keep;
    // Each node is used in one step only, so the sum of a step's nodes is drawn as one normal.
    const auto own = static_cast<float>(recipes_.own_multiplier(step_));
    std::vector<float> noise(copies_);
    for (float& value : noise) value = own * normal(random);
    for (const EarlierNoise& earlier : recipes_.earlier(step_)) {
      const auto found =
          std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.step == earlier.step; });
      const auto share = static_cast<float>(earlier.share * found->carried);
      for (std::size_t i = 0; i < copies_; ++i) noise[i] += share * found->noise[i];
    }
    const auto scale = static_cast<float>(recipes_.scale(step_));
    for (std::size_t i = 0; i < copies_; ++i) out[i] = scale * noise[i];
    kept_.push_back({.step = step_, .noise = std::move(noise)});
    std::erase_if(kept_, [&](const Kept& kept) { return recipes_.last_use(kept.step) <= step_; });
    ++step_;
  }

 private:
  void next_of_window(std::mt19937_64& random, std::span<float> out) {
    std::normal_distribution<float> normal;
    if (kept_.size() > recipes_.window()) kept_.erase(kept_.begin());
    std::vector<float> fresh(copies_);
    for (float& value : fresh) value = normal(random);
    kept_.push_back({.step = step_, .noise = std::move(fresh)});
    std::ranges::fill(out, 0.0f);
    for (const NoiseTerm& term : recipes_.noise(step_)) {
      const std::vector<float>& noise = kept_[kept_.size() - 1 - recipes_.age(step_, term)].noise;
      const auto multiplier = static_cast<float>(term.multiplier);
      for (std::size_t i = 0; i < copies_; ++i) out[i] += multiplier * noise[i];
    }
    ++step_;
  }

  struct Kept {
    std::uint64_t step = 0;
    std::vector<float> noise;
    double carried = 1.0;  // the product of keep() over all later steps
  };

  const core::CorrelatedRecipes& recipes_;
  std::size_t copies_;
  std::uint64_t step_ = 0;
  std::vector<Kept> kept_;
};

/// Computes the noise of the releases, when called for each step in order.
using Releases = std::function<void(std::uint64_t step, std::span<float> out)>;

Releases independent_releases(const core::Plan& plan, double momentum, std::size_t copies) {
  return [&plan, momentum, random = std::mt19937_64(1), sum = std::vector<float>(copies)](
             std::uint64_t step, std::span<float> out) mutable {
    std::normal_distribution<float> normal;
    const auto own = static_cast<float>(plan.clip_norm[step] * plan.noise_multiplier[step] /
                                        plan.batch_size[step]);
    const auto keep = static_cast<float>(momentum);
    const float scale = momentum < 1.0 ? 1.0f - keep : 1.0f;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = keep * sum[i] + own * normal(random);
      out[i] = scale * sum[i];
    }
  };
}

/// Releases of gradients whose noise is partly subtracted in later steps, accumulated with the
/// momentum.
Releases windowed_releases(const core::Plan& plan, double momentum, std::size_t copies) {
  return [&plan, momentum, part = SimulatedPart(plan.correlated->parts.front().recipes, copies),
          random = std::mt19937_64(1),
          sum = std::vector<float>(copies)](std::uint64_t step, std::span<float> out) mutable {
    part.next(random, out);
    const auto unit = static_cast<float>(plan.clip_norm[step] / plan.batch_size[step]);
    const auto keep = static_cast<float>(momentum);
    const float scale = momentum < 1.0 ? 1.0f - keep : 1.0f;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = keep * sum[i] + unit * out[i];
      out[i] = scale * sum[i];
    }
  };
}

Releases correlated_releases(const core::Plan& plan, std::size_t copies) {
  struct State {
    core::Components components;
    std::vector<SimulatedPart> parts;
    std::vector<std::vector<float>> released;
    std::mt19937_64 random{1};
  };
  auto state = std::make_shared<State>();
  state->components = core::start_components(plan);
  for (const core::CorrelatedPart& part : plan.correlated->parts) {
    state->parts.emplace_back(part.recipes, copies);
    state->released.emplace_back(copies);
  }
  return [&plan, state](std::uint64_t step, std::span<float> out) {
    const auto unit = static_cast<float>(plan.clip_norm[step] / plan.batch_size[step]);
    const auto release = [&](std::size_t part) -> std::span<const float> {
      std::vector<float>& released = state->released[part];
      state->parts[part].next(state->random, released);
      for (float& value : released) value *= unit;
      return released;
    };
    const std::span<const float> first = release(0);
    if (state->components.differences == nullptr) {
      std::ranges::copy(first, out.begin());
      return;
    }
    const std::vector<core::CorrelatedPart>& parts = plan.correlated->parts;
    const bool has_last = parts.size() > 2 && step >= parts[2].first_step;
    const std::span<const float> since_anchor = release(1);
    state->components.differences->combine(step, first, since_anchor,
                                           has_last ? release(2) : std::span<const float>{}, out);
  };
}

/// Adds up the squares of the means over windows of one length.
class WindowMeans {
 public:
  WindowMeans(std::uint64_t length, std::size_t copies) : length_(length), sums_(copies) {}

  void add(std::span<const float> noise) {
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(noise[i]);
    if (++steps_ < length_) return;
    for (double& sum : sums_) {
      const double mean = sum / static_cast<double>(length_);
      squares_ += mean * mean;
      sum = 0.0;
    }
    means_ += sums_.size();
    steps_ = 0;
  }

  double root_mean_square() const { return std::sqrt(squares_ / static_cast<double>(means_)); }

 private:
  std::uint64_t length_, steps_ = 0, means_ = 0;
  double squares_ = 0.0;
  std::vector<double> sums_;
};

/// Sums up releases as an optimizer does, each weighted with its learning rate divided by the mean
/// learning rate.
class Iterates {
 public:
  Iterates(const core::Plan& plan, std::size_t copies) : rates_(plan.learning_rate), sums_(copies) {
    const double all = std::accumulate(rates_.begin(), rates_.end(), 0.0);
    for (double& rate : rates_)
      rate = all > 0.0 ? rate * static_cast<double>(rates_.size()) / all : 1.0;
  }

  void add(std::uint64_t step, std::span<const float> noise) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] += rates_[step] * static_cast<double>(noise[i]);
      squares_ += sums_[i] * sums_[i];
    }
  }

  double root_mean_square() const {
    return std::sqrt(squares_ / static_cast<double>(sums_.size() * rates_.size()));
  }

 private:
  std::vector<double> rates_;
  std::vector<double> sums_;
  double squares_ = 0.0;
};

}  // namespace

AveragedNoise averaged_noise(const core::Plan& plan, double momentum,
                             std::span<const std::uint64_t> windows) {
  const std::size_t copies = std::clamp(kWork / plan.steps(), kFewestCopies, kMostCopies);
  const Releases next = !plan.correlated           ? independent_releases(plan, momentum, copies)
                        : releases_gradients(plan) ? windowed_releases(plan, momentum, copies)
                                                   : correlated_releases(plan, copies);
  std::vector<WindowMeans> means;
  for (const std::uint64_t window : windows) means.emplace_back(window, copies);
  Iterates iterates(plan, copies);
  std::vector<float> noise(copies);
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    next(step, noise);
    iterates.add(step, noise);
    for (WindowMeans& mean : means) mean.add(noise);
  }
  AveragedNoise result;
  result.iterates = iterates.root_mean_square();
  for (const WindowMeans& mean : means) result.windows.push_back(mean.root_mean_square());
  return result;
}

}  // namespace privgrad::api
