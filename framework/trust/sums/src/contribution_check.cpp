#include "privgrad/trust/contribution_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checked_pass.hpp"
#include "deferred_pass.hpp"
#include "gradient_rows.hpp"
#include "microbatches.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {
namespace {

__extension__ using Wide = unsigned __int128;

/// The allowed distance between the cells and the scaled gradient, as a share of the bound; the
/// conformance suite uses the same.
constexpr double kRounding = 1.0 / 64.0;

using Cells = std::vector<std::int64_t>;

[[noreturn]] void refuse(std::string_view who, const std::string& what) {
  throw PluginError(std::string(who) + ": " + what);
}

/// Returns a - b modulo 2^64, like the sums.
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Treats all norms that are not finite as equal: their example counts as zero.
bool same_norms(std::span<const double> a, std::span<const double> b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
    return same_bits(x, y) || (!std::isfinite(x) && !std::isfinite(y));
  });
}

/// \returns whether the cells are no longer than `most`; if so, sets `square` to their squared
///   length.
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

/// Returns the squared distance of the cells from the scaled row, in eight partial sums for vector
/// registers.
double squared_distance(std::span<const std::int64_t> cells, std::span<const float> row,
                        double scale) {
  std::array<double, 8> sums{};
  const auto square = [&](std::size_t j) {
    // A gradient with a scale of 0 has only zero cells, whatever its values are.
    const double wanted = scale == 0.0 ? 0.0 : scale * static_cast<double>(row[j]);
    return (static_cast<double>(cells[j]) - wanted) * (static_cast<double>(cells[j]) - wanted);
  };
  std::size_t j = 0;
  for (; j + 8 <= cells.size(); j += 8)
    for (std::size_t i = 0; i < 8; ++i) sums[i] += square(j + i);
  for (; j < cells.size(); ++j) sums[0] += square(j);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

Batch example_of(const Batch& batch, std::size_t place) {
  const std::size_t size = batch.features.size() / batch.rows();
  return {batch.features.subspan(place * size, size), batch.targets.subspan(place, 1)};
}

constexpr std::string_view kAlone = " in a pass of its own than beside others";

/// Computes an example's cells in a pass of its own, and checks that norms and length are the same
/// as in the full pass.
/// \param number  the number of the pass to use; a new example may reuse a finished example's pass.
ExactClipping::Pass& make_alone(const CheckedPass& pass, std::size_t place, std::size_t number,
                                std::string_view who) {
  SumMemory& memory = pass.memory;
  const std::size_t groups = pass.program.groups();
  while (memory.passes_of_one.size() <= number)
    memory.passes_of_one.push_back(pass.program.make_pass(1));
  if (memory.passes_of_one[number] == nullptr)
    refuse(who, "the program makes no memory for a pass");
  ExactClipping::Pass& alone = *memory.passes_of_one[number];
  std::vector<double> norms(groups, std::numeric_limits<double>::quiet_NaN());
  pass.program.backward(example_of(pass.batch, place), alone, norms);
  if (!same_norms(norms, std::span(memory.squared_norms).subspan(place * groups, groups)))
    refuse(who, std::string("an example has other gradient norms").append(kAlone));
  SquaredLength length{~std::uint64_t{0}, 0};
  pass.program.make_cells(alone, std::span(memory.scales).subspan(place * groups, groups),
                          pass.most, std::span(&length, 1));
  if (length != memory.lengths[place])
    refuse(who, std::string("an example's cells have another length").append(kAlone));
  return alone;
}

/// The cells of some examples of a pass, in pieces if the program has them: a piece stays in the
/// caches while it is compared.
class SomeCells {
 public:
  /// \param taken  [rows of `pass`]: 0 leaves the example out.
  SomeCells(const CheckedPass& checked, ExactClipping::Pass& pass, std::vector<std::uint8_t> taken)
      : program_(checked.program),
        pieces_(DeferredPass::in_pieces(checked.rows)),
        pass_(pass),
        taken_(std::move(taken)) {
    if (pieces_ != nullptr) pieces_->choose(pass_, taken_);
  }

  static std::vector<std::size_t> ends(const CheckedPass& checked) {
    const ExactClipping* const pieces = DeferredPass::in_pieces(checked.rows);
    if (pieces == nullptr) return {checked.after.size()};
    return {pieces->piece_ends().begin(), pieces->piece_ends().end()};
  }

  /// \param out  overwritten by the cells of a piece.
  void copy_piece(std::size_t piece, std::span<std::int64_t> out) const {
    std::fill(out.begin(), out.end(), 0);
    if (pieces_ != nullptr) {
      pieces_->add_piece(pass_, piece, out);
    } else {
      program_.add_cells(pass_, taken_, out);
    }
  }

 private:
  const ExactClipping& program_;
  const ExactClipping* pieces_;
  ExactClipping::Pass& pass_;
  std::vector<std::uint8_t> taken_;
};

/// Calls take(piece, begin, added) for all pieces of a sum in order, where `added` is the pass's
/// addition to the piece; take() may overwrite it.
template <class Take>
void for_pieces(const CheckedPass& pass, const Take& take) {
  Cells added;
  std::size_t piece = 0, begin = 0;
  for (const std::size_t end : SomeCells::ends(pass)) {
    added.resize(end - begin);
    for (std::size_t j = begin; j < end; ++j)
      added[j - begin] = minus(pass.after[j], pass.before.empty() ? 0 : pass.before[j]);
    take(piece++, begin, std::span(added));
    begin = end;
  }
}

void subtract(std::span<const std::int64_t> cells, std::span<std::int64_t> from) {
  for (std::size_t j = 0; j < from.size(); ++j) from[j] = minus(from[j], cells[j]);
}

/// Accumulates the length of an example's cells.
class CellsLength {
 public:
  explicit CellsLength(std::uint64_t most) : most_(most) {}
  void add(std::span<const std::int64_t> cells) {
    Wide some = 0;
    is_within_ = squared_length(cells, most_, some) && is_within_;
    square_ += some;
  }
  void check(const SquaredLength& certified, std::string_view who) const {
    if (!is_within_ || square_ > static_cast<Wide>(most_) * most_)
      refuse(who,
             "an example's cells are longer than the bound, and were certified to be within it");
    if (square_ != ((static_cast<Wide>(certified.high) << 64) | certified.low))
      refuse(who, "an example's cells are not as long as was certified");
  }

 private:
  std::uint64_t most_;
  bool is_within_ = true;
  Wide square_ = 0;
};

/// Repeats the whole pass, and checks that norms, lengths and sum are the same.
void check_again(const CheckedPass& pass, std::string_view who) {
  SumMemory& memory = pass.memory;
  const std::size_t rows = pass.batch.rows(), groups = pass.program.groups();
  std::vector<double> norms(rows * groups, std::numeric_limits<double>::quiet_NaN());
  pass.program.backward(pass.batch, *memory.pass, norms);
  std::vector<SquaredLength> lengths(rows, SquaredLength{~std::uint64_t{0}, 0});
  pass.program.make_cells(*memory.pass, std::span(memory.scales).first(rows * groups), pass.most,
                          lengths);
  // Adds the cells up as a whole: the sum may have been made in pieces, and both ways must agree.
  Cells sum(pass.before.begin(), pass.before.end());
  sum.resize(pass.after.size(), 0);
  pass.program.add_cells(*memory.pass, std::span(memory.taken).first(rows), sum);
  const bool is_same = same_norms(norms, std::span(memory.squared_norms).first(norms.size())) &&
                       std::equal(lengths.begin(), lengths.end(), memory.lengths.begin()) &&
                       std::equal(sum.begin(), sum.end(), pass.after.begin());
  if (!is_same) refuse(who, "a pass has other norms, lengths or cells when it is repeated");
}

/// Accumulates the distance of an example's cells from its scaled row.
class DistanceFromRow {
 public:
  DistanceFromRow(const CheckedPass& pass, std::size_t place)
      : pass_(pass), place_(place), row_(pass.after.size()) {
    poison(row_);
    pass.rows.gradient_rows(example_of(pass.batch, place), row_);
  }
  void add(std::size_t begin, std::span<const std::int64_t> cells) {
    const std::size_t end = begin + cells.size();
    for (std::size_t g = 0; g < pass_.groups.size(); ++g) {
      const ParameterGroup& group = pass_.groups[g];
      const std::size_t from = std::max(begin, group.offset);
      const std::size_t to = std::min(end, group.offset + group.size);
      if (from >= to) continue;
      square_ += squared_distance(cells.subspan(from - begin, to - from),
                                  std::span<const float>(row_).subspan(from, to - from),
                                  pass_.memory.scales[place_ * pass_.groups.size() + g]);
    }
  }
  /// Whether the distance is larger than rounding can explain.
  bool is_large() const {
    return !(std::sqrt(square_) <= kRounding * static_cast<double>(pass_.most));
  }

 private:
  const CheckedPass& pass_;
  std::size_t place_;
  std::vector<float> row_;
  double square_ = 0.0;
};

void check_factors(const CheckedPass& pass, std::size_t place, std::string_view who) {
  const std::size_t groups = pass.program.groups();
  const auto norms = std::span(pass.memory.squared_norms).subspan(place * groups, groups);
  const auto scales = std::span(pass.memory.scales).subspan(place * groups, groups);
  std::vector<double> again(groups);
  pass.scales(norms, again);
  if (!std::equal(again.begin(), again.end(), scales.begin(), same_bits))
    refuse(who, "gave other factors for the same gradient norms");
}

/// Returns for each example whether the pass added its cells; 0 for the examples at `places`.
std::vector<std::uint8_t> taken_without(const CheckedPass& pass,
                                        std::span<const std::size_t> places) {
  const auto rows = static_cast<std::ptrdiff_t>(pass.batch.rows());
  std::vector<std::uint8_t> others(pass.memory.taken.begin(), pass.memory.taken.begin() + rows);
  for (const std::size_t place : places) others[place] = 0;
  return others;
}

/// Returns one example's cells, as they are in the full pass.
Cells cells_in_pass(const CheckedPass& pass, std::size_t place) {
  std::vector<std::uint8_t> taken(pass.batch.rows(), 0);
  taken[place] = pass.memory.taken[place];
  Cells cells(pass.after.size(), 0);
  pass.program.add_cells(*pass.memory.pass, taken, cells);
  return cells;
}

/// Throws the error for a pass that changed the sum by other cells than its examples have alone.
[[noreturn]] void refuse_sum(const CheckedPass& pass, std::span<const std::size_t> places,
                             std::string_view who) {
  for (const std::size_t place : places) {
    const Cells own = cells_in_pass(pass, place);
    CellsLength length(pass.most);
    length.add(own);
    const std::uint8_t taken = pass.memory.taken[place];
    if (taken != 0) length.check(pass.memory.lengths[place], who);
    Cells alone(own.size(), 0);
    pass.program.add_cells(make_alone(pass, place, 0, who), std::span(&taken, 1), alone);
    if (own != alone) refuse(who, std::string("an example has other cells").append(kAlone));
  }
  refuse(who, "a sum of cells is not that of its examples' cells");
}

std::vector<float> rows_of(const Program& program, const Dataset& data,
                           std::span<const std::uint32_t> some) {
  Chunk scratch(data, some.size());
  std::vector<float> gradients(some.size() * program.parameter_count());
  poison(gradients);
  program.gradient_rows(scratch.gather(data, some), gradients);
  return gradients;
}

bool is_finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

std::vector<std::size_t> examples_of(const ContributionCheck& check, std::size_t first,
                                     std::size_t rows) {
  std::vector<std::size_t> places{check.place - first};
  for (const std::uint64_t other : check.others)
    places.push_back(static_cast<std::size_t>(other % rows));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

void check_pass(const CheckedPass& pass, ContributionCheck& check) {
  const std::vector<std::size_t> places = examples_of(check, pass.first, pass.batch.rows());
  for (const std::size_t place : places) check_factors(pass, place, check.clipping);
  if (check.is_of_all) check_again(pass, check.program);
  // An example left out for its length adds nothing, so it is not compared with its gradient.
  std::optional<DistanceFromRow> distance;
  const std::size_t drawn = check.place - pass.first;
  if (pass.memory.taken[drawn] != 0) distance.emplace(pass, drawn);
  std::vector<CellsLength> lengths(places.size(), CellsLength(pass.most));
  std::vector<SomeCells> alone;
  const SomeCells others(pass, *pass.memory.pass, taken_without(pass, places));
  bool is_sum = true;
  Cells cells;
  for_pieces(pass, [&](std::size_t piece, std::size_t begin, std::span<std::int64_t> added) {
    cells.resize(added.size());
    others.copy_piece(piece, cells);
    subtract(cells, added);
    for (std::size_t i = 0; i < places.size(); ++i) {
      // A sum of one piece needs an example's pass only until the next example, so all use one
      // pass.
      const std::size_t number = added.size() == pass.after.size() ? 0 : i;
      if (piece == 0)
        alone.emplace_back(pass, make_alone(pass, places[i], number, check.program),
                           std::vector{pass.memory.taken[places[i]]});
      alone[i].copy_piece(piece, cells);
      lengths[i].add(cells);
      if (places[i] == drawn && distance) distance->add(begin, cells);
      subtract(cells, added);
    }
    is_sum = is_sum &&
             std::all_of(added.begin(), added.end(), [](std::int64_t cell) { return cell == 0; });
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    if (pass.memory.taken[places[i]] != 0)
      lengths[i].check(pass.memory.lengths[places[i]], check.program);
  if (!is_sum) refuse_sum(pass, places, check.program);
  check.differs = distance && distance->is_large();
}

void check_row(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
               ContributionCheck& check) {
  const std::size_t parameters = program.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t begin = check.place / chunk_rows * chunk_rows;
  const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
  const std::vector<float> beside = rows_of(program, data, rows);
  for (const std::size_t place : examples_of(check, begin, rows.size())) {
    const std::vector<float> alone = rows_of(program, data, rows.subspan(place, 1));
    const auto own = std::span(beside).subspan(place * parameters, parameters);
    if (std::equal(own.begin(), own.end(), alone.begin())) continue;
    // A row that is not finite counts as zero, whatever its numbers are.
    if (!is_finite(own) && !is_finite(alone)) continue;
    check.differs = true;
    if (ability_of<ReproducibleRows>(program) == nullptr) continue;
    refuse(check.program, "an example has another gradient row alone than beside others");
  }
}

ContributionChecks::ContributionChecks(const RandomKey& key, std::uint64_t steps,
                                       std::string program, std::string clipping)
    : key_(key.derive("contribution checks")),
      program_(std::move(program)),
      clipping_(std::move(clipping)),
      period_(std::clamp<std::uint64_t>(steps / kLeastLooks, 1, kLongestPeriod)),
      look_at_all_(
          make_random_source(key_.derive("looks at all"))->stream(0)->uniform_below(kLooksToAll)) {}

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
  const std::uint64_t block = step / period_;
  if (block_ != block) {
    const auto random = make_random_source(key_)->stream(block);
    position_ = random->uniform_below(period_);
    draw_ = random->uniform_below(std::uint64_t{1} << 63);
    others_.resize(ContributionCheck::kOthers);
    for (std::uint64_t& other : others_) other = random->uniform_below(std::uint64_t{1} << 63);
    block_ = block;
  }
  if (step % period_ != position_) return std::nullopt;
  ++made_;
  if (batch_size == 0) return std::nullopt;
  // With this number, checks take a similar share of a step's time in large and small batches.
  constexpr std::size_t kRowsToOne = 64;
  const auto count = std::min(batch_size / kRowsToOne, others_.size());
  // 2^63 is so much larger than the number of rows that the remainder is practically uniform.
  return ContributionCheck{
      .place = static_cast<std::size_t>(draw_ % batch_size),
      .others = {others_.begin(), others_.begin() + static_cast<std::ptrdiff_t>(count)},
      .is_of_all = block % kLooksToAll == look_at_all_,
      .program = program_,
      .clipping = clipping_};
}

}  // namespace privgrad::core
