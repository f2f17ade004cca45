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
#include "privgrad/finite.hpp"
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

const std::vector<std::uint64_t> kNoPlaces;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// Draws `most` random numbers below `end`; returns the distinct ones, ascending. Returns all
/// numbers if `end` is not larger.
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

const HasClipRule* ResidentRun::ability(const Clipping& clipping) {
  return dynamic_cast<const HasClipRule*>(&clipping);
}

ResidentRun::ResidentRun(Program& program, const Dataset& data, StepRule::Kind kind,
                         const RandomKey& key, std::string who, Executor& executor)
    : program_(program),
      data_(data),
      exact_(dynamic_cast<const ExactClipping&>(program)),
      resident_(dynamic_cast<ResidentSteps&>(program)),
      kind_(kind),
      key_(key),
      who_(std::move(who)),
      executor_(executor),
      memory_(resident_.make_memory(state_vectors(kind), data)) {
  if (memory_ == nullptr) refuse("the program makes no memory for steps");
}

void ResidentRun::refuse(const std::string& what) const { throw PluginError(who_ + ": " + what); }

// ---- the places that are checked

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

/// Requests the cells at these places; a cell that the program does not write keeps an unlikely
/// value.
/// \returns memory that the program fills until settle().
std::vector<std::int64_t> ResidentRun::begin_cells_at(Cells what,
                                                      std::span<const std::uint64_t> places) const {
  std::vector<std::int64_t> cells(places.size(), std::numeric_limits<std::int64_t>::min() + 1);
  resident_.cells_at(*memory_, what, places, cells);
  return cells;
}

/// Like begin_cells_at(), for the parameters and each vector of the state.
std::vector<std::vector<float>> ResidentRun::begin_numbers_at(
    std::span<const std::uint64_t> places) const {
  std::vector<std::vector<float>> numbers(1 + state_vectors(kind_));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i].assign(places.size(), std::numeric_limits<float>::quiet_NaN());
    resident_.numbers_at(*memory_, kNumbers[i], places, numbers[i]);
  }
  return numbers;
}

/// Begins to read the memory. It is read after a sum was made, before its release, and again before
/// the parameters are updated. Otherwise a program could train a model that was never released, or
/// make two sums with different parameters and the same noise.
ResidentRun::Reading ResidentRun::begin_reading() const {
  Reading reading;
  reading.sums = begin_cells_at(Cells::sum, sum_places_);
  if (!left_.empty()) reading.left = begin_numbers_at(left_places_);
  return reading;
}

void ResidentRun::check(const Reading& reading) const {
  for (std::size_t i = 0; i < left_.size(); ++i) {
    if (same_bits(reading.left[i], left_[i])) continue;
    refuse(i == 0 ? "has other parameters than the last step left"
                  : "has another state of the optimizer than the last step left");
  }
  for (std::size_t i = 0; i < reading.sums.size(); ++i) {
    if (static_cast<std::uint64_t>(reading.sums[i]) == expected_[i]) continue;
    refuse("a sum of cells is not that of its examples' cells, at parameter " +
           std::to_string(sum_places_[i]));
  }
}

// ---- sums

CellScaling ResidentRun::scaling_of(const Clip& clip, std::uint64_t most) const {
  const HasClipRule* const ruled = ability(clip.rule);
  if (ruled == nullptr) throw PluginError("a clipping without a rule for steps on a device");
  CellScaling scaling{.rule = ruled->clip_rule(clip.clip_norm),
                      .clip_norm = clip.clip_norm,
                      .cells_of_a_unit = 1.0 / clip.clip_norm * static_cast<double>(kExactLevels),
                      .most_cells = most};
  const std::vector<double>& bounds = scaling.rule.bounds;
  if (bounds.size() != 1 && bounds.size() != clip.groups.size()) {
    throw PluginError("the clipping's rule has " + std::to_string(bounds.size()) +
                      " bounds, expected 1 or " + std::to_string(clip.groups.size()));
  }
  const auto is_given = [](double x) { return std::isfinite(x) && x >= 0.0; };
  if (!is_given(scaling.rule.gamma) || !std::all_of(bounds.begin(), bounds.end(), is_given)) {
    throw PluginError(
        "a bound or the gamma of the clipping's rule is negative or not finite, expected is a "
        "number from 0");
  }
  return scaling;
}

namespace {

/// Compares every example's scales with the clipping rule's, and checks that the example was taken
/// or left out as its certified length demands. A correct program passes, whatever the norms are.
/// \returns the first problem; null if there is none.
const char* what_is_wrong(const CellScaling& scaling, const CellGrid& grid,
                          const ResidentSteps::Clipped& found, Executor& executor) {
  constexpr std::size_t kTogether = 256;
  const std::size_t rows = found.lengths.size(), groups = grid.clip.groups.size();
  std::vector<const char*> wrong((rows + kTogether - 1) / kTogether, nullptr);
  executor.for_each_chunk(wrong.size(), [&](std::size_t chunk) {
    std::vector<double> scales(groups);
    for (std::size_t i = chunk * kTogether; i < std::min(rows, (chunk + 1) * kTogether); ++i) {
      cell_scales(scaling, found.squared_norms.subspan(i * groups, groups), scales);
      const auto own = found.scales.subspan(i * groups, groups);
      if (!std::equal(scales.begin(), scales.end(), own.begin(), [](double x, double y) {
            return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
          }))
        wrong[chunk] = "the scales of an example are not those of the clipping's rule";
      else if (found.taken[i] != (grid.takes(found.lengths[i]) ? 1 : 0))
        wrong[chunk] = "an example is taken, or left out, against the length of its cells";
      if (wrong[chunk] != nullptr) return;
    }
  });
  const auto first = std::find_if(wrong.begin(), wrong.end(), [](const char* one) { return one; });
  return first == wrong.end() ? nullptr : *first;
}

}  // namespace

ResidentSum ResidentRun::sum(std::uint64_t step, const Examples& examples, SumMemory& memory,
                             ContributionCheck* check) {
  require_checked();
  const Clip& clip = examples.clip;
  check_clip_norm(clip.clip_norm);
  check_batch(examples.batch, data_.rows());
  check_groups(clip, program_);
  const CellGrid grid(clip);
  if (grid.count != 0) throw PrivacyError("a sum that stays with its program has no count");
  const CellScaling scaling = scaling_of(clip, grid.most);
  has_sum_ = is_checked_ = false;
  random_ = make_random_source(key_)->stream(step);
  sum_places_ = drawn(*random_, program_.parameter_count(), kSumPlaces);
  expected_.assign(sum_places_.size(), 0);
  resident_.clear_sum(*memory_);
  Reading reading;
  std::size_t end = 0;
  const auto add_pass = [&](std::span<const std::uint32_t> rows, SumMemory& used) {
    const std::size_t begin = std::exchange(end, end + rows.size());
    const std::size_t groups = clip.groups.size();
    const ResidentSteps::Clipped found{
        .squared_norms = resized(used.squared_norms, rows.size() * groups),
        .scales = resized(used.scales, rows.size() * groups),
        .lengths = resized(used.lengths, rows.size()),
        .taken = resized(used.taken, rows.size()),
        .checksums = resized(checksums_, rows.size())};
    // Numbers that a program leaves unwritten are then not finite, too long, or neither 0 nor 1.
    std::fill(found.squared_norms.begin(), found.squared_norms.end(),
              std::numeric_limits<double>::quiet_NaN());
    std::fill(found.scales.begin(), found.scales.end(), std::numeric_limits<double>::quiet_NaN());
    std::fill(found.lengths.begin(), found.lengths.end(), SquaredLength{~std::uint64_t{0}, 0});
    std::fill(found.taken.begin(), found.taken.end(), std::uint8_t{2});
    std::fill(found.checksums.begin(), found.checksums.end(), std::uint64_t{0});
    factors_.assign(rows.size() * sum_places_.size(),
                    CellFactors{std::numeric_limits<std::int32_t>::max(), 1});
    const bool is_checked = check != nullptr && check->place - begin < rows.size();
    if (is_checked && all_.empty()) {
      all_.resize(program_.parameter_count());
      std::iota(all_.begin(), all_.end(), std::uint64_t{0});
    }
    resident_.clip_rows(*used.pass, rows, scaling, *memory_, found);
    const auto before = begin_cells_at(Cells::sum, is_checked ? all_ : kNoPlaces);
    resident_.add_to_sum(*used.pass, {}, *memory_);
    const auto after = begin_cells_at(Cells::sum, is_checked ? all_ : kNoPlaces);
    resident_.factors_at(*used.pass, sum_places_, *memory_, factors_);
    if (end == examples.batch.size()) reading = begin_reading();
    const std::vector<std::uint64_t> checksums = checksums_of(rows);  // while the program works
    resident_.settle(*memory_);
    // Without this check, a program could add a row twice and move the sum by two contributions.
    if (!std::equal(checksums.begin(), checksums.end(), found.checksums.begin()))
      refuse("computes with other examples than those of the batch");
    if (const char* wrong = what_is_wrong(scaling, grid, found, executor_); wrong != nullptr)
      refuse(wrong);
    add_expected(found.taken, factors_);
    if (!is_checked) return;
    const ScalesOf scales = [&](std::span<const double> norms, std::span<double> out) {
      cell_scales(scaling, norms, out);
    };
    check_pass({.program = exact_,
                .rows = program_,
                .batch = gather(data_, rows, executor_, used),
                .first = begin,
                .most = grid.most,
                .scales = scales,
                .memory = used,
                .groups = clip.groups,
                .before = before,
                .after = after},
               *check);
  };
  for_each_pass(exact_, examples.batch, examples.most_rows, memory, add_pass);
  if (examples.batch.empty()) {
    reading = begin_reading();
    resident_.settle(*memory_);
  }
  this->check(reading);
  has_sum_ = is_checked_ = true;
  return {clip.clip_norm, examples.batch.size(), ++sums_};
}

std::vector<std::uint64_t> ResidentRun::checksums_of(std::span<const std::uint32_t> rows) const {
  constexpr std::size_t kTogether = 32;
  std::vector<std::uint64_t> checksums(rows.size());
  executor_.for_each_chunk((rows.size() + kTogether - 1) / kTogether, [&](std::size_t chunk) {
    std::vector<float> features(data_.row_size());
    float target = 0.0f;
    for (std::size_t i = chunk * kTogether; i < std::min(rows.size(), (chunk + 1) * kTogether);
         ++i) {
      data_.gather(rows.subspan(i, 1), features, {&target, 1});
      checksums[i] = example_checksum(features, target);
    }
  });
  return checksums;
}

/// Adds to the trust base's own sum at the checked places, modulo 2^64.
void ResidentRun::add_expected(std::span<const std::uint8_t> taken,
                               std::span<const CellFactors> factors) {
  const std::size_t places = sum_places_.size();
  for (std::size_t row = 0; row < taken.size(); ++row) {
    if (taken[row] == 0) continue;
    const auto own = factors.subspan(row * places, places);
    for (std::size_t i = 0; i < places; ++i)
      expected_[i] += static_cast<std::uint64_t>(std::int64_t{own[i].left} * own[i].right);
  }
}

// ---- releases and parameters

/// Returns a chunk of the release, computed by RoundedGaussianStream.
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
    const std::vector<std::int64_t> sums = begin_cells_at(Cells::sum, elements_of(chunk));
    resident_.settle(*memory_);
    resident_.put_released(*memory_, chunk, released_here(chunk, noise, sums));
  }
}

void ResidentRun::check_noise(const PaidNoise& noise, std::span<const std::int64_t> sums,
                              std::span<const std::int64_t> released) const {
  std::vector<std::size_t> wrong(chunks_.size(), kChunk);
  executor_.for_each_chunk(chunks_.size(), [&](std::size_t i) {
    // All chunks are whole except the last one of the parameters, which can only be the last here.
    const std::size_t begin = i * kChunk;
    const std::size_t size = std::min(kChunk, elements_.size() - begin);
    const std::vector<std::int64_t> own =
        released_here(chunks_[i], noise, sums.subspan(begin, size));
    const auto [here, there] =
        std::mismatch(own.begin(), own.end(), released.subspan(begin, size).begin());
    if (here != own.end()) wrong[i] = static_cast<std::size_t>(here - own.begin());
  });
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (wrong[i] == kChunk) continue;
    refuse("a release does not have the noise that was paid for, at parameter " +
           std::to_string(chunks_[i] * kChunk + wrong[i]));
  }
}

Moved ResidentRun::move(ResidentSum sum, const PaidNoise& noise, const StepRule& rule) {
  if (!has_sum_ || sum.number_ != sums_)
    throw PrivacyError("the program no longer holds the sum to be released");
  if (noise.levels_ != kExactLevels || noise.l2_bound_ != sum.l2_bound_)
    throw PrivacyError("the noise that was paid for is not the noise of this sum");
  if (rule.kind != kind_) refuse("the optimizer's rule is of another kind than it said");
  has_sum_ = is_checked_ = false;
  is_ahead_ = true;
  {
    const NoiseOrder order = TrustBase::noise_order(
        RoundedGaussianStream::own_key(noise.key_, noise.node_), noise.sigma_, noise.shift_);
    make_undecided(resident_.release(*memory_, order), noise);
  }
  draw_chunks();
  const Reading reading = begin_reading();
  const std::vector<std::int64_t> sums = begin_cells_at(Cells::sum, elements_);
  const std::vector<std::int64_t> released = begin_cells_at(Cells::released, elements_);
  std::vector<std::vector<float>> numbers = begin_numbers_at(elements_);
  const Moved moved = resident_.update(*memory_, rule, noise.width_);
  check(reading);
  check_noise(noise, sums, released);
  if (moved == Moved::yes) {
    expect(rule, noise.width_, released, std::move(numbers));
  } else {
    const std::vector<std::vector<float>> after = begin_numbers_at(elements_);
    resident_.settle(*memory_);
    if (!same_bits(numbers.front(), after.front()))
      refuse("moved parameters by a step that it refused");
    left_.clear();
  }
  is_checked_ = true;
  return moved;
}

/// Computes parameters and state in the checked chunks by the rule; the program's values are
/// compared with these results when they are used or fetched.
void ResidentRun::expect(const StepRule& rule, double width, std::span<const std::int64_t> released,
                         std::vector<std::vector<float>> numbers) {
  std::vector<float> gradient(elements_.size());
  std::transform(released.begin(), released.end(), gradient.begin(), [&](std::int64_t cell) {
    return static_cast<float>(static_cast<double>(cell) * width);
  });
  numbers.resize(kNumbers.size());
  privgrad::apply(rule, numbers[0], numbers[1], numbers[2], gradient);
  if (!all_finite(gradient) || !all_finite(numbers.front()))
    refuse("moved parameters to values that are not finite");
  numbers.resize(1 + state_vectors(kind_));
  left_places_ = elements_;
  left_ = std::move(numbers);
}

void ResidentRun::require_checked() const {
  if (!is_checked_) refuse("its last step did not pass its checks");
}

namespace {

std::vector<float> numbers_of(std::span<const float> all, std::span<const std::uint64_t> places) {
  std::vector<float> found(places.size());
  std::transform(places.begin(), places.end(), found.begin(),
                 [&](std::uint64_t place) { return all[place]; });
  return found;
}

}  // namespace

void ResidentRun::bring_parameters(std::span<float> out) {
  require_checked();
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  resident_.numbers(*memory_, Numbers::parameters, out);
  if (!left_.empty() && !same_bits(numbers_of(out, left_places_), left_.front()))
    refuse("gave other parameters than the last step left");
  is_ahead_ = false;
}

void ResidentRun::parameters_were_loaded(std::span<const float> values) {
  if (!left_.empty()) left_.front() = numbers_of(values, left_places_);
  is_ahead_ = false;
}

void ResidentRun::bring_state(std::size_t vector, std::span<float> out) const {
  require_checked();
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  resident_.numbers(*memory_, kNumbers[1 + vector], out);
  if (!left_.empty() && !same_bits(numbers_of(out, left_places_), left_[1 + vector]))
    refuse("gave another state of the optimizer than the last step left");
}

void ResidentRun::put_state(std::size_t vector, std::span<const float> values) {
  resident_.put_numbers(*memory_, kNumbers[1 + vector], values);
}

}  // namespace privgrad::core
