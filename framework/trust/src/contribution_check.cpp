#include "privgrad/trust/contribution_check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "checked_pass.hpp"
#include "gradient_rows.hpp"
#include "pass.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

__extension__ using Wide = unsigned __int128;

/// Of the bound: what the cells may be away from the scaled gradient, as the conformance suite has
/// it.
constexpr double kRounding = 1.0 / 64.0;

using Cells = std::vector<std::int64_t>;

[[noreturn]] void refuse(std::string_view who, const std::string& what) {
  throw PluginError(std::string(who) + ": " + what);
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
bool squared_length(const Cells& cells, std::uint64_t most, Wide& square) {
  square = 0;
  for (const std::int64_t cell : cells) {
    const std::uint64_t size =
        cell < 0 ? 0 - static_cast<std::uint64_t>(cell) : static_cast<std::uint64_t>(cell);
    if (size > most) return false;  // so that no square leaves the range
    square += static_cast<Wide>(size) * size;
  }
  return square <= static_cast<Wide>(most) * most;
}

/// The cells of those that are taken, of the last make_cells().
Cells cells_of(const ExactClipping& program, ExactClipping::Pass& pass,
               std::span<const std::uint8_t> taken, std::size_t parameters) {
  Cells cells(parameters, 0);
  program.add_cells(pass, taken, cells);
  return cells;
}

/// The sum moved by the example's cells and those of the others.
void check_sum(const CheckedPass& pass, const Cells& own, const Cells& others,
               std::string_view who) {
  for (std::size_t j = 0; j < own.size(); ++j) {
    const auto moved =
        static_cast<std::uint64_t>(pass.after[j]) - static_cast<std::uint64_t>(pass.before[j]);
    if (moved == static_cast<std::uint64_t>(own[j]) + static_cast<std::uint64_t>(others[j]))
      continue;
    refuse(who, "a sum of cells is not that of its examples' cells");
  }
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
void check_alone(const CheckedPass& pass, const Cells& own, std::string_view who) {
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
  if (cells_of(pass.program, *memory.pass_of_one, std::span(&taken, 1), own.size()) != own)
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
    for (std::size_t j = group.offset; j < group.offset + group.size; ++j) {
      const double wanted = scale == 0.0 ? 0.0 : scale * static_cast<double>(row[j]);
      away += (static_cast<double>(own[j]) - wanted) * (static_cast<double>(own[j]) - wanted);
    }
  }
  return !(std::sqrt(away) <= kRounding * static_cast<double>(pass.most));
}

}  // namespace

void check_pass(const CheckedPass& pass, ContributionCheck& check) {
  SumMemory& memory = pass.memory;
  const std::size_t rows = pass.batch.rows();
  const std::size_t groups = pass.program.groups();
  const auto norms = std::span(memory.squared_norms).subspan(pass.place * groups, groups);
  const auto scales = std::span(memory.scales).subspan(pass.place * groups, groups);
  std::vector<double> again(groups);
  pass.scales(norms, again);
  if (!std::equal(again.begin(), again.end(), scales.begin(), same_bits))
    refuse(check.clipping, "gave other factors for the same gradient norms");

  const std::size_t parameters = pass.after.size();
  std::vector<std::uint8_t> taken(rows, 0);
  taken[pass.place] = memory.taken[pass.place];
  const Cells own = cells_of(pass.program, *memory.pass, taken, parameters);
  taken.assign(memory.taken.begin(), memory.taken.begin() + static_cast<std::ptrdiff_t>(rows));
  taken[pass.place] = 0;
  check_sum(pass, own, cells_of(pass.program, *memory.pass, taken, parameters), check.program);
  const bool is_taken = memory.taken[pass.place] != 0;
  if (is_taken) check_length(own, pass.most, memory.lengths[pass.place], check.program);
  check_alone(pass, own, check.program);
  // One that is left out for its length adds nothing, which no gradient is near to.
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

ContributionChecks::ContributionChecks(const RandomKey& key, double batch_size, std::string program,
                                       std::string clipping)
    : key_(key.derive("contribution checks")),
      period_(batch_size < kSmallBatch ? kPeriodOfSmallBatches : kPeriod),
      program_(std::move(program)),
      clipping_(std::move(clipping)) {}

std::optional<ContributionCheck> ContributionChecks::draw(std::uint64_t step,
                                                          std::size_t batch_size) {
  const std::uint64_t block = step / period_;
  if (block_ != block) {
    const auto random = make_random_source(key_)->stream(block);
    position_ = random->uniform_below(period_);
    draw_ = random->uniform_below(std::uint64_t{1} << 63);
    block_ = block;
  }
  if (step % period_ != position_) return std::nullopt;
  ++made_;
  if (batch_size == 0) return std::nullopt;
  // 2^63 is so much more than there are rows that the remainder is as good as uniform.
  return ContributionCheck{.place = static_cast<std::size_t>(draw_ % batch_size),
                           .program = program_,
                           .clipping = clipping_};
}

}  // namespace privgrad::core
