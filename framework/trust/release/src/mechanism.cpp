#include "privgrad/trust/mechanism.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "paid_key.hpp"
#include "parts.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/normals.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/value.hpp"
#include "privgrad/wide_registers.hpp"
#include "rounded_release.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

static_assert(kMostNoiseWindow + 1 == kMostNoiseTerms);

/// Standard deviation of the recipe's noise, in units of the L2 bound; its nodes must be distinct.
double combined_multiplier(const ReleaseRecipe& recipe) {
  double squares = 0.0;
  for (const NoiseTerm& term : recipe.noise) squares += term.multiplier * term.multiplier;
  return std::sqrt(squares);
}

void check_divisor(double divisor) {
  if (divisor > 0.0 && std::isfinite(divisor)) return;
  throw ConfigError("the divisor of the noisy sum is " + format_number(divisor) +
                    ", expected a finite number above 0");
}

bool is_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
  return (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
}

/// Returns the product, rounded up so that the noise is never less than was paid for. The product
/// is exact if b is a power of two, like the levels of exact_sum().
double product_up(double a, double b) {
  const double product = a * b;
  return std::fma(a, b, -product) > 0.0
             ? std::nextafter(product, std::numeric_limits<double>::infinity())
             : product;
}

/// Computes (x + l2_bound sum_j multiplier_j zeta(node_j)) / divisor, for at least one term, in
/// chunks of elements. One object per task.
class NoisePart {
 public:
  NoisePart(const std::vector<NoiseTerm>& terms, const RandomKey& key) : terms_(terms) {
    for (const NoiseTerm& term : terms) nodes_.emplace_back(key, term.node);
  }

  /// \param values  elements [begin, begin + size) of x, replaced by the result; size at most
  ///   kNormalsPerChunk.
  /// \returns whether all results are finite.
  bool add(std::size_t begin, double l2_bound, double divisor, std::span<float> values) {
    const std::size_t size = values.size();
    const double inverse = 1.0 / divisor;
    float* x = values.data();
    const float* normal = normals_.data();
    double* others = others_.data();
    for (std::size_t j = 0; j + 1 < terms_.size(); ++j) {
      const double stddev = draw(j, begin, size, l2_bound);
      in_wide_registers([=] {
        for (std::size_t i = 0; i < size; ++i)
          others[i] = (j == 0 ? 0.0 : others[i]) + stddev * normal[i];
      });
    }
    const double stddev = draw(terms_.size() - 1, begin, size, l2_bound);
    std::uint32_t bad = 0;
    std::uint32_t* any_bad = &bad;
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) {
        x[i] = static_cast<float>((x[i] + (others[i] + stddev * normal[i])) * inverse);
        *any_bad |= is_finite(x[i]) ? 0u : 1u;
      }
    });
    return bad == 0;
  }

 private:
  /// Draws elements [begin, begin + size) of a term's normals.
  /// \returns the factor to multiply them by.
  double draw(std::size_t term, std::size_t begin, std::size_t size, double l2_bound) {
    nodes_[term].fill(begin, std::span(normals_).first(size));
    return product_up(l2_bound, terms_[term].multiplier);
  }

  const std::vector<NoiseTerm>& terms_;
  std::vector<NormalStream> nodes_;  // one per term
  std::array<float, kNormalsPerChunk> normals_{};
  std::array<double, kNormalsPerChunk> others_{};  // the sum of all terms but the last; 0 if
                                                   // there is one term
};

}  // namespace

namespace {

/// \throws PrivacyError if the recipe keeps, continues or scales something, or has no finite noise.
///   Does not check whether other terms use the same nodes.
Event independent_event(const ReleaseRecipe& recipe, std::uint64_t step) {
  const auto refuse = [&](const std::string& why) {
    throw PrivacyError("step " + std::to_string(step) + " " + why +
                       ": correlated releases are accounted by who takes part in which step");
  };
  if (recipe.keep != 0.0) refuse("releases data of earlier steps again");
  if (!recipe.earlier.empty()) refuse("continues noise of earlier steps");
  if (recipe.scale != 1.0) refuse("is scaled");
  const double multiplier = combined_multiplier(recipe);
  if (!(multiplier > 0.0) || !std::isfinite(multiplier)) {
    throw PrivacyError("step " + std::to_string(step) + " has a noise multiplier of " +
                       format_number(multiplier) +
                       ", which protects nothing; expected a finite number above 0");
  }
  return Event::gaussian(multiplier);
}

}  // namespace

std::vector<Event> release_events(const Aggregator& aggregator, std::uint64_t steps) {
  std::vector<Event> events;
  events.reserve(steps);
  std::unordered_set<std::uint64_t> used;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ReleaseRecipe recipe = aggregator.recipe(step);
    // Composition of Gaussian mechanisms needs noise that is independent between releases. If a
    // node is repeated, its noise cancels or averages out, and adding up the costs means nothing.
    for (const NoiseTerm& term : recipe.noise) {
      if (used.insert(term.node).second) continue;
      throw PrivacyError("step " + std::to_string(step) + " uses noise node " +
                         std::to_string(term.node) +
                         " again: correlated releases are accounted by who takes part in which "
                         "step");
    }
    events.push_back(independent_event(recipe, step));
  }
  return events;
}

Event release_event(const Aggregator& aggregator, std::uint64_t step) {
  return independent_event(aggregator.recipe(step), step);
}

Mechanism::Mechanism(const Aggregator& aggregator, RandomKey noise_key, Executor& executor,
                     const CorrelatedRecipes* windowed)
    : aggregator_(aggregator), noise_key_(noise_key), executor_(executor), windowed_(windowed) {}

ReleaseRecipe Mechanism::recipe_of(std::uint64_t step) const {
  if (windowed_ == nullptr) return aggregator_.recipe(step);
  const auto terms = windowed_->noise(step);
  return {.noise = {terms.begin(), terms.end()}};
}

/// Returns the recipe of the receipt's step, after checking that it was paid for and can be run.
/// The step and its nodes are used up.
ReleaseRecipe Mechanism::claim(const Receipt& receipt) {
  const std::uint64_t step = receipt.step();
  if (step < next_step_) {
    // The difference of two releases with the same noise node would have no noise.
    throw PrivacyError("step " + std::to_string(step) +
                       " was released before; its noise must not be used again");
  }
  if (windowed_ != nullptr && step != next_step_) {
    throw PrivacyError("step " + std::to_string(step) + " cannot be released, the next one is " +
                       std::to_string(next_step_) +
                       ": its noise is that of the steps before it, too");
  }
  ReleaseRecipe recipe = recipe_of(step);
  const Event asked = Event::gaussian(windowed_ == nullptr ? combined_multiplier(recipe)
                                                           : windowed_->own_multiplier(step));
  if (recipe.keep != 0.0 || !recipe.earlier.empty() || recipe.scale != 1.0 ||
      !(receipt.release() == asked)) {
    throw PrivacyError("step " + std::to_string(step) +
                       " was paid for other noise than its recipe asks for");
  }
  // The aggregator may name different nodes now than during planning, and the noise of a repeated
  // node would cancel between two releases. With a window the aggregator is not asked again.
  if (windowed_ == nullptr) {
    for (const NoiseTerm& term : recipe.noise) {
      if (used_nodes_.insert(term.node).second) continue;
      throw PrivacyError("step " + std::to_string(step) + " uses noise node " +
                         std::to_string(term.node) + " again");
    }
  }
  next_step_ = step + 1;
  return recipe;
}

void Mechanism::save(StateWriter& out) const {
  out.begin("mechanism");
  out.word(next_step_);
  std::vector<std::uint64_t> nodes(used_nodes_.begin(), used_nodes_.end());
  std::sort(nodes.begin(), nodes.end());
  out.array(nodes);
  out.put(kept_);
}

void Mechanism::restore(StateReader& in) {
  in.begin("mechanism");
  next_step_ = in.word();
  const std::vector<std::uint64_t> nodes = in.array<std::uint64_t>();
  used_nodes_ = {nodes.begin(), nodes.end()};
  in.get(kept_);
  const std::uint64_t window = windowed_ == nullptr ? 0 : windowed_->window();
  if (kept_.size() != std::min(window, next_step_)) in.fail("it has the noise of another window");
  for (std::uint64_t age = 1; age <= kept_.size(); ++age) {
    if (kept_[age - 1].node != windowed_->noise(next_step_ - age).front().node)
      in.fail("it has the noise of other steps");
  }
}

Released Mechanism::release(Bounded sum, Receipt receipt, double divisor) {
  check_divisor(divisor);
  if (windowed_ != nullptr)
    throw PrivacyError("noise of earlier steps is added again only to sums on the grid");
  const ReleaseRecipe recipe = claim(receipt);
  const double multiplier = combined_multiplier(recipe);
  const double l2_bound = sum.l2_bound();
  const RandomKey key = key_of(receipt, l2_bound, recipe);
  std::vector<float> values = TrustBase::take(std::move(sum));
  std::atomic<bool> is_finite = true;
  for_each_part(values.size(), executor_, [&](std::size_t begin, std::size_t end) {
    NoisePart noise(recipe.noise, key);
    for (; begin < end; begin += kNormalsPerChunk) {
      const auto part = std::span(values).subspan(begin, std::min(kNormalsPerChunk, end - begin));
      if (!noise.add(begin, l2_bound, divisor, part)) is_finite = false;
    }
  });
  return TrustBase::released(std::move(values), l2_bound * multiplier / divisor, is_finite);
}

Released Mechanism::release(BoundedOnGrid sum, Receipt receipt, double divisor) {
  check_divisor(divisor);
  const ReleaseRecipe recipe = claim(receipt);
  const RandomKey key = key_of(receipt, sum.l2_bound(), recipe);
  const Cells cells{sum.levels(), sum.cell_width(), sum.l2_bound()};
  return rounded_noise(key, recipe, cells, divisor).release(std::move(sum), 0, executor_);
}

PaidNoise Mechanism::pay_for_noise(double l2_bound, Receipt receipt, double divisor) {
  check_divisor(divisor);
  const ReleaseRecipe recipe = claim(receipt);
  return rounded_noise(key_of(receipt, l2_bound, recipe), recipe,
                       {kExactLevels, l2_bound / static_cast<double>(kExactLevels), l2_bound},
                       divisor);
}

RandomKey Mechanism::key_of(const Receipt& receipt, double l2_bound,
                            const ReleaseRecipe& recipe) const {
  if (!follows_payment_) return noise_key_;
  const RandomKey paid = key_of_paid(noise_key_, receipt.release(), l2_bound);
  if (windowed_ == nullptr) return paid;
  // The release also depends on the amount of older noise that it adds, which the payment does not
  // contain.
  std::string older = "after\n";
  for (const Kept& kept : kept_) {
    const auto bytes = kept.key.secret_bytes();
    older.append(bytes.begin(), bytes.end());
  }
  for (const NoiseTerm& term : recipe.noise) {
    older += std::to_string(term.node) + " " +
             std::to_string(std::bit_cast<std::uint64_t>(term.multiplier)) + "\n";
  }
  return paid.derive(older);
}

PaidNoise Mechanism::rounded_noise(const RandomKey& key, const ReleaseRecipe& recipe,
                                   const Cells& cells, double divisor) {
  const double multiplier = combined_multiplier(recipe);
  PaidNoise noise(key);
  noise.node_ = recipe.noise.front().node;
  noise.levels_ = cells.levels;
  noise.sigma_ = product_up(windowed_ == nullptr ? multiplier : recipe.noise.front().multiplier,
                            static_cast<double>(cells.levels));
  double size = noise.sigma_;
  if (windowed_ != nullptr) {
    if (cells.levels != kExactLevels)
      throw PrivacyError("noise of earlier steps is added again only on the grid of exact sums");
    for (const NoiseTerm& term : std::span(recipe.noise).subspan(1)) {
      const auto found = std::find_if(kept_.begin(), kept_.end(),
                                      [&](const Kept& kept) { return kept.node == term.node; });
      if (found == kept_.end()) {
        throw PrivacyError("noise node " + std::to_string(term.node) +
                           " of an earlier step was not drawn, or is forgotten");
      }
      noise.older_.push_back({found->key, term.multiplier * static_cast<double>(cells.levels)});
      size += std::fabs(noise.older_.back().sigma);
    }
    kept_.insert(kept_.begin(), {noise.node_, RoundedGaussianStream::own_key(key, noise.node_)});
    if (kept_.size() > windowed_->window()) kept_.pop_back();
  }
  noise.shift_ = release_shift(size);
  noise.l2_bound_ = cells.l2_bound;
  noise.width_ = std::ldexp(cells.width, static_cast<int>(noise.shift_)) / divisor;
  noise.stddev_ = cells.l2_bound * multiplier / divisor;
  return noise;
}

Released PaidNoise::release(BoundedOnGrid part, std::size_t first, Executor& executor) const {
  if (part.levels() != levels_ || part.l2_bound() != l2_bound_)
    throw PrivacyError("the noise that was paid for is not the noise of this sum");
  auto [cells, deferred] = TrustBase::take_parts(std::move(part));
  std::vector<RoundedTerm> further;
  for (const Older& older : older_) further.push_back({older.key, older.sigma});
  RoundedRelease released =
      release_rounded(std::move(cells), std::move(deferred),
                      {key_, node_, sigma_, shift_, width_, first, std::move(further)}, executor);
  return TrustBase::released(std::move(released.values), released.size, stddev_,
                             released.is_finite);
}

std::string PaidNoise::secret_text() const {
  StateWriter out;
  out.begin("paid noise");
  out.put(key_);
  out.put(numbers(*this));
  out.put(older_);
  return out.text();
}

PaidNoise PaidNoise::of(std::string_view secret_text) {
  StateReader in(secret_text, "the noise that process 0 has paid for");
  in.begin("paid noise");
  PaidNoise noise(in.key());
  in.get(numbers(noise));
  in.get(noise.older_);
  in.end();
  return noise;
}

Released Mechanism::release_without_noise(BoundedOnGrid sum, double divisor) {
  check_divisor(divisor);
  const double width = sum.cell_width() / divisor;
  const std::vector<std::int64_t> cells = TrustBase::take(std::move(sum));
  std::vector<float> values(cells.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(cells[i]) * width);
  return TrustBase::released(std::move(values), 0.0);
}

Released Mechanism::release_without_noise(Bounded sum, double divisor) {
  check_divisor(divisor);
  std::vector<float> values = TrustBase::take(std::move(sum));
  const double inverse = 1.0 / divisor;
  for (float& value : values) value = static_cast<float>(value * inverse);
  return TrustBase::released(std::move(values), 0.0);
}

namespace {

/// Divides by the gradient share: post-processing.
Released stretched(std::span<const float> values, double noise_stddev, double count_share) {
  const double stretch = 1.0 / gradient_share(count_share);
  std::vector<float> gradients(values.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(stretch * static_cast<double>(values[i]));
  }
  return TrustBase::released(std::move(gradients), stretch * noise_stddev);
}

}  // namespace

JointParts take_apart(const Released& joint, double l2_bound, double count_share) {
  const std::span<const float> values = joint.values();
  // Examples within the bound count +1/2, the others -1/2.
  const double balance = static_cast<double>(values.back()) / (2.0 * count_share * l2_bound);
  return {stretched(values.first(values.size() - 1), joint.noise_stddev(), count_share),
          balance + 0.5};
}

Released gradients_of(const Released& joint, double count_share) {
  return stretched(joint.values(), joint.noise_stddev(), count_share);
}

}  // namespace privgrad::core
