#include "privgrad/core/correlated_mechanism.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "privgrad/core/normals.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/value.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// A vector and its factor.
struct Weighted {
  const float* values;
  double weight;
};

/// Elements of a part of work: a whole number of chunks of normals.
constexpr std::size_t kPart = 32 * kNormalsPerChunk;

}  // namespace

CorrelatedMechanism::CorrelatedMechanism(const CorrelatedRecipes& recipes, RandomKey noise_key,
                                         Executor& executor)
    : recipes_(recipes), noise_key_(noise_key), executor_(executor), variance_(recipes) {}

/// Before anything changes.
void CorrelatedMechanism::check(const Bounded& sum, double divisor) {
  if (!(divisor > 0.0) || !std::isfinite(divisor)) {
    throw ConfigError("the divisor of the noisy sum is " + format_number(divisor) +
                      ", expected a finite number above 0");
  }
  if (next_step_ == recipes_.steps()) {
    throw PrivacyError("all " + std::to_string(next_step_) + " planned steps were released");
  }
  if (next_step_ == 0) {
    l2_bound_ = sum.l2_bound();
    sum_.assign(sum.size(), 0.0);
  }
  if (sum.l2_bound() != l2_bound_ || sum.size() != sum_.size()) {
    throw PrivacyError("step " + std::to_string(next_step_) + " has " + std::to_string(sum.size()) +
                       " values of bound " + format_number(sum.l2_bound()) + ", the first had " +
                       std::to_string(sum_.size()) + " of bound " + format_number(l2_bound_) +
                       "; correlated noise needs the same in every step");
  }
}

std::vector<float> CorrelatedMechanism::take_buffer(std::size_t size) {
  if (spare_.empty()) return std::vector<float>(size);
  std::vector<float> buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

Released CorrelatedMechanism::release(Bounded sum, Receipt receipt, double divisor) {
  check(sum, divisor);
  const std::uint64_t step = receipt.step();
  if (step != next_step_) {
    // An older step's noise on other data would give itself away; a newer one lacks data between.
    throw PrivacyError("step " + std::to_string(step) + " cannot be released, the next one is " +
                       std::to_string(next_step_));
  }
  if (!(receipt.release() == Event::gaussian(recipes_.own_multiplier(step)))) {
    throw PrivacyError("step " + std::to_string(step) +
                       " was paid for other noise than its recipe asks for");
  }
  ++next_step_;

  const double keep = recipes_.keep(step);
  for (KeptNoise& kept : kept_) kept.carried *= keep;
  std::vector<Weighted> continued;
  for (const auto& [from, share] : recipes_.earlier(step)) {
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [from = from](const auto& kept) { return kept.step == from; });
    continued.push_back({found->z.data(), share * found->carried});
  }
  const bool is_kept = recipes_.last_use(step) > step;
  std::vector<float> z = is_kept ? take_buffer(sum_.size()) : std::vector<float>{};

  std::vector<float> values = TrustBase::take(std::move(sum));  // and then what is released
  std::atomic<bool> is_finite = true;
  const double scale = recipes_.scale(step);
  executor_.for_each_chunk((values.size() + kPart - 1) / kPart, [&](std::size_t part) {
    std::vector<NormalStream> nodes;
    for (const NoiseTerm& term : recipes_.noise(step)) nodes.emplace_back(noise_key_, term.node);
    std::array<float, kNormalsPerChunk> normals{};
    std::array<double, kNormalsPerChunk> noise{};
    const std::size_t end = std::min(values.size(), (part + 1) * kPart);
    for (std::size_t begin = part * kPart; begin < end; begin += kNormalsPerChunk) {
      const std::size_t size = std::min(kNormalsPerChunk, end - begin);
      noise.fill(0.0);
      for (std::size_t j = 0; j < nodes.size(); ++j) {
        nodes[j].fill(begin, std::span(normals).first(size));
        const double multiplier = recipes_.noise(step)[j].multiplier;
        for (std::size_t i = 0; i < size; ++i)
          noise[i] += multiplier * static_cast<double>(normals[i]);
      }
      for (const Weighted& old : continued) {
        for (std::size_t i = 0; i < size; ++i)
          noise[i] += old.weight * static_cast<double>(old.values[begin + i]);
      }
      // What later steps continue is what this one releases, to the last bit, and the same whether
      // or not there are any.
      for (std::size_t i = 0; i < size; ++i)
        noise[i] = static_cast<double>(static_cast<float>(noise[i]));
      if (is_kept) {
        for (std::size_t i = 0; i < size; ++i) z[begin + i] = static_cast<float>(noise[i]);
      }
      for (std::size_t i = 0; i < size; ++i) {
        double& s = sum_[begin + i];
        s = keep * s + static_cast<double>(values[begin + i]);
        values[begin + i] = static_cast<float>(scale * (s + l2_bound_ * noise[i]) / divisor);
      }
      if (!all_finite(std::span(values).subspan(begin, size))) is_finite = false;
    }
  });

  if (is_kept) kept_.push_back({.step = step, .carried = 1.0, .z = std::move(z)});
  forget(step);
  const double stddev = std::fabs(scale) * l2_bound_ * std::sqrt(variance_.next()) / divisor;
  return TrustBase::released(std::move(values), stddev, is_finite);
}

/// What no step after this one continues.
void CorrelatedMechanism::forget(std::uint64_t step) {
  for (std::size_t i = kept_.size(); i-- > 0;) {
    if (recipes_.last_use(kept_[i].step) > step) continue;
    spare_.push_back(std::move(kept_[i].z));
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::size_t CorrelatedMechanism::memory_bytes() const {
  std::size_t floats = 0;
  for (const KeptNoise& kept : kept_) floats += kept.z.capacity();
  for (const std::vector<float>& buffer : spare_) floats += buffer.capacity();
  return floats * sizeof(float) + sum_.capacity() * sizeof(double);
}

Released CorrelatedMechanism::release_without_noise(Bounded sum, double divisor) {
  check(sum, divisor);
  const std::uint64_t step = next_step_++;
  std::vector<float> values = TrustBase::take(std::move(sum));
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum_[i] = recipes_.keep(step) * sum_[i] + static_cast<double>(values[i]);
    values[i] = static_cast<float>(recipes_.scale(step) * sum_[i] / divisor);
  }
  return TrustBase::released(std::move(values), 0.0);
}

}  // namespace privgrad::core
