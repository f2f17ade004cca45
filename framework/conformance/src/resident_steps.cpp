#include "privgrad/resident_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "inputs.hpp"
#include "program_inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

using CellList = std::vector<std::int64_t>;
using Places = std::vector<std::uint64_t>;
using Numbers = ResidentSteps::Numbers;

constexpr std::size_t kResidentRows = 20;

constexpr std::array<Numbers, 3> kNumbers = {Numbers::parameters, Numbers::first_state,
                                             Numbers::second_state};
constexpr std::array<StepRule::Kind, 3> kKinds = {StepRule::Kind::descent, StepRule::Kind::momentum,
                                                  StepRule::Kind::adam};

std::string words(const Network& network) { return "in " + text_of(network) + ", "; }

/// A program under test, and a pass with the cells of some examples.
class Bench {
 public:
  Bench(Program& program, const Network& network)
      : program_(program),
        exact_(dynamic_cast<const ExactClipping&>(program)),
        resident_(dynamic_cast<ResidentSteps&>(program)),
        where_(words(network)),
        size_(program.parameter_count()),
        examples_(examples_for(network, kResidentRows)),
        data_(network.input, examples_.features, examples_.targets) {
    program_.load_parameters(parameters_for(network));
    pass_ = exact_.make_pass(kResidentRows);
    std::vector<double> scales(kResidentRows * exact_.groups());
    exact_.backward(examples_.all(), *pass_, scales);
    for (double& scale : scales) {
      const double squares = scale * static_cast<double>(exact_.groups());
      scale = std::isfinite(squares) && squares > 0.0
                  ? static_cast<double>(kMost) / std::sqrt(squares)
                  : 0.0;
    }
    std::vector<SquaredLength> lengths(kResidentRows);
    exact_.make_cells(*pass_, scales, kMost, lengths);
  }

  const std::string& where() const { return where_; }
  std::size_t size() const { return size_; }
  ResidentSteps& resident() { return resident_; }
  const Examples& examples() const { return examples_; }
  const Dataset& data() const { return data_; }

  /// Selects all rows except every third, starting with row `first`.
  static std::vector<std::uint8_t> some(std::size_t first) {
    std::vector<std::uint8_t> taken(kResidentRows, 1);
    for (std::size_t i = first; i < kResidentRows; i += 3) taken[i] = 0;
    return taken;
  }

  CellList sum_of(const std::vector<std::uint8_t>& taken) const {
    CellList sum(size_, 0);
    exact_.add_cells(*pass_, taken, sum);
    return sum;
  }
  CellList cells_of(std::size_t row) const {
    std::vector<std::uint8_t> taken(kResidentRows, 0);
    taken[row] = 1;
    return sum_of(taken);
  }
  void add(const std::vector<std::uint8_t>& taken, ResidentSteps::Memory& memory) const {
    resident_.add_to_sum(*pass_, taken, memory);
  }

  std::unique_ptr<ResidentSteps::Memory> memory(std::size_t vectors) const {
    auto made = resident_.make_memory(vectors, data_);
    require(made != nullptr, "make_memory() returns nothing");
    return made;
  }

  Places all() const {
    Places places(size_);
    std::iota(places.begin(), places.end(), std::uint64_t{0});
    return places;
  }
  CellList cells_at(ResidentSteps::Memory& memory, ResidentSteps::Cells what,
                    const Places& places) const {
    CellList found(places.size(), 77);
    resident_.cells_at(memory, what, places, found);
    resident_.settle(memory);
    return found;
  }
  CellList cells(ResidentSteps::Memory& memory, ResidentSteps::Cells what) const {
    return cells_at(memory, what, all());
  }
  std::vector<float> numbers(const ResidentSteps::Memory& memory, Numbers what) const {
    std::vector<float> found(size_, 77.0f);
    resident_.numbers(memory, what, found);
    return found;
  }

  std::vector<CellFactors> factors(const Places& places) const {
    std::vector<CellFactors> found(kResidentRows * places.size(), {.left = 77, .right = 77});
    const auto memory = this->memory(0);
    resident_.factors_at(*pass_, places, *memory, found);
    resident_.settle(*memory);
    return found;
  }

  std::vector<CellList> chunks_of(const CellList& cells) const {
    std::vector<CellList> chunks;
    for (std::size_t begin = 0; begin < size_; begin += ResidentSteps::kChunk) {
      const auto first = cells.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::size_t count = std::min(ResidentSteps::kChunk, size_ - begin);
      chunks.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
    }
    return chunks;
  }

 private:
  Program& program_;
  const ExactClipping& exact_;
  ResidentSteps& resident_;
  std::string where_;
  std::size_t size_;
  Examples examples_;
  Dataset data_;
  std::unique_ptr<ExactClipping::Pass> pass_;
};

/// Clips some rows in the program's memory, and clips the same examples by ExactClipping.
class ClippedBoth {
 public:
  ClippedBoth(const ExactClipping& exact, const Dataset& data, const ClipRule& rule)
      : exact_(exact),
        groups_(exact.groups()),
        scaling_{.rule = rule,
                 .clip_norm = 1.0,
                 .cells_of_a_unit = static_cast<double>(kMost),
                 .most_cells = kMost} {
    for (std::size_t i = 0; i < kResidentRows; i += 3) {
      rows_.push_back(static_cast<std::uint32_t>(i * 7 % kResidentRows));
    }
    features_.resize(rows_.size() * data.row_size());
    targets_.resize(rows_.size());
    data.gather(rows_, features_, targets_);
  }

  void check(const ResidentSteps& resident, ResidentSteps::Memory& memory,
             const std::string& where) const {
    const auto own = exact_.make_pass(kResidentRows), other = exact_.make_pass(kResidentRows);
    Found found(rows_.size(), groups_), expected(rows_.size(), groups_);
    resident.clip_rows(*own, rows_, scaling_, memory, found.spans());
    resident.settle(memory);
    const std::size_t size = features_.size() / rows_.size();
    for (std::size_t i = 0; i < rows_.size(); ++i)
      expected.checksums[i] =
          example_checksum(std::span(features_).subspan(i * size, size), targets_[i]);
    require(found.checksums == expected.checksums,
            where + "clip_rows() gives other checksums than those of the rows that it is given");
    exact_.backward({features_, targets_}, *other, expected.norms);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      cell_scales(scaling_, std::span(expected.norms).subspan(i * groups_, groups_),
                  std::span(expected.scales).subspan(i * groups_, groups_));
    exact_.make_cells(*other, expected.scales, kMost, expected.lengths);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      expected.taken[i] = expected.lengths[i] <= SquaredLength{0, kMost * kMost} ? 1 : 0;
    for (std::size_t i = 0; i < expected.norms.size(); ++i)
      require(same_bits(found.norms[i], expected.norms[i]) || std::isnan(expected.norms[i]),
              where + "clip_rows() finds other norms than backward()");
    require(std::equal(found.scales.begin(), found.scales.end(), expected.scales.begin(),
                       [](double x, double y) { return same_bits(x, y); }),
            where + "clip_rows() gives other scales than cell_scales()");
    require(found.lengths == expected.lengths,
            where + "clip_rows() makes cells of other lengths than make_cells()");
    require(found.taken == expected.taken,
            where + "clip_rows() takes other examples than those within the bound");
    resident.clear_sum(memory);
    resident.add_to_sum(*own, {}, memory);
    const std::size_t parameters = dynamic_cast<const Program&>(exact_).parameter_count();
    CellList sum(parameters, 77), wanted(parameters, 0);
    Places all(parameters);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    resident.cells_at(memory, ResidentSteps::Cells::sum, all, sum);
    resident.settle(memory);
    exact_.add_cells(*other, expected.taken, wanted);
    require(sum == wanted, where + "add_to_sum() does not add the cells that clip_rows() took");
  }

 private:
  struct Found {
    Found(std::size_t rows, std::size_t groups)
        : norms(rows * groups, 77.0),
          scales(rows * groups, 77.0),
          lengths(rows, SquaredLength{7, 7}),
          taken(rows, 77),
          checksums(rows, 77) {}
    ResidentSteps::Clipped spans() { return {norms, scales, lengths, taken, checksums}; }
    std::vector<double> norms, scales;
    std::vector<SquaredLength> lengths;
    std::vector<std::uint8_t> taken;
    std::vector<std::uint64_t> checksums;
  };

  const ExactClipping& exact_;
  std::size_t groups_;
  CellScaling scaling_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> features_, targets_;
};

void require_clipped_rows(Program& program, const Network& network) {
  Bench bench(program, network);
  const auto memory = bench.memory(0);
  const auto& exact = dynamic_cast<const ExactClipping&>(program);
  const auto groups = static_cast<double>(exact.groups());
  for (const ClipRule& rule :
       {ClipRule{.kind = ClipRule::Kind::shorten, .gamma = 0.0, .bounds = {1.0}},
        ClipRule{.kind = ClipRule::Kind::shorten,
        .gamma = 0.0,
        .bounds = std::vector<double>(exact.groups(), 1.0 / std::sqrt(groups))},
        ClipRule{.kind = ClipRule::Kind::normalize, .gamma = 0.0, .bounds = {1.0}},
        ClipRule{.kind = ClipRule::Kind::normalize, .gamma = 0.01, .bounds = {1.0}}})
    ClippedBoth(exact, bench.data(), rule).check(bench.resident(), *memory, bench.where());
}

/// Returns some places in arbitrary order, one place twice.
Places mixed(const Places& all) {
  Places places;
  for (std::size_t i = all.size(); i-- > 0;)
    if (i % 2 == 0 || i + 5 > all.size()) places.push_back(all[i]);
  places.push_back(all.front());
  return places;
}

void require_resident_sums(Program& program, const Network& network) {
  Bench bench(program, network);
  const auto memory = bench.memory(0), other = bench.memory(0);
  const auto first = Bench::some(0), second = Bench::some(1);
  const CellList one = bench.sum_of(first), two = bench.sum_of(second);
  bench.resident().clear_sum(*memory);
  bench.add(first, *memory);
  bench.add(second, *memory);
  bench.resident().clear_sum(*other);
  CellList both(one);
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += two[i];
  const auto sum = [&](ResidentSteps::Memory& of) {
    return bench.cells(of, ResidentSteps::Cells::sum);
  };
  require(sum(*memory) == both, words(network) + "add_to_sum() does not add what add_cells() adds");
  require(sum(*other) == CellList(bench.size(), 0),
          words(network) + "a sum that was cleared is not 0, or is that of another memory");
  const Places places = mixed(bench.all());
  const CellList found = bench.cells_at(*memory, ResidentSteps::Cells::sum, places);
  for (std::size_t i = 0; i < places.size(); ++i)
    require(found[i] == both[places[i]], words(network) + "cells_at() gives cells of other places");
  bench.resident().clear_sum(*memory);
  bench.add(second, *memory);
  require(sum(*memory) == two, words(network) + "clear_sum() leaves something of the sum before");
}

void require_factors(Program& program, const Network& network) {
  const Bench bench(program, network);
  const Places places = mixed(bench.all());
  const std::vector<CellFactors> factors = bench.factors(places);
  for (std::size_t row = 0; row < kResidentRows; ++row) {
    const CellList cells = bench.cells_of(row);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const CellFactors& own = factors[row * places.size() + i];
      require(std::int64_t{own.left} * own.right == cells[places[i]],
              words(network) + "the factors of example " + std::to_string(row) + " at parameter " +
                  std::to_string(places[i]) + " are not those of its cell");
    }
  }
}

/// The scale of a release's noise: as in real releases, or at an end of the range.
struct Noise {
  double sigma;
  unsigned shift;
};
constexpr std::array<Noise, 6> kNoises = {
    {{0x1.3p26, 17}, {0x1.9p28, 19}, {3.75, 0}, {0x1p-64, 0}, {0x1.8p59, 50}, {0x1p60, 0}}};

/// Releases `sum`, which is in the memory, and then computes the chunks that the program leaves
/// open, as the core does.
void release_all(Checker& checker, Bench& bench, ResidentSteps::Memory& memory,
                 const NoiseOrder& order, const CellList& sum) {
  const auto sums = bench.chunks_of(sum);
  const std::vector<std::uint64_t> open = bench.resident().release(memory, order);
  // Checks this before using the chunks, because a wrong chunk number would crash this process.
  require(std::ranges::is_sorted(open) && (open.empty() || open.back() < sums.size()),
          bench.where() + "release() leaves open chunks that do not exist");
  for (const std::uint64_t chunk : open) {
    CellList cells(sums[chunk].size());
    checker.setup().release(order, chunk * ResidentSteps::kChunk, sums[chunk], cells);
    bench.resident().put_released(memory, chunk, cells);
  }
}

void require_noise(Checker& checker, Program& program, const Network& network) {
  const auto& setup = checker.setup();
  Bench bench(program, network);
  const auto memory = bench.memory(0);
  bench.resident().clear_sum(*memory);
  bench.add(Bench::some(0), *memory);
  const CellList sum = bench.sum_of(Bench::some(0));
  std::uint64_t number = 0;
  for (const Noise& noise : kNoises) {
    const NoiseOrder order = setup.make_noise_order(++number, noise.sigma, noise.shift);
    release_all(checker, bench, *memory, order, sum);
    CellList expected(bench.size());
    setup.release(order, 0, sum, expected);
    require(bench.cells(*memory, ResidentSteps::Cells::released) == expected,
            words(network) + "a release does not have the ordered noise, of sigma " +
                format_number(noise.sigma) + " and shift " + std::to_string(noise.shift));
    require(bench.cells(*memory, ResidentSteps::Cells::sum) == sum,
            words(network) + "release() changes the sum");
  }
}

StepRule rule_of(StepRule::Kind kind) {
  return {.kind = kind,
          .rate = 0.1 / 3.0,
          .keep = 0.9,
          .take = 0.1,
          .keep_squares = 0.999,
          .take_squares = 1.0 - 0.999,
          .root_scale = 1.0 / 0.7,
          .epsilon = 1e-8};
}

std::vector<float> gradients_of(const CellList& cells, double width) {
  std::vector<float> gradient;
  for (const std::int64_t cell : cells)
    gradient.push_back(static_cast<float>(static_cast<double>(cell) * width));
  return gradient;
}

/// Returns a memory whose released cells are near `size`.
std::unique_ptr<ResidentSteps::Memory> with_release(Checker& checker, Bench& bench,
                                                    StepRule::Kind kind, std::uint64_t number) {
  auto memory = bench.memory(state_vectors(kind));
  bench.resident().clear_sum(*memory);
  const NoiseOrder order = checker.setup().make_noise_order(number, 900.0, 0);
  release_all(checker, bench, *memory, order, CellList(bench.size(), 0));
  return memory;
}

void require_updates(Checker& checker, Program& program, const Network& network) {
  constexpr double kWidth = 1.0 / 700.0;
  for (const StepRule::Kind kind : kKinds) {
    Bench bench(program, network);
    const auto memory = with_release(checker, bench, kind, 5);
    const std::size_t vectors = 1 + state_vectors(kind);
    std::vector<std::vector<float>> expected(3);
    for (std::size_t i = 0; i < vectors; ++i) expected[i] = bench.numbers(*memory, kNumbers[i]);
    require(same_bits(expected[0], parameters_for(network)),
            words(network) + "its parameters are not those that it was given");
    for (std::size_t i = 1; i < vectors; ++i)
      require(same_bits(expected[i], std::vector<float>(bench.size(), 0.0f)),
              words(network) + "the optimizer's state does not begin as zeros");
    for (int step = 0; step < 3; ++step) {
      StepRule rule = rule_of(kind);
      rule.rate *= 1.0 + step;
      const auto released = bench.cells(*memory, ResidentSteps::Cells::released);
      apply(rule, expected[0], expected[1], expected[2], gradients_of(released, kWidth));
      require(bench.resident().update(*memory, rule, kWidth) == ResidentSteps::Moved::yes,
              words(network) + "update() refuses an ordinary step");
      for (std::size_t i = 0; i < vectors; ++i) {
        require(same_bits(bench.numbers(*memory, kNumbers[i]), expected[i]),
                words(network) + "update() moves " +
                    (i == 0 ? "parameters" : "the optimizer's state") +
                    " otherwise than by its rule");
        const Places places = mixed(bench.all());
        std::vector<float> found(places.size()), wanted;
        bench.resident().numbers_at(*memory, kNumbers[i], places, found);
        bench.resident().settle(*memory);
        for (const std::uint64_t place : places) wanted.push_back(expected[i][place]);
        require(same_bits(found, wanted), words(network) + "numbers_at() gives other numbers");
      }
    }
    // Checks that the program computes with the values that it reports.
    const Evaluation moved = program.evaluate(bench.examples().all());
    program.load_parameters(expected[0]);
    require(same_bits(moved.loss, program.evaluate(bench.examples().all()).loss),
            words(network) + "update() leaves the parameters that it computes with");
  }
}

void require_refused_updates(Checker& checker, Program& program, const Network& network) {
  for (const StepRule::Kind kind : kKinds) {
    const std::vector<float> before = parameters_for(network);
    const auto refused = [&](double rate, double width, ResidentSteps::Moved expected,
                             const std::string& what) {
      Bench bench(program, network);
      const auto memory = with_release(checker, bench, kind, 6);
      StepRule rule = rule_of(kind);
      rule.rate = rate;
      require(bench.resident().update(*memory, rule, width) == expected,
              words(network) + "update() does not say that " + what + " is not finite");
      require(same_bits(bench.numbers(*memory, Numbers::parameters), before),
              words(network) + "update() moves parameters where " + what + " is not finite");
    };
    refused(0.1, 1e300, ResidentSteps::Moved::gradient_not_finite, "a gradient");
    refused(3e38, 1e30, ResidentSteps::Moved::parameters_not_finite, "a parameter");
  }
}

void require_given_numbers(Program& program, const Network& network) {
  Bench bench(program, network);
  const auto memory = bench.memory(2), other = bench.memory(2);
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    const std::vector<float> given = normal_values(40 + i, bench.size());
    bench.resident().put_numbers(*memory, kNumbers[i], given);
    require(same_bits(bench.numbers(*memory, kNumbers[i]), given),
            words(network) + "numbers() gives other numbers than put_numbers() took");
    if (i == 0) continue;
    require(same_bits(bench.numbers(*other, kNumbers[i]), std::vector<float>(bench.size(), 0.0f)),
            words(network) + "two memories have one state");
  }
  const std::vector<float> loaded = parameters_for(network, 34);
  program.load_parameters(loaded);
  require(same_bits(bench.numbers(*memory, Numbers::parameters), loaded),
          words(network) + "its parameters are not those that it was given");
}

/// Returns the networks and, as far as the program supports them, two with more than two chunks of
/// noise, of which the last is incomplete.
std::vector<Network> with_a_large_one(const std::vector<Network>& networks,
                                      const ProgramMaker& make) {
  std::vector<Network> all = networks;
  Network large;
  large.input = {.features = {76}, .classes = 3};
  large.nodes = {Dense{30}, Activation{ActivationKind::tanh}, Dense{3}};
  Network single = large;
  single.input.features = {999};
  single.nodes = {Dense{3}};
  SerialExecutor executor;
  for (const Network& network : {large, single}) {
    try {
      static_cast<void>(make(network, executor));
      all.push_back(network);
    } catch (const ConfigError&) {  // NOLINT(bugprone-empty-catch): not one of its networks
    }
  }
  return all;
}

}  // namespace

void check_resident_steps(Checker& checker, const std::vector<Network>& networks,
                          const ProgramMaker& make) {
  SerialExecutor executor;
  const auto first = make(networks.front(), executor);
  const bool able = is_able<ResidentSteps>(*first);
  const bool exact = is_able<ExactClipping>(*first);
  const bool has_noise = static_cast<bool>(checker.setup().make_noise_order);
  const auto each = [&](std::string_view name, bool needs_noise, const auto& check) {
    if (!able) return checker.skip(name, "programs do not offer it");
    if (needs_noise && !has_noise) return checker.skip(name, "orders of noise cannot be made here");
    checker.rule(name, [&] {
      require(exact, "its programs offer ResidentSteps, and no ExactClipping");
      SerialExecutor serial;
      for (const Network& network : with_a_large_one(networks, make))
        check(*make(network, serial), network);
    });
  };
  const auto with_checker = [&](void (*check)(Checker&, Program&, const Network&)) {
    return [&checker, check](Program& program, const Network& network) {
      check(checker, program, network);
    };
  };
  each("resident_rows_are_clipped_by_the_rule", false, require_clipped_rows);
  each("resident_sums_are_the_cells", false, require_resident_sums);
  each("resident_factors_are_the_cells", false, require_factors);
  each("resident_releases_have_the_ordered_noise", true, with_checker(require_noise));
  each("resident_updates_follow_the_rule", true, with_checker(require_updates));
  each("resident_updates_refuse_what_is_not_finite", true, with_checker(require_refused_updates));
  each("resident_numbers_are_as_given", false, require_given_numbers);
}

}  // namespace privgrad::testing
