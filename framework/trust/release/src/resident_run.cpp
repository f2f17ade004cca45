#include "privgrad/trust/resident_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "certified_cells.hpp"
#include "checked_pass.hpp"
#include "gradient_rows.hpp"
#include "microbatches.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

using Cells = ResidentSteps::Cells;
using Numbers = ResidentSteps::Numbers;
using Moved = ResidentSteps::Moved;

constexpr std::size_t kChunk = ResidentSteps::kChunk;
constexpr std::array<Numbers, 3> kNumbers = {Numbers::parameters, Numbers::first_state,
                                             Numbers::second_state};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

bool all_are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

/// Distinct random numbers below `end`, ascending; all of them if there are at most `most`.
std::vector<std::uint64_t> drawn(RandomStream& random, std::uint64_t end, std::size_t most) {
  std::vector<std::uint64_t> numbers;
  if (end <= most) {
    numbers.resize(end);
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    return numbers;
  }
  for (std::size_t i = 0; i < most; ++i) numbers.push_back(random.uniform_below(end));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

ResidentSteps* ResidentRun::ability(Program& program) {
  if (dynamic_cast<ExactClipping*>(&program) == nullptr) return nullptr;
  return dynamic_cast<ResidentSteps*>(&program);
}

ResidentRun::ResidentRun(Program& program, StepRule::Kind kind, const RandomKey& key,
                         std::string who, Executor& executor)
    : program_(program),
      exact_(dynamic_cast<const ExactClipping&>(program)),
      resident_(dynamic_cast<ResidentSteps&>(program)),
      kind_(kind),
      key_(key),
      who_(std::move(who)),
      executor_(executor),
      memory_(resident_.make_memory(state_vectors(kind))) {
  if (memory_ == nullptr) refuse("the program makes no memory for steps");
}

void ResidentRun::refuse(const std::string& what) const { throw PluginError(who_ + ": " + what); }

// ---- the places that are checked

void ResidentRun::draw_sum_places(std::uint64_t step) {
  random_ = make_random_source(key_)->stream(step);
  sum_places_ = drawn(*random_, program_.parameter_count(), kSumPlaces);
}

void ResidentRun::draw_chunks() {
  const std::size_t size = program_.parameter_count();
  chunks_ = drawn(*random_, (size + kChunk - 1) / kChunk, kNoiseChunks);
  elements_.clear();
  for (const std::uint64_t chunk : chunks_) {
    const std::vector<std::uint64_t> own = elements_of(chunk);
    elements_.insert(elements_.end(), own.begin(), own.end());
  }
}

std::vector<std::uint64_t> ResidentRun::elements_of(std::uint64_t chunk) const {
  const std::uint64_t begin = chunk * kChunk;
  std::vector<std::uint64_t> elements(
      std::min<std::uint64_t>(kChunk, program_.parameter_count() - begin));
  std::iota(elements.begin(), elements.end(), begin);
  return elements;
}

/// \returns the cells at these places; a cell that the program leaves unwritten has an unlikely
///   value.
std::vector<std::int64_t> ResidentRun::cells_at(Cells what,
                                                std::span<const std::uint64_t> places) const {
  std::vector<std::int64_t> cells(places.size(), std::numeric_limits<std::int64_t>::min() + 1);
  resident_.cells_at(*memory_, what, places, cells);
  return cells;
}

std::vector<float> ResidentRun::numbers_at(Numbers what,
                                           std::span<const std::uint64_t> places) const {
  std::vector<float> numbers(places.size(), std::numeric_limits<float>::quiet_NaN());
  resident_.numbers_at(*memory_, what, places, numbers);
  return numbers;
}

/// Checks the parameters after a sum was made with them, before its release, and again before their
/// update. Otherwise a program could train a model that was never released, or make two sums with
/// different parameters and the same noise.
void ResidentRun::check_what_is_left() const {
  if (left_.empty()) return;
  if (same_bits(numbers_at(Numbers::parameters, left_places_), left_.front())) return;
  refuse("has other parameters than the last step left");
}

// ---- sums

ResidentSum ResidentRun::sum(std::uint64_t step, const Examples& examples, SumMemory& memory,
                             ContributionCheck* check) {
  const Clip& clip = examples.clip;
  check_clip_norm(clip.clip_norm);
  check_batch(examples.batch, examples.data.rows());
  check_groups(clip, program_);
  const CellGrid grid(clip);
  if (grid.count != 0) throw PrivacyError("a sum that stays with its program has no count");
  has_sum_ = has_release_ = false;
  draw_sum_places(step);
  expected_.assign(sum_places_.size(), 0);
  resident_.clear_sum(*memory_);
  std::size_t first = 0;
  for_each_microbatch(
      exact_, examples.data, examples.batch, executor_, examples.most_rows, memory,
      [&](const Batch& pass, SumMemory& used) {
        const CertifiedCells made = make_cells(exact_, pass, grid, used);
        const std::size_t begin = std::exchange(first, first + pass.rows());
        const bool is_checked = check != nullptr && check->place - begin < pass.rows();
        if (is_checked && all_.empty()) {
          all_.resize(program_.parameter_count());
          std::iota(all_.begin(), all_.end(), std::uint64_t{0});
        }
        std::vector<std::int64_t> before;
        if (is_checked) before = cells_at(Cells::sum, all_);
        resident_.add_to_sum(*used.pass, made.taken, *memory_);
        add_expected(*used.pass, made.taken);
        if (!is_checked) return;
        const ScalesOf scales = [&](std::span<const double> norms, std::span<double> out) {
          grid.scale(norms, out);
        };
        const std::vector<std::int64_t> after = cells_at(Cells::sum, all_);
        check_pass({.program = exact_,
                    .rows = program_,
                    .batch = pass,
                    .first = begin,
                    .most = grid.most,
                    .scales = scales,
                    .memory = used,
                    .groups = clip.groups,
                    .before = before,
                    .after = after},
                   *check);
      });
  check_what_is_left();
  check_sum();
  has_sum_ = true;
  return {clip.clip_norm, examples.batch.size(), ++sums_};
}

/// The trust base's own sum at the checked places, modulo 2^64.
void ResidentRun::add_expected(ExactClipping::Pass& pass, std::span<const std::uint8_t> taken) {
  const std::size_t places = sum_places_.size();
  factors_.assign(taken.size() * places, CellFactors{std::numeric_limits<std::int32_t>::max(), 1});
  resident_.factors_at(pass, sum_places_, factors_);
  for (std::size_t row = 0; row < taken.size(); ++row) {
    if (taken[row] == 0) continue;
    const CellFactors* const own = factors_.data() + row * places;
    for (std::size_t i = 0; i < places; ++i)
      expected_[i] += static_cast<std::uint64_t>(std::int64_t{own[i].left} * own[i].right);
  }
}

void ResidentRun::check_sum() const {
  const std::vector<std::int64_t> found = cells_at(Cells::sum, sum_places_);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (static_cast<std::uint64_t>(found[i]) == expected_[i]) continue;
    refuse("a sum of cells is not that of its examples' cells, at parameter " +
           std::to_string(sum_places_[i]));
  }
}

// ---- releases

void ResidentRun::release(ResidentSum sum, const PaidNoise& noise) {
  if (!has_sum_ || sum.number_ != sums_)
    throw PrivacyError("the program no longer holds the sum to be released");
  if (noise.levels_ != kExactLevels || noise.l2_bound_ != sum.l2_bound_)
    throw PrivacyError("the noise that was paid for is not the noise of this sum");
  has_sum_ = false;
  {
    const NoiseOrder order = TrustBase::noise_order(
        RoundedGaussianStream::own_key(noise.key_, noise.node_), noise.sigma_, noise.shift_);
    make_undecided(resident_.release(*memory_, order), noise);
  }
  draw_chunks();
  check_sum();
  check_noise(noise);
  width_ = noise.width_;
  has_release_ = true;
}

/// A chunk of the release, computed by RoundedGaussianStream.
std::vector<std::int64_t> ResidentRun::released_here(std::uint64_t chunk, const PaidNoise& noise,
                                                     std::span<const std::int64_t> sums) const {
  std::vector<std::int64_t> cells(sums.size());
  RoundedGaussianStream(noise.key_, noise.node_)
      .release(chunk * kChunk, noise.sigma_, noise.shift_, sums, cells);
  return cells;
}

void ResidentRun::make_undecided(std::span<const std::uint64_t> chunks, const PaidNoise& noise) {
  const std::uint64_t end = (program_.parameter_count() + kChunk - 1) / kChunk;
  for (const std::uint64_t chunk : chunks) {
    if (chunk >= end) refuse("leaves open a chunk of noise that does not exist");
    const std::vector<std::int64_t> sums = cells_at(Cells::sum, elements_of(chunk));
    resident_.put_released(*memory_, chunk, released_here(chunk, noise, sums));
  }
}

void ResidentRun::check_noise(const PaidNoise& noise) {
  const std::vector<std::int64_t> sums = cells_at(Cells::sum, elements_);
  released_ = cells_at(Cells::released, elements_);
  std::vector<std::size_t> wrong(chunks_.size(), kChunk);
  executor_.for_each_chunk(chunks_.size(), [&](std::size_t i) {
    // All chunks of the parameters are whole, except the last one, which also comes last here.
    const std::size_t begin = i * kChunk;
    const std::size_t size = std::min(kChunk, elements_.size() - begin);
    const std::vector<std::int64_t> own =
        released_here(chunks_[i], noise, std::span(sums).subspan(begin, size));
    const auto [here, there] = std::mismatch(
        own.begin(), own.end(), released_.begin() + static_cast<std::ptrdiff_t>(begin));
    if (here != own.end()) wrong[i] = static_cast<std::size_t>(here - own.begin());
  });
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (wrong[i] == kChunk) continue;
    refuse("a release does not have the noise that was paid for, at parameter " +
           std::to_string(chunks_[i] * kChunk + wrong[i]));
  }
}

// ---- parameters

/// The parameters and the state at the chunks that are checked.
struct ResidentRun::Seen {
  std::vector<std::vector<float>> numbers;

  void apply(const StepRule& rule, std::span<const float> gradient) {
    numbers.resize(kNumbers.size());
    privgrad::apply(rule, numbers[0], numbers[1], numbers[2], gradient);
  }
};

Moved ResidentRun::update(const StepRule& rule) {
  if (!has_release_) throw PrivacyError("parameters cannot be moved before a release");
  if (rule.kind != kind_) refuse("the optimizer's rule is of another kind than it said");
  has_release_ = false;
  check_what_is_left();
  const std::size_t vectors = 1 + state_vectors(kind_);
  const auto seen = [&] {
    Seen now;
    for (std::size_t i = 0; i < vectors; ++i)
      now.numbers.push_back(numbers_at(kNumbers[i], elements_));
    return now;
  };
  const Seen before = seen();
  const Moved moved = resident_.update(*memory_, rule, width_);
  Seen after = seen();
  if (moved != Moved::yes) {
    if (!same_bits(before.numbers.front(), after.numbers.front()))
      refuse("moved parameters by a step that it refused");
    left_.clear();
    is_ahead_ = true;
    return moved;
  }
  std::vector<float> gradient(elements_.size());
  std::transform(released_.begin(), released_.end(), gradient.begin(), [&](std::int64_t cell) {
    return static_cast<float>(static_cast<double>(cell) * width_);
  });
  Seen expected = before;
  expected.apply(rule, gradient);
  if (!all_are_finite(gradient) || !all_are_finite(expected.numbers.front()))
    refuse("moved parameters to values that are not finite");
  for (std::size_t i = 0; i < vectors; ++i) {
    if (same_bits(expected.numbers[i], after.numbers[i])) continue;
    refuse(std::string("moved ") + (i == 0 ? "parameters" : "the optimizer's state") +
           " against the optimizer's rule");
  }
  left_places_ = elements_;
  left_ = std::move(after.numbers);
  is_ahead_ = true;
  return moved;
}

namespace {

bool holds(std::span<const float> all, std::span<const std::uint64_t> places,
           std::span<const float> left) {
  std::vector<float> found(places.size());
  std::transform(places.begin(), places.end(), found.begin(),
                 [&](std::uint64_t place) { return all[place]; });
  return same_bits(found, left);
}

}  // namespace

void ResidentRun::bring_parameters(std::span<float> out) {
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  resident_.numbers(*memory_, Numbers::parameters, out);
  if (!left_.empty() && !holds(out, left_places_, left_.front()))
    refuse("gave other parameters than the last step left");
  is_ahead_ = false;
}

void ResidentRun::forget_parameters() {
  left_.clear();
  is_ahead_ = false;
}

void ResidentRun::bring_state(std::size_t vector, std::span<float> out) const {
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  resident_.numbers(*memory_, kNumbers[1 + vector], out);
  if (!left_.empty() && !holds(out, left_places_, left_[1 + vector]))
    refuse("gave another state of the optimizer than the last step left");
}

void ResidentRun::put_state(std::size_t vector, std::span<const float> values) {
  resident_.put_numbers(*memory_, kNumbers[1 + vector], values);
}

}  // namespace privgrad::core
