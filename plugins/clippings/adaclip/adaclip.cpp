#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "../norms.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Clips w = (g - m) / b as `flat` clips g, where m_i is the mean of coordinate i over examples,
/// s_i^2 the variance, and b_i = sqrt(s_i) sqrt(sum_j s_j). With the true means and variances of
/// the examples' gradients, E ||w||^2 is 1, and the total noise of all coordinates, sum b_i^2, is
/// the smallest possible (Theorem 2).
///
/// Both mean and variance follow from the releases r, which include noise of standard deviation
/// sigma in each coordinate: the gradient of a step is b r + m, so b r is the gradient's difference
/// from the mean, and b^2 (r^2 - sigma^2) is an estimate of the variance.
///
///     s^2 <- variance_decay s^2 + (1 - variance_decay) clamp(b^2 (r^2 - sigma^2))
///     m   <- mean_decay m + (1 - mean_decay) (b r + m)
///
/// These are products, sums and square roots in a fixed order, so they have the same bits on every
/// processor.
///
/// The mean of B examples has a variance B times smaller than one example's, so if examples share
/// no direction, s is too small by sqrt(B), and w is clipped. Then only the clip norm and the
/// proportions of s matter. The paper uses exactly this estimate, and calls the smallest and
/// largest variance h_1 and h_2.
///
/// State: m and s^2; b follows from them.
class AdaClip final : public Clipping, public CoordinateScaling {
 public:
  explicit AdaClip(const Params& params)
      : mean_decay_(params.real("mean_decay")),
        variance_decay_(params.real("variance_decay")),
        least_(params.real("least_variance")),
        most_(params.real("most_variance")) {
    if (least_ > most_) {
      throw ConfigError("adaclip: least_variance is " + format_number(least_) +
                        ", allowed is at most most_variance, which is " + format_number(most_));
    }
  }

  void start(std::span<const ParameterGroup> groups) override {
    const auto size =
        std::accumulate(groups.begin(), groups.end(), std::size_t{0},
                        [](std::size_t sum, const auto& group) { return sum + group.size; });
    means_.assign(size, 0.0f);
    variances_.assign(size, static_cast<float>(std::sqrt(least_) * std::sqrt(most_)));
    find_scale();
  }

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = clippings::whole_norm(squared_norms);
    std::ranges::fill(factors, clippings::clip_to(clip_norm, norm));
  }

  std::span<const float> shift() const override { return means_; }
  std::span<const float> scale() const override { return scale_; }

  void learn(const Released& release) override {
    const std::span<const float> released = release.values();
    if (size() == 0 || released.size() != size()) {
      throw PluginError("adaclip: got a release of " + std::to_string(released.size()) +
                        " numbers, started for " + std::to_string(size()));
    }
    const double noise = release.noise_stddev() * release.noise_stddev();
    for (std::size_t i = 0; i < size(); ++i) {
      // This release gives no information about the coordinate's size.
      if (!std::isfinite(released[i])) continue;
      const auto r = static_cast<double>(released[i]), b = static_cast<double>(scale_[i]);
      float &mean = means_[i], &variance = variances_[i];
      const double found = std::clamp(b * b * (r * r - noise), least_, most_);
      variance = static_cast<float>(variance_decay_ * static_cast<double>(variance) +
                                    (1.0 - variance_decay_) * found);
      const double next = static_cast<double>(mean) + (1.0 - mean_decay_) * (b * r);
      mean = static_cast<float>(std::clamp(next, -kLargestMean, kLargestMean));
    }
    find_scale();
  }

  std::vector<StateMember> state() override {
    return {{"means", &means_}, {"variances", &variances_}};
  }

  void restored() override {
    if (!std::ranges::all_of(variances_, [](float x) { return x > 0.0f; }))
      throw ConfigError("adaclip: the state holds values that no run can have left");
    find_scale();
  }

 private:
  /// A limit far above all gradients, within the range of float32.
  static constexpr double kLargestMean = 1e30;

  std::size_t size() const { return means_.size(); }

  void find_scale() {
    double sum = 0.0;
    scale_.resize(size());
    for (std::size_t i = 0; i < size(); ++i) sum += std::sqrt(static_cast<double>(variances_[i]));
    for (std::size_t i = 0; i < size(); ++i) {
      const double deviation = std::sqrt(static_cast<double>(variances_[i]));
      scale_[i] = static_cast<float>(std::sqrt(deviation) * std::sqrt(sum));
    }
  }

  double mean_decay_, variance_decay_, least_, most_;
  std::vector<float> means_, variances_;  // m, s^2; empty before start()
  std::vector<float> scale_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Clipping, AdaClip>({
      .name = "adaclip",
      .summary = "Flat, on gradients whose coordinates are centred and scaled by what the steps "
                 "before released; the clip norm is that of scaled gradients.",
      .reference = "Pichapati, Suresh, Yu, Reddi and Kumar 2019 (AdaCliP: Adaptive Clipping for "
                   "Private SGD), Algorithm 1",
      .params =
          {real("mean_decay", "Share of the mean that is kept in a step.")
               .at_least(0)
               .at_most(1)
               .defaults_to(0.99),
           real("variance_decay", "Share of the variance that is kept in a step.")
               .at_least(0)
               .at_most(1)
               .defaults_to(0.9),
           real("least_variance",
                "The least variance that a step may find in a coordinate, of gradients. The first "
                "step's is the geometric mean of the least and the most. Releases vary less than "
                "the gradients of examples do, so that the variance comes down to the least where "
                "they agree little: then clipping is flat, to clip_norm times the root of "
                "least_variance times the number of parameters.")
               .at_least(1e-30)
               .at_most(1e30)
               .defaults_to(1e-4),
           real("most_variance", "The most that it may find.")
               .at_least(1e-30)
               .at_most(1e30)
               .defaults_to(1.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.adaclip", "0.1.0", "clipping/adaclip", register_components)
