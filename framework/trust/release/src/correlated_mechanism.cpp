#include "privgrad/trust/correlated_mechanism.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "exact_part.hpp"
#include "paid_key.hpp"
#include "parts.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/normals.hpp"
#include "privgrad/value.hpp"
#include "privgrad/wide_registers.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

struct Weighted {
  const float* values;
  double weight;
};

[[noreturn]] void throw_mixed() {
  throw PrivacyError(
      "a run's sums are all on the grid or all in floating point: running sums of both are two");
}

/// Returns m, the largest noise multiplier of any step's own nodes.
double most_noise(const CorrelatedRecipes& recipes) {
  double most = 0.0;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step)
    most = std::max(most, recipes.own_multiplier(step));
  return most;
}

/// The noise of a chunk of a step's elements, and the release of the chunk.
class NewNoise {
 public:
  void clear() { noise_.fill(0.0); }

  void add(NormalStream& node, std::size_t begin, std::size_t size, double multiplier) {
    node.fill(begin, std::span(normals_).first(size));
    add(normals_.data(), size, multiplier);
  }

  void add(const float* values, std::size_t size, double weight) {
    double* noise = noise_.data();
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) noise[i] += weight * static_cast<double>(values[i]);
    });
  }

  /// Computes s = keep s + x, then x = factor (s + unit z).
  /// \param z  out: the noise, for later steps; null if no later step continues it.
  void release(std::span<float> x, double* s, float* z, double keep, double unit, double factor) {
    // Later steps continue exactly these rounded values. This step uses them even if no later step
    // continues it, so its release has the same bits in both cases.
    float* rounded = z != nullptr ? z : normals_.data();
    const double* noise = noise_.data();
    float* values = x.data();
    const std::size_t size = x.size();
    in_wide_registers([=] {
      for (std::size_t i = 0; i < size; ++i) rounded[i] = static_cast<float>(noise[i]);
      for (std::size_t i = 0; i < size; ++i) {
        const double sum = keep * s[i] + static_cast<double>(values[i]);
        s[i] = sum;
        values[i] = static_cast<float>(factor * (sum + unit * static_cast<double>(rounded[i])));
      }
    });
  }

 private:
  std::array<float, kNormalsPerChunk> normals_{};
  std::array<double, kNormalsPerChunk> noise_{};
};

}  // namespace

CorrelatedMechanism::Part::Part(const CorrelatedRecipes& the_recipes, std::uint64_t the_first_step,
                                std::span<const double> the_bounds, RandomKey the_key)
    : recipes(the_recipes),
      first_step(the_first_step),
      bounds(the_bounds),
      key(the_key),
      variance(the_recipes) {}

CorrelatedMechanism::Part::~Part() = default;
CorrelatedMechanism::Part::Part(Part&&) noexcept = default;
CorrelatedMechanism::~CorrelatedMechanism() = default;

namespace {

double noise_factor_of(std::span<const CorrelatedRecipes* const> parts,
                       const ExactPart::Size& size) {
  double squares = 0.0;
  for (const CorrelatedRecipes* recipes : parts) {
    const double error = ExactPart::relative_error(*recipes, size);
    squares += error * error;
  }
  if (squares == 0.0) return 1.0;
  // Covers the rounding of the noise that is multiplied by this factor, and of the factor itself.
  constexpr double kRoundings = 1.0 + 0x1p-50;
  return (1.0 + std::sqrt(squares) * most_noise(*parts.front())) * kRoundings;
}

}  // namespace

double exact_noise_factor(std::span<const CorrelatedPart> parts, std::size_t parameters,
                          std::uint64_t most_rows) {
  std::vector<const CorrelatedRecipes*> recipes;
  for (const CorrelatedPart& part : parts) recipes.push_back(&part.recipes);
  return noise_factor_of(recipes, {parameters, most_rows});
}

CorrelatedMechanism::CorrelatedMechanism(const CorrelatedRecipes& recipes, RandomKey noise_key,
                                         Executor& executor, std::uint64_t most_rows)
    : executor_(executor), noise_key_(noise_key), steps_(recipes.steps()), most_rows_(most_rows) {
  parts_.emplace_back(recipes, 0, std::span<const double>{}, noise_key);
}

namespace {

/// Derives separate keys, because the same node in two parts means different noise.
RandomKey key_of_part(const RandomKey& noise_key, std::size_t part) {
  return part == 0 ? noise_key : noise_key.derive("part " + std::to_string(part));
}

}  // namespace

CorrelatedMechanism::CorrelatedMechanism(std::span<const CorrelatedPart> parts, RandomKey noise_key,
                                         Executor& executor, std::uint64_t most_rows,
                                         std::optional<Slice> slice)
    : executor_(executor),
      noise_key_(noise_key),
      steps_(parts.front().recipes.steps()),
      most_rows_(most_rows),
      slice_(slice) {
  // The first part's sum is the unit of all bounds, so further bounds on it could not be checked.
  if (!parts.front().bounds.empty() || parts.front().first_step != 0) {
    throw ConfigError(
        "the first part of a release is the unit of the others; it begins with the run, and has no "
        "bounds");
  }
  for (const CorrelatedPart& part : parts) {
    parts_.emplace_back(part.recipes, part.first_step, part.bounds,
                        key_of_part(noise_key, parts_.size()));
  }
}

namespace {

/// Whether a sum is within its planned bound, in units of the first sum's bound.
bool keeps_to(const Bounded& sum, double bound, double unit) {
  return sum.l2_bound() <= bound * unit;
}

bool has_room(const Bounded&, std::uint64_t) { return true; }

bool has_room(const BoundedOnGrid& sum, std::uint64_t most_rows) { return sum.rows() <= most_rows; }

bool keeps_to(const BoundedOnGrid& sum, double bound, double) {
  return static_cast<double>(sum.levels()) <= bound * static_cast<double>(kExactLevels);
}

}  // namespace

/// Checks a step's sums and divisor; called before anything changes.
template <class Sum>
void CorrelatedMechanism::check(std::span<const Sum> sums, double divisor) const {
  if (!(divisor > 0.0) || !std::isfinite(divisor)) {
    throw ConfigError("the divisor of the noisy sum is " + format_number(divisor) +
                      ", expected a finite number above 0");
  }
  if (next_step_ == steps_) {
    throw PrivacyError("all " + std::to_string(next_step_) + " planned steps were released");
  }
  const auto active =
      static_cast<std::size_t>(std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) {
        return part.first_step <= next_step_;
      }));
  if (sums.size() != active) {
    throw PrivacyError("step " + std::to_string(next_step_) + " has " +
                       std::to_string(sums.size()) + " sums, its recipes ask for " +
                       std::to_string(active));
  }
  for (const Sum& sum : sums) {
    if (has_room(sum, most_rows_)) continue;
    throw PrivacyError("step " + std::to_string(next_step_) +
                       " is the sum of more than the planned " + std::to_string(most_rows_) +
                       " examples");
  }
  const double unit = next_step_ == 0 ? sums.front().l2_bound() : unit_;
  const std::size_t size = slice_ ? slice_->size : next_step_ == 0 ? sums.front().size() : size_;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double bound = parts_[i].bound(next_step_ - parts_[i].first_step);
    // The first sum's bound must stay equal to the unit; the bounds of other sums may be smaller
    // than planned.
    const bool fits = keeps_to(sums[i], bound, unit) && (i != 0 || sums[i].l2_bound() == unit);
    if (fits && sums[i].size() == size) continue;
    throw PrivacyError(
        "step " + std::to_string(next_step_) + " has " + std::to_string(sums[i].size()) +
        " values of bound " + format_number(sums[i].l2_bound()) +
        (i == 0 ? ", the first had " : ", planned are ") + std::to_string(size) + " of bound " +
        format_number(bound * unit) + "; correlated noise needs the same in every step");
  }
}

void CorrelatedMechanism::begin(std::span<const Bounded> sums) {
  if (parts_.front().exact != nullptr) throw_mixed();
  if (next_step_ == 0) {
    unit_ = sums.front().l2_bound();
    size_ = sums.front().size();
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (parts_[i].sum.empty()) parts_[i].sum.assign(size_, 0.0);
  }
}

void CorrelatedMechanism::begin(std::span<const BoundedOnGrid> sums) {
  if (next_step_ != 0) return;
  unit_ = sums.front().l2_bound();
  size_ = sums.front().size();
  make_exact_parts();
}

void CorrelatedMechanism::make_exact_parts() {
  std::vector<const CorrelatedRecipes*> recipes;
  for (const Part& part : parts_) recipes.push_back(&part.recipes);
  const ExactPart::Size size{whole_size(), most_rows_};
  const double factor = noise_factor_of(recipes, size);
  if (!(factor <= kLargestNoiseFactor)) {
    throw PrivacyError("exact arithmetic would need " + format_number(factor) +
                       " times the noise of these recipes; use aggregator.arithmetic: float");
  }
  for (Part& part : parts_) {
    part.exact = ExactPart::make(part.recipes, size, part.key, factor,
                                 slice_.value_or(Slice{0, size_, size_}));
  }
}

void CorrelatedMechanism::use_key(const RandomKey& noise_key) {
  noise_key_ = noise_key;
  follows_payment_ = true;
}

std::string CorrelatedMechanism::secret_key() const {
  StateWriter out;
  out.begin("correlated noise");
  out.put(noise_key_, follows_payment_);
  return out.text();
}

void CorrelatedMechanism::use_secret_key(std::string_view secret_key) {
  StateReader in(secret_key, "the noise that process 0 has paid for");
  in.begin("correlated noise");
  noise_key_ = in.key();
  follows_payment_ = in.flag();
  in.end();
  draw_with(noise_key_);
}

void CorrelatedMechanism::draw_with(const RandomKey& key) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].key = key_of_part(key, i);
    if (parts_[i].exact != nullptr) parts_[i].exact->use_key(parts_[i].key);
  }
}

void CorrelatedMechanism::save(StateWriter& out) const {
  out.begin("correlated mechanism");
  out.word(next_step_);
  out.real(unit_);
  out.word(whole_size());
  out.word(parts_.size());
  for (const Part& part : parts_) {
    out.put(part.exact != nullptr);
    if (part.exact != nullptr) {
      part.exact->save(out);
      continue;
    }
    out.put(part.sum, part.kept);
  }
}

void CorrelatedMechanism::restore(StateReader& in) {
  in.begin("correlated mechanism");
  next_step_ = in.word();
  unit_ = in.real();
  size_ = in.word();
  if (next_step_ > steps_ || in.word() != parts_.size()) in.fail("it is of other recipes");
  if (slice_ && next_step_ > 0) {
    if (size_ != slice_->of) in.fail("its sums have another length");
    size_ = slice_->size;
    in.cut_to(*slice_);
  }
  for (Part& part : parts_) {
    const bool is_exact = in.flag();
    if (is_exact && parts_.front().exact == nullptr) make_exact_parts();
    for (std::uint64_t step = part.first_step; step < next_step_; ++step) part.variance.next();
    if (is_exact) {
      part.exact->restore(in);
      continue;
    }
    in.get(part.sum, part.kept);
    if (!part.sum.empty() && part.sum.size() != size_) in.fail("a sum has another length");
    for (const KeptNoise& kept : part.kept) {
      if (kept.z.size() != size_) in.fail("kept noise has another length");
    }
  }
}

std::vector<float> CorrelatedMechanism::Part::take_buffer() {
  if (spare.empty()) return std::vector<float>(sum.size());
  std::vector<float> buffer = std::move(spare.back());
  spare.pop_back();
  return buffer;
}

bool CorrelatedMechanism::pays_for(const Event& paid, std::uint64_t step) const {
  std::vector<Event> releases;
  for (const Part& part : parts_) {
    if (step < part.first_step) continue;
    releases.push_back(Event::gaussian(part.recipes.own_multiplier(step - part.first_step)));
  }
  if (releases.size() == 1) return paid == releases.front();
  return paid == Event::composed(std::move(releases));
}

template <class Sum>
std::vector<Released> CorrelatedMechanism::release_all(std::vector<Sum> sums,
                                                       const Receipt& receipt, double divisor) {
  check(std::span<const Sum>(sums), divisor);
  const std::uint64_t step = receipt.step();
  if (step != next_step_) {
    // A repeated step with other data would reveal its noise; a skipped step's data would be
    // missing.
    throw PrivacyError("step " + std::to_string(step) + " cannot be released, the next one is " +
                       std::to_string(next_step_));
  }
  if (!pays_for(receipt.release(), step)) {
    throw PrivacyError("step " + std::to_string(step) +
                       " was paid for other noise than its recipe asks for");
  }
  begin(std::span<const Sum>(sums));
  if (follows_payment_) draw_with(key_of_paid(noise_key_, receipt.release(), unit_));
  ++next_step_;
  std::vector<Released> released;
  for (std::size_t i = 0; i < sums.size(); ++i)
    released.push_back(noised(parts_[i], step, std::move(sums[i]), divisor));
  return released;
}

namespace {

template <class Sum>
std::vector<Sum> one(Sum sum) {
  std::vector<Sum> sums;
  sums.push_back(std::move(sum));
  return sums;
}

}  // namespace

std::vector<Released> CorrelatedMechanism::release(std::vector<Bounded> sums, Receipt receipt,
                                                   double divisor) {
  return release_all(std::move(sums), receipt, divisor);
}

Released CorrelatedMechanism::release(Bounded sum, Receipt receipt, double divisor) {
  return std::move(release_all(one(std::move(sum)), receipt, divisor).front());
}

std::vector<Released> CorrelatedMechanism::release(std::vector<BoundedOnGrid> sums, Receipt receipt,
                                                   double divisor) {
  return release_all(std::move(sums), receipt, divisor);
}

Released CorrelatedMechanism::release(BoundedOnGrid sum, Receipt receipt, double divisor) {
  return std::move(release_all(one(std::move(sum)), receipt, divisor).front());
}

Released CorrelatedMechanism::noised(Part& part, std::uint64_t step_of_run, BoundedOnGrid sum,
                                     double divisor) {
  if (part.exact == nullptr) throw_mixed();
  const std::uint64_t step = step_of_run - part.first_step;
  const double width = unit_ / static_cast<double>(kExactLevels) / divisor;
  std::vector<float> values(sum.size());
  part.exact->release(step, TrustBase::take(std::move(sum)), width, values, executor_);
  const double scale = std::fabs(part.recipes.scale(step));
  const double stddev = scale * unit_ * std::sqrt(part.variance.next()) / divisor;
  const bool is_finite = all_finite(values);
  return TrustBase::released(std::move(values), stddev, is_finite);
}

Released CorrelatedMechanism::noised(Part& part, std::uint64_t step_of_run, Bounded sum,
                                     double divisor) {
  const CorrelatedRecipes& recipes = part.recipes;
  const std::uint64_t step = step_of_run - part.first_step;
  const double keep = recipes.keep(step);
  for (KeptNoise& kept : part.kept) kept.carried *= keep;
  std::vector<Weighted> continued;
  for (const auto& [from, share] : recipes.earlier(step)) {
    const auto found = std::find_if(part.kept.begin(), part.kept.end(),
                                    [from = from](const auto& kept) { return kept.step == from; });
    if (found == part.kept.end()) {
      // Without that step's noise, this release would reveal data.
      throw PrivacyError("step " + std::to_string(step_of_run) + " continues the noise of step " +
                         std::to_string(part.first_step + from) + ", which was released without");
    }
    continued.push_back({found->z.data(), share * found->carried});
  }
  const bool is_kept = recipes.last_use(step) > step;
  std::vector<float> z = is_kept ? part.take_buffer() : std::vector<float>{};

  std::vector<float> values = TrustBase::take(std::move(sum));  // becomes the released values
  std::atomic<bool> is_finite = true;
  const double scale = recipes.scale(step);
  const double factor = scale / divisor;
  for_each_part(values.size(), executor_, [&](std::size_t begin, std::size_t end) {
    std::vector<NormalStream> nodes;
    for (const NoiseTerm& term : recipes.noise(step)) nodes.emplace_back(part.key, term.node);
    NewNoise noise;
    for (; begin < end; begin += kNormalsPerChunk) {
      const std::size_t size = std::min(kNormalsPerChunk, end - begin);
      const std::span<float> x(values.data() + begin, size);
      fetch(x.data(), size);
      fetch(part.sum.data() + begin, size);
      for (const Weighted& old : continued) fetch(old.values + begin, size);
      if (is_kept) fetch(z.data() + begin, size);
      noise.clear();
      for (std::size_t j = 0; j < nodes.size(); ++j)
        noise.add(nodes[j], begin, size, recipes.noise(step)[j].multiplier);
      for (const Weighted& old : continued) noise.add(old.values + begin, size, old.weight);
      noise.release(x, part.sum.data() + begin, is_kept ? z.data() + begin : nullptr, keep, unit_,
                    factor);
      if (!all_finite(x)) is_finite = false;
    }
  });

  if (is_kept) part.kept.push_back({.step = step, .carried = 1.0, .z = std::move(z)});
  part.forget(step);
  const double stddev = std::fabs(scale) * unit_ * std::sqrt(part.variance.next()) / divisor;
  return TrustBase::released(std::move(values), stddev, is_finite);
}

/// Drops noise that no later step continues.
void CorrelatedMechanism::Part::forget(std::uint64_t step) {
  for (std::size_t i = kept.size(); i-- > 0;) {
    if (recipes.last_use(kept[i].step) > step) continue;
    spare.push_back(std::move(kept[i].z));
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::size_t CorrelatedMechanism::memory_bytes() const {
  std::size_t floats = 0;
  std::size_t doubles = 0;
  std::size_t exact = 0;
  for (const Part& part : parts_) {
    if (part.exact != nullptr) exact += part.exact->memory_bytes();
    for (const KeptNoise& kept : part.kept) floats += kept.z.capacity();
    for (const std::vector<float>& buffer : part.spare) floats += buffer.capacity();
    doubles += part.sum.capacity();
  }
  return floats * sizeof(float) + doubles * sizeof(double) + exact;
}

std::vector<Released> CorrelatedMechanism::release_without_noise(std::vector<Bounded> sums,
                                                                 double divisor) {
  check(std::span<const Bounded>(sums), divisor);
  begin(std::span<const Bounded>(sums));
  const std::uint64_t step = next_step_++;
  std::vector<Released> released;
  for (std::size_t i = 0; i < sums.size(); ++i)
    released.push_back(exact(parts_[i], step, std::move(sums[i]), divisor));
  return released;
}

Released CorrelatedMechanism::release_without_noise(Bounded sum, double divisor) {
  return std::move(release_without_noise(one(std::move(sum)), divisor).front());
}

Released CorrelatedMechanism::exact(Part& part, std::uint64_t step_of_run, Bounded sum,
                                    double divisor) {
  const std::uint64_t step = step_of_run - part.first_step;
  std::vector<float> values = TrustBase::take(std::move(sum));
  for (std::size_t i = 0; i < values.size(); ++i) {
    part.sum[i] = part.recipes.keep(step) * part.sum[i] + static_cast<double>(values[i]);
    values[i] = static_cast<float>(part.recipes.scale(step) * part.sum[i] / divisor);
  }
  return TrustBase::released(std::move(values), 0.0);
}

Released combined(UsesGradientDifferences& aggregator, std::uint64_t step,
                  std::span<const Released> parts, double noise_stddev) {
  std::vector<float> values(parts.front().values().size());
  aggregator.combine(step, parts[0].values(), parts[1].values(),
                     parts.size() > 2 ? parts[2].values() : std::span<const float>{}, values);
  return TrustBase::released(std::move(values), noise_stddev);
}

}  // namespace privgrad::core
