#include "privgrad/trust/contribution_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "checked_pass.hpp"
#include "gradient_rows.hpp"
#include "microbatches.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

__extension__ using Wide = unsigned __int128;

/// The distance allowed between the cells and the scaled gradient, as a share of the bound; the
/// same as in the conformance suite.
constexpr double kRounding = 1.0 / 64.0;

using Cells = std::vector<std::int64_t>;

[[noreturn]] void refuse(std::string_view who, const std::string& what) {
  throw PluginError(std::string(who) + ": " + what);
}

/// Modulo 2^64, as sums are taken.
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Numbers that are not finite are all alike: their example counts as zero.
bool same_norms(std::span<const double> a, std::span<const double> b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
    return same_bits(x, y) || (!std::isfinite(x) && !std::isfinite(y));
  });
}

/// \returns whether the cells are no longer than `most`, and then, in `square`, how long.
/// \param most  at most 2^28, so that 128 squares are below 2^63.
bool squared_length(std::span<const std::int64_t> cells, std::uint64_t most, Wide& square) {
  square = 0;
  while (!cells.empty()) {
    const auto some = cells.first(std::min<std::size_t>(cells.size(), 128));
    cells = cells.subspan(some.size());
    std::uint64_t longest = 0, sum = 0;
    for (const std::int64_t cell : some) {
      const std::uint64_t size =
          cell < 0 ? 0 - static_cast<std::uint64_t>(cell) : static_cast<std::uint64_t>(cell);
      longest = std::max(longest, size);
      sum += size * size;
    }
    if (longest > most) return false;
    square += sum;
  }
  return square <= static_cast<Wide>(most) * most;
}

/// The squared distance of the cells from the scaled row; in eight sums, for vector registers.
double squared_distance(std::span<const std::int64_t> cells, std::span<const float> row,
                        double scale) {
  std::array<double, 8> sums{};
  const auto square = [&](std::size_t j) {
    // A gradient with a scale of 0 has no cells, whatever its values are.
    const double wanted = scale == 0.0 ? 0.0 : scale * static_cast<double>(row[j]);
    return (static_cast<double>(cells[j]) - wanted) * (static_cast<double>(cells[j]) - wanted);
  };
  std::size_t j = 0;
  for (; j + 8 <= cells.size(); j += 8)
    for (std::size_t i = 0; i < 8; ++i) sums[i] += square(j + i);
  for (; j < cells.size(); ++j) sums[0] += square(j);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// The example's cells, by which the sum moved beside those of the others.
/// \param others  in: the sum before the pass; out: with all of the pass but the example.
Cells moved_by(const CheckedPass& pass, std::span<std::int64_t> others, std::string_view who) {
  SumMemory& memory = pass.memory;
  std::vector<std::uint8_t> taken(
      memory.taken.begin(), memory.taken.begin() + static_cast<std::ptrdiff_t>(pass.batch.rows()));
  const std::uint8_t own_taken = std::exchange(taken[pass.place], std::uint8_t{0});
  pass.program.add_cells(*memory.pass, taken, others);
  Cells own(others.size());
  for (std::size_t j = 0; j < own.size(); ++j) own[j] = minus(pass.after[j], others[j]);
  std::fill(taken.begin(), taken.end(), std::uint8_t{0});
  taken[pass.place] = own_taken;
  pass.program.add_cells(*memory.pass, taken, others);
  if (!std::equal(others.begin(), others.end(), pass.after.begin()))
    refuse(who, "a sum of cells is not that of its examples' cells");
  return own;
}

void check_length(const Cells& own, std::uint64_t most, const SquaredLength& certified,
                  std::string_view who) {
  Wide square = 0;
  if (!squared_length(own, most, square))
    refuse(who, "an example's cells are longer than the bound, and were certified to be within it");
  if (square != ((static_cast<Wide>(certified.high) << 64) | certified.low))
    refuse(who, "an example's cells are not as long as was certified");
}

/// The example in a pass of its own: the same norms, length and cells.
/// \param scratch  [parameters].
void check_alone(const CheckedPass& pass, const Cells& own, std::span<std::int64_t> scratch,
                 std::string_view who) {
  SumMemory& memory = pass.memory;
  const std::size_t groups = pass.program.groups();
  const std::size_t first = pass.place * groups;
  const Batch& batch = pass.batch;
  const std::size_t size = batch.features.size() / batch.rows();
  const Batch one{batch.features.subspan(pass.place * size, size),
                  batch.targets.subspan(pass.place, 1)};
  if (memory.pass_of_one == nullptr) memory.pass_of_one = pass.program.make_pass(1);
  if (memory.pass_of_one == nullptr) refuse(who, "the program makes no memory for a pass");
  std::vector<double> norms(groups, std::numeric_limits<double>::quiet_NaN());
  pass.program.backward(one, *memory.pass_of_one, norms);
  const std::string alone = " in a pass of its own than beside others";
  if (!same_norms(norms, std::span(memory.squared_norms).subspan(first, groups)))
    refuse(who, "an example has other gradient norms" + alone);
  SquaredLength length{~std::uint64_t{0}, 0};
  pass.program.make_cells(*memory.pass_of_one, std::span(memory.scales).subspan(first, groups),
                          pass.most, std::span(&length, 1));
  if (length != memory.lengths[pass.place])
    refuse(who, "an example's cells have another length" + alone);
  const std::uint8_t taken = memory.taken[pass.place];
  std::fill(scratch.begin(), scratch.end(), 0);
  pass.program.add_cells(*memory.pass_of_one, std::span(&taken, 1), scratch);
  if (!std::equal(own.begin(), own.end(), scratch.begin()))
    refuse(who, "an example has other cells" + alone);
}

/// \returns whether the cells are further from the scaled row than rounding takes them.
bool differs_from_row(const CheckedPass& pass, const Cells& own) {
  const Batch& batch = pass.batch;
  const std::size_t size = batch.features.size() / batch.rows();
  std::vector<float> row(own.size());
  poison(row, row.size());
  pass.rows.gradient_rows(
      {batch.features.subspan(pass.place * size, size), batch.targets.subspan(pass.place, 1)}, row);
  double away = 0.0;
  for (std::size_t g = 0; g < pass.groups.size(); ++g) {
    const double scale = pass.memory.scales[pass.place * pass.groups.size() + g];
    const ParameterGroup& group = pass.groups[g];
    away += squared_distance(std::span(own).subspan(group.offset, group.size),
                             std::span<const float>(row).subspan(group.offset, group.size), scale);
  }
  return !(std::sqrt(away) <= kRounding * static_cast<double>(pass.most));
}

}  // namespace

void check_pass(const CheckedPass& pass, ContributionCheck& check) {
  SumMemory& memory = pass.memory;
  const std::size_t groups = pass.program.groups();
  const auto norms = std::span(memory.squared_norms).subspan(pass.place * groups, groups);
  const auto scales = std::span(memory.scales).subspan(pass.place * groups, groups);
  std::vector<double> again(groups);
  pass.scales(norms, again);
  if (!std::equal(again.begin(), again.end(), scales.begin(), same_bits))
    refuse(check.clipping, "gave other factors for the same gradient norms");

  const Cells own = moved_by(pass, pass.before, check.program);
  const bool is_taken = memory.taken[pass.place] != 0;
  if (is_taken) check_length(own, pass.most, memory.lengths[pass.place], check.program);
  check_alone(pass, own, pass.before, check.program);
  // An example left out for its length adds nothing, which is near no gradient.
  check.differs = is_taken && differs_from_row(pass, own);
}

void check_row(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
               ContributionCheck& check) {
  const std::size_t parameters = program.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t begin = check.place / chunk_rows * chunk_rows;
  const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
  const auto rows_of = [&](std::span<const std::uint32_t> some) {
    Chunk scratch(data, some.size());
    std::vector<float> gradients(some.size() * parameters);
    poison(gradients, parameters);
    program.gradient_rows(scratch.gather(data, some), gradients);
    return gradients;
  };
  const std::vector<float> beside = rows_of(rows), alone = rows_of(batch.subspan(check.place, 1));
  const auto own = std::span(beside).subspan((check.place - begin) * parameters, parameters);
  if (std::equal(own.begin(), own.end(), alone.begin())) return;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  // A row that is not finite counts as zero, whatever it is.
  if (!std::all_of(own.begin(), own.end(), is_finite) &&
      !std::all_of(alone.begin(), alone.end(), is_finite)) {
    return;
  }
  check.differs = true;
  if (dynamic_cast<const ReproducibleRows*>(&program) == nullptr) return;
  refuse(check.program, "an example has another gradient row alone than beside others");
}

ContributionChecks::ContributionChecks(const RandomKey& key, std::string program,
                                       std::string clipping)
    : key_(key.derive("contribution checks")),
      program_(std::move(program)),
      clipping_(std::move(clipping)) {}

void ContributionChecks::save(StateWriter& out) const {
  out.begin("contribution checks");
  out.put(made_, differences_);
}

void ContributionChecks::restore(StateReader& in) {
  in.begin("contribution checks");
  in.get(made_, differences_);
}

std::optional<ContributionCheck> ContributionChecks::draw(std::uint64_t step,
                                                          std::size_t batch_size) {
  const std::uint64_t block = step / kPeriod;
  if (block_ != block) {
    const auto random = make_random_source(key_)->stream(block);
    position_ = random->uniform_below(kPeriod);
    draw_ = random->uniform_below(std::uint64_t{1} << 63);
    block_ = block;
  }
  if (step % kPeriod != position_) return std::nullopt;
  ++made_;
  if (batch_size == 0) return std::nullopt;
  // 2^63 is so much more than there are rows that the remainder is as good as uniform.
  return ContributionCheck{.place = static_cast<std::size_t>(draw_ % batch_size),
                           .program = program_,
                           .clipping = clipping_};
}

}  // namespace privgrad::core
