#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "inputs.hpp"
#include "program_inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

__extension__ using Wide = unsigned __int128;
using Cells = std::vector<std::int64_t>;

Wide wide(const SquaredLength& length) { return (Wide{length.high} << 64) + length.low; }

std::string in(const Network& network) { return "in " + text_of(network) + ", "; }

/// Returns offset and size of each layer's parameters, for the layers that have parameters.
std::vector<std::pair<std::size_t, std::size_t>> groups_of(const Network& network) {
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  std::size_t offset = 0;
  for (const std::size_t size : layer_parameters(network)) {
    if (size > 0) groups.emplace_back(offset, size);
    offset += size;
  }
  return groups;
}

/// An exact program's results for some examples.
struct Said {
  std::vector<double> squared_norms;
  std::vector<SquaredLength> lengths;
  std::vector<Cells> cells;  // of each example
};

const ExactClipping& exact_of(const Program& program) {
  return dynamic_cast<const ExactClipping&>(program);
}

/// A pass over a batch, from which each example's cells are taken separately.
class PassOver {
 public:
  PassOver(const Program& program, const Batch& batch, std::size_t most_rows = 0)
      : exact_(exact_of(program)),
        parameters_(program.parameter_count()),
        rows_(batch.rows()),
        pass_(exact_.make_pass(std::max(most_rows, batch.rows()))) {
    require(pass_ != nullptr, "make_pass() returns nothing");
    said_.squared_norms.assign(rows_ * exact_.groups(), std::numeric_limits<double>::quiet_NaN());
    exact_.backward(batch, *pass_, said_.squared_norms);
  }

  /// Returns scales with which each example's cells have this length; 0 for an example whose
  /// gradient is zero or not finite.
  std::vector<double> scales_to(double length) const {
    const std::size_t groups = exact_.groups();
    std::vector<double> scales(rows_ * groups, 0.0);
    for (std::size_t i = 0; i < rows_; ++i) {
      double squares = 0.0;
      for (std::size_t g = 0; g < groups; ++g) squares += said_.squared_norms[i * groups + g];
      if (!std::isfinite(squares) || squares == 0.0) continue;
      for (std::size_t g = 0; g < groups; ++g) scales[i * groups + g] = length / std::sqrt(squares);
    }
    return scales;
  }

  void make_cells(std::span<const double> scales, std::uint64_t most = kMost) {
    said_.lengths.assign(rows_, SquaredLength{~std::uint64_t{0}, ~std::uint64_t{0}});
    exact_.make_cells(*pass_, scales, most, said_.lengths);
  }

  Cells sum(std::span<const std::uint8_t> taken) {
    Cells sum(parameters_, 0);
    exact_.add_cells(*pass_, taken, sum);
    return sum;
  }

  Cells cells_of(std::size_t row) {
    std::vector<std::uint8_t> taken(rows_, 0);
    taken[row] = 1;
    return sum(taken);
  }

  Said said() {
    for (std::size_t row = 0; row < rows_; ++row) said_.cells.push_back(cells_of(row));
    return said_;
  }
  const std::vector<double>& squared_norms() const { return said_.squared_norms; }
  const std::vector<SquaredLength>& lengths() const { return said_.lengths; }

 private:
  const ExactClipping& exact_;
  std::size_t parameters_, rows_;
  std::unique_ptr<ExactClipping::Pass> pass_;
  Said said_;
};

Said said_of(const Program& program, const Batch& batch) {
  PassOver pass(program, batch);
  pass.make_cells(pass.scales_to(static_cast<double>(kMost)));
  return pass.said();
}

/// Numbers in the rows beside an example: numbers that overflow, are not finite, or are tiny.
constexpr std::array<float, 5> kNeighbours{
    std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
    std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(), -0.0f};

constexpr std::array<std::size_t, 10> kBatches{1, 2, 3, 7, 8, 16, 17, 33, 65, 257};

/// Returns a batch of other rows with the example among them.
Examples among_strangers(const Examples& examples, std::size_t row, std::size_t place,
                         std::size_t rows) {
  Examples batch;
  batch.row_size = examples.row_size;
  for (std::size_t i = 0; i < rows; ++i) {
    const Batch one = examples.one(i == place ? row : i % examples.rows());
    batch.targets.push_back(one.targets[0]);
    for (const float x : one.features)
      batch.features.push_back(i == place || i % 3 == 0 ? x : kNeighbours[i % kNeighbours.size()]);
  }
  return batch;
}

/// Calls check(batch, place, row, words) for examples at the beginning, in the middle and at the
/// end of batches of many sizes.
template <class Check>
void at_many_places(const Examples& examples, const Check& check) {
  for (const std::size_t rows : kBatches) {
    for (const std::size_t place : {std::size_t{0}, rows / 2, rows - 1}) {
      const std::size_t row = (place + rows) % examples.rows();
      check(among_strangers(examples, row, place, rows), place, row,
            "at place " + std::to_string(place) + " of " + std::to_string(rows));
    }
  }
}

void require_reproducible_rows(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const Examples examples = examples_for(network, 5);
  const std::size_t size = program.parameter_count();
  at_many_places(examples, [&](const Examples& batch, std::size_t place, std::size_t row,
                               const std::string& where) {
    require(same_bits(row_of(gradients(program, batch.all()), place, size),
                      gradients(program, examples.one(row))),
            in(network) + "the row of an example has other bits " + where);
  });
}

void require_groups(Program& program, const Network& network) {
  const ExactClipping& exact = exact_of(program);
  const std::size_t groups = groups_of(network).size();
  require(exact.groups() == groups, in(network) + "there are " + std::to_string(exact.groups()) +
                                        " groups, of layers with parameters " +
                                        std::to_string(groups));
  require(exact.microbatch_rows() > 0, in(network) + "microbatch_rows() is 0");
  require(exact.make_pass(1) != nullptr, in(network) + "make_pass() returns nothing");
}

/// Enough examples, in small passes, to find errors that affect one example in a hundred.
constexpr std::size_t kExamples = 1000, kPassRows = 10;

template <class Check>
void in_passes(const Examples& examples, const Check& check) {
  for (std::size_t first = 0; first < examples.rows(); first += kPassRows) {
    check(Batch{.features = std::span(examples.features)
                                .subspan(first * examples.row_size, kPassRows * examples.row_size),
                .targets = std::span(examples.targets).subspan(first, kPassRows)},
          first);
  }
}

void require_norms(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const auto groups = groups_of(network);
  in_passes(examples_for(network, kExamples), [&](const Batch& batch, std::size_t first) {
    const std::vector<float> rows = gradients(program, batch);
    const PassOver pass(program, batch);
    for (std::size_t i = 0; i < batch.rows(); ++i) {
      const std::vector<float> row = row_of(rows, i, program.parameter_count());
      for (std::size_t g = 0; g < groups.size(); ++g) {
        double squares = 0.0;
        for (const float x : std::span(row).subspan(groups[g].first, groups[g].second))
          squares += static_cast<double>(x) * static_cast<double>(x);
        const double given = pass.squared_norms()[i * groups.size() + g];
        require(close(given, squares, 1e-3, 1e-30),
                in(network) + "the squared norm of example " + std::to_string(first + i) +
                    " in group " + std::to_string(g) + " is " + format_number(given) +
                    ", of its row " + format_number(squares));
      }
    }
  });
}

/// Returns scales for a pass: all groups together have the allowed length, or half of it; each
/// group alone has the allowed length, so that no group hides another's errors; and all groups but
/// the first have a quarter of their scale.
std::vector<std::vector<double>> scales_for(const PassOver& pass, std::size_t groups) {
  const auto most = static_cast<double>(kMost);
  std::vector<std::vector<double>> all{pass.scales_to(most), pass.scales_to(0.5 * most)};
  if (groups == 1) return all;
  const std::vector<double>& norms = pass.squared_norms();
  for (std::size_t alone = 0; alone < groups; ++alone) {
    std::vector<double>& scales = all.emplace_back(norms.size(), 0.0);
    for (std::size_t i = alone; i < norms.size(); i += groups)
      if (std::isfinite(norms[i]) && norms[i] > 0.0) scales[i] = most / std::sqrt(norms[i]);
  }
  std::vector<double> own = all.front();
  for (std::size_t i = 0; i < own.size(); ++i) own[i] *= i % groups == 0 ? 1.0 : 0.25;
  all.push_back(std::move(own));
  return all;
}

/// \param row  the example's gradient.
/// \param scales  the scales of its groups.
/// \param length  the stated length of its cells.
void require_cells_of(const Cells& cells, std::span<const float> row,
                      std::span<const double> scales, const SquaredLength& length,
                      const Network& network, const std::string& example) {
  const auto groups = groups_of(network);
  Wide squares = 0;
  double away = 0.0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t j = groups[g].first; j < groups[g].first + groups[g].second; ++j) {
      const double difference =
          static_cast<double>(cells[j]) - scales[g] * static_cast<double>(row[j]);
      away += difference * difference;
      const auto size = static_cast<Wide>(std::abs(cells[j]));
      squares += size * size;
    }
  }
  const std::string whose = in(network) + "the cells of example " + example;
  require(std::sqrt(away) <= static_cast<double>(kMost) / 64.0,
          whose + " are " + format_number(std::sqrt(away) / static_cast<double>(kMost)) +
              " of the bound away from its scaled gradient");
  require(squares == wide(length), in(network) + "the squared length of the cells of example " +
                                       example + " is not what is said");
  require(squares <= Wide{kMost} * kMost, whose + " are longer than they may be");
}

/// Requires that cells are near scale * gradient, and have the stated length.
void require_cells(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const std::size_t groups = groups_of(network).size();
  in_passes(examples_for(network, kExamples), [&](const Batch& batch, std::size_t first) {
    const std::vector<float> rows = gradients(program, batch);
    PassOver pass(program, batch);
    for (const std::vector<double>& scales : scales_for(pass, groups)) {
      pass.make_cells(scales);
      for (std::size_t i = 0; i < batch.rows(); ++i) {
        require_cells_of(pass.cells_of(i), row_of(rows, i, program.parameter_count()),
                         std::span(scales).subspan(i * groups, groups), pass.lengths()[i], network,
                         std::to_string(first + i));
      }
    }
  });
}

/// Makes a thousand passes, in reused and in new memory, to find errors that occur in one of a
/// hundred passes, or only after some hundreds.
void require_thousand_passes(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const ExactClipping& exact = exact_of(program);
  const Examples examples = examples_for(network, 3);
  PassOver first(program, examples.all());
  const std::vector<double> scales = first.scales_to(static_cast<double>(kMost));
  first.make_cells(scales);
  const std::vector<std::uint8_t> all(examples.rows(), 1);
  const Cells wanted = first.sum(all);
  auto pass = exact.make_pass(examples.rows());
  for (int number = 2; number <= 1000; ++number) {
    if (number % 2 == 0 && number > 500) pass = exact.make_pass(examples.rows());
    std::vector<double> norms(scales.size(), std::numeric_limits<double>::quiet_NaN());
    std::vector<SquaredLength> lengths(examples.rows());
    Cells sum(program.parameter_count(), 0);
    exact.backward(examples.all(), *pass, norms);
    exact.make_cells(*pass, scales, kMost, lengths);
    exact.add_cells(*pass, all, sum);
    require(same_bits(norms, first.squared_norms()) && lengths == first.lengths() && sum == wanted,
            in(network) + "pass " + std::to_string(number) +
                " over the same examples has other norms, lengths or cells than the first");
  }
}

void require_cells_of_their_own(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const Examples examples = examples_for(network, 5);
  std::vector<Said> alone;
  for (std::size_t row = 0; row < examples.rows(); ++row)
    alone.push_back(said_of(program, examples.one(row)));
  const std::size_t groups = groups_of(network).size();
  at_many_places(examples, [&](const Examples& batch, std::size_t place, std::size_t row,
                               const std::string& where) {
    PassOver pass(program, batch.all());
    pass.make_cells(pass.scales_to(static_cast<double>(kMost)));
    const std::vector<double> norms(
        pass.squared_norms().begin() + static_cast<std::ptrdiff_t>(place * groups),
        pass.squared_norms().begin() + static_cast<std::ptrdiff_t>((place + 1) * groups));
    const Said& own = alone[row];
    require(same_bits(norms, own.squared_norms),
            in(network) + "the norm of an example has other bits " + where);
    require(pass.lengths()[place] == own.lengths[0],
            in(network) + "the length of an example's cells is another " + where);
    require(pass.cells_of(place) == own.cells[0],
            in(network) + "the cells of an example are others " + where);
  });
}

/// Requires that add_cells() adds only the selected examples, and keeps the sum's earlier content.
void require_sum(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const ExactClipping& exact = exact_of(program);
  const Examples examples = examples_for(network, 70);
  const Said said = said_of(program, examples.all());
  const std::size_t size = program.parameter_count();
  for (const std::size_t microbatch_rows : {std::size_t{70}, std::size_t{16}, std::size_t{1}}) {
    constexpr std::int64_t kBefore = std::numeric_limits<std::int64_t>::max();
    Cells sum(size, kBefore);
    std::vector<std::uint64_t> wanted(size, static_cast<std::uint64_t>(kBefore));
    const auto pass = exact.make_pass(microbatch_rows);
    for (std::size_t first = 0; first < examples.rows(); first += microbatch_rows) {
      const std::size_t rows = std::min(microbatch_rows, examples.rows() - first);
      const Batch batch{
          .features = std::span(examples.features)
                          .subspan(first * examples.row_size, rows * examples.row_size),
          .targets = std::span(examples.targets).subspan(first, rows)};
      std::vector<double> norms(rows * exact.groups());
      exact.backward(batch, *pass, norms);
      std::vector<double> scales(norms.size());
      std::vector<SquaredLength> lengths(rows);
      std::vector<std::uint8_t> taken(rows);
      for (std::size_t i = 0; i < rows; ++i) {
        double squares = 0.0;
        for (std::size_t g = 0; g < exact.groups(); ++g) squares += norms[i * exact.groups() + g];
        for (std::size_t g = 0; g < exact.groups(); ++g) {
          scales[i * exact.groups() + g] =
              squares == 0.0 ? 0.0 : static_cast<double>(kMost) / std::sqrt(squares);
        }
        taken[i] = (first + i) % 3 == 0 ? 0 : 1;
        for (std::size_t j = 0; taken[i] != 0 && j < size; ++j)
          wanted[j] += static_cast<std::uint64_t>(said.cells[first + i][j]);
      }
      exact.make_cells(*pass, scales, kMost, lengths);
      exact.add_cells(*pass, taken, sum);
    }
    for (std::size_t j = 0; j < size; ++j) {
      require(static_cast<std::uint64_t>(sum[j]) == wanted[j],
              in(network) + "passes of " + std::to_string(microbatch_rows) +
                  " examples do not add up their examples' cells modulo 2^64");
    }
  }
}

/// Checks the pieces of a sum that are added to existing numbers: for some examples, then for
/// different examples, then for the first examples again.
void require_pieces(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  const ExactClipping& exact = exact_of(program);
  const std::vector<std::size_t> ends(exact.piece_ends().begin(), exact.piece_ends().end());
  require(!ends.empty() && ends.back() == program.parameter_count(),
          in(network) + "the last piece does not end at the last parameter");
  for (std::size_t i = 0; i < ends.size(); ++i)
    require(ends[i] > (i == 0 ? 0 : ends[i - 1]), in(network) + "the ends of pieces do not ascend");

  constexpr std::size_t kRows = 70;
  const Examples examples = examples_for(network, kRows);
  const auto pass = exact.make_pass(kRows);
  std::vector<double> norms(kRows * exact.groups());
  exact.backward(examples.all(), *pass, norms);
  std::vector<double> scales(norms.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] =
        std::isfinite(norms[i]) && norms[i] > 0.0
            ? static_cast<double>(kMost) / std::sqrt(norms[i] * static_cast<double>(exact.groups()))
            : 0.0;
  }
  std::vector<SquaredLength> lengths(kRows);
  exact.make_cells(*pass, scales, kMost, lengths);
  constexpr std::int64_t kBefore = std::numeric_limits<std::int64_t>::max();
  std::array<std::vector<std::uint8_t>, 2> taken;  // all examples except every third
  std::array<Cells, 2> whole;
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t i = 0; i < kRows; ++i) taken[k].push_back(i % 3 == k ? 0 : 1);
    whole[k].assign(program.parameter_count(), kBefore);
    exact.add_cells(*pass, taken[k], whole[k]);
  }
  for (const std::size_t k : {0u, 1u, 0u}) {
    Cells sum(program.parameter_count(), kBefore);
    exact.choose(*pass, taken[k]);
    for (std::size_t i = ends.size(); i-- > 0;) {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      exact.add_piece(*pass, i, std::span(sum).subspan(begin, ends[i] - begin));
    }
    require(sum == whole[k], in(network) + "the pieces of a sum are not what add_cells() adds");
  }
}

void require_scale_of_nothing(Program& program, const Network& network) {
  Examples examples = examples_for(network, 3);
  std::vector<float> parameters = parameters_for(network);
  program.load_parameters(parameters);
  const auto groups = groups_of(network);
  PassOver finite(program, examples.all());
  // A scale of 0 in one group must not affect the other groups.
  for (std::size_t zero = 0; zero < groups.size(); ++zero) {
    std::vector<double> scales = finite.scales_to(0.5 * static_cast<double>(kMost));
    for (std::size_t i = 0; i < examples.rows(); ++i) scales[i * groups.size() + zero] = 0.0;
    finite.make_cells(scales);
    const Cells cells = finite.cells_of(1);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(groups[g].first);
      const bool nothing = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(groups[g].second),
                                       [](std::int64_t cell) { return cell == 0; });
      const bool wanted = g == zero || finite.squared_norms()[groups.size() + g] == 0.0;
      require(nothing == wanted, in(network) + "a scale of 0 in group " + std::to_string(zero) +
                                     " leaves cells there, or takes those of group " +
                                     std::to_string(g));
    }
  }
  // Parameters that are not finite must make all gradients not finite.
  for (float& parameter : parameters) parameter = std::numeric_limits<float>::quiet_NaN();
  program.load_parameters(parameters);
  PassOver pass(program, examples.all());
  double squares = 0.0;
  for (const double square : pass.squared_norms()) squares += square;
  require(!std::isfinite(squares), in(network) + "gradients that are not finite have finite norms");
  pass.make_cells(std::vector<double>(examples.rows() * groups.size(), 0.0));
  require(wide(pass.lengths()[0]) == 0 && pass.cells_of(0) == Cells(program.parameter_count(), 0),
          in(network) + "a gradient that is not finite has cells at a scale of 0");
}

bool same(const Said& a, const Said& b) {
  return same_bits(a.squared_norms, b.squared_norms) && a.lengths == b.lengths &&
         a.cells == b.cells;
}

void require_same_cells_on_every_executor(const Network& network, const ProgramMaker& make) {
  const Examples examples = examples_for(network, 70);
  SerialExecutor forwards;
  SerialExecutor backwards(true);
  TwoThreadExecutor threads;
  std::vector<Said> results;
  for (Executor* executor : std::initializer_list<Executor*>{&forwards, &backwards, &threads}) {
    const auto program = make(network, *executor);
    program->load_parameters(parameters_for(network));
    results.push_back(said_of(*program, examples.all()));
  }
  require(same(results[0], results[1]) && same(results[0], results[2]),
          in(network) + "norms, lengths or cells depend on the threads");
}

void require_passes_at_once(const Network& network, const ProgramMaker& make) {
  SerialExecutor executor;
  const Examples examples = examples_for(network, 20);
  const auto program = make(network, executor);
  program->load_parameters(parameters_for(network));
  const Said alone = said_of(*program, examples.all());
  for (const Said& result : on_two_threads([&] { return said_of(*program, examples.all()); }))
    require(same(alone, result), in(network) + "two passes at once disturb each other");
}

}  // namespace

void check_exact_program(Checker& checker, const std::vector<Network>& networks,
                         const ProgramMaker& make) {
  SerialExecutor executor;
  const auto first = make(networks.front(), executor);
  const bool reproducible = is_able<ReproducibleRows>(*first);
  const bool exact = is_able<ExactClipping>(*first);
  const auto each = [&](bool able, std::string_view name, void (*check)(Program&, const Network&)) {
    if (!able) {
      checker.skip(name, "programs do not offer it");
      return false;
    }
    return checker.rule(name, [&] {
      SerialExecutor serial;
      for (const Network& network : networks) check(*make(network, serial), network);
    });
  };
  each(reproducible, "rows_have_the_same_bits_at_any_place", require_reproducible_rows);
  // The other rules rely on this rule: with wrong groups, a program would write outside its memory.
  const bool sized = each(exact, "exact_groups_are_the_layers", require_groups);
  if (exact && !sized) return;
  const auto made = [&](std::string_view name, void (*check)(const Network&, const ProgramMaker&)) {
    if (!exact) return checker.skip(name, "programs do not offer it");
    checker.rule(name, [&] {
      for (const Network& network : networks) check(network, make);
    });
  };
  each(exact, "exact_norms_are_those_of_the_rows", require_norms);
  each(exact, "cells_are_the_scaled_gradients", require_cells);
  each(exact, "a_thousand_passes_are_alike", require_thousand_passes);
  each(exact, "cells_depend_on_their_example_alone", require_cells_of_their_own);
  each(exact, "cells_are_added_as_they_are", require_sum);
  each(exact && !exact_of(*first).piece_ends().empty(), "pieces_are_the_sum", require_pieces);
  each(exact, "a_scale_of_zero_takes_a_group_out", require_scale_of_nothing);
  made("cells_do_not_depend_on_threads", require_same_cells_on_every_executor);
  made("passes_run_concurrently", require_passes_at_once);
}

}  // namespace privgrad::testing
