// Programs that are almost exact: each breaks one promise of ReproducibleRows or ExactClipping.
#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>

#include "broken.hpp"
#include "exact_linear.hpp"
#include "privgrad/error.hpp"

namespace exact_rules_test {

using namespace privgrad;

namespace {

struct NoPass final : ExactLinear {
  using ExactLinear::ExactLinear;
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return nullptr; }
};
struct NoPassRows final : ExactLinear {
  using ExactLinear::ExactLinear;
  std::size_t microbatch_rows() const override { return 0; }
};
struct MiscountsGroups final : ExactLinear {
  using ExactLinear::ExactLinear;
  std::size_t groups() const override { return 2; }
};
struct OneScaleForAPass final : ExactLinear {
  using ExactLinear::ExactLinear;
  double scaled(const Cell& cell) const override {
    Cell other = cell;
    if (cell.scale != 0.0) other.scale = cell.scales[0];
    return other.right();
  }
};
struct ZeroTimesNan final : ExactLinear {
  using ExactLinear::ExactLinear;
  double scaled(const Cell& cell) const override {
    const double product = cell.scale * static_cast<double>(cell.x);
    return std::isnan(product) ? 7.0 : product;
  }
};
struct TurnsTheOthers final : ExactLinear {
  using ExactLinear::ExactLinear;
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override {
    ExactLinear::make_cells(pass, scales, most_cells, lengths);
    auto& cells = static_cast<Rows&>(pass).cells;
    for (std::size_t i = size(); i < cells.size(); ++i) cells[i] = -cells[i];
  }
};
struct Saturates final : ExactLinear {
  using ExactLinear::ExactLinear;
  std::int64_t added(std::int64_t sum, std::int64_t cell) const override {
    std::int64_t total = 0;
    return __builtin_add_overflow(sum, cell, &total) ? sum : total;
  }
};
struct Overwrites final : ExactLinear {
  using ExactLinear::ExactLinear;
  std::int64_t added(std::int64_t, std::int64_t cell) const override { return cell; }
};
struct PiecesEndEarly final : ExactLinear {
  explicit PiecesEndEarly(Network network) : ExactLinear(std::move(network)) { --ends_.back(); }
};
struct PiecesAreEmpty final : ExactLinear {
  explicit PiecesAreEmpty(Network network) : ExactLinear(std::move(network)) {
    ends_.insert(ends_.begin(), 1);
  }
};
/// Like a program that removes examples from a pass for good.
struct ForgetsTheOthers final : ExactLinear {
  using ExactLinear::ExactLinear;
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
    auto& rows = static_cast<Rows&>(pass);
    ExactLinear::choose(pass, taken);
    for (std::size_t i = 0; i < rows.cells.size(); ++i)
      if (taken[i / size()] == 0) rows.cells[i] = 0;
  }
};
struct PiecesOfAll final : ExactLinear {
  using ExactLinear::ExactLinear;
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
    ExactLinear::choose(pass, std::vector<std::uint8_t>(taken.size(), 1));
  }
};
struct SetsPieces final : ExactLinear {
  using ExactLinear::ExactLinear;
  void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override {
    std::fill(sum.begin(), sum.end(), 0);
    ExactLinear::add_piece(pass, piece, sum);
  }
};
/// Like kernels that process four rows at a time, with another order of additions for the remaining
/// ones.
struct RoundsByPlace final : ExactLinear {
  using ExactLinear::ExactLinear;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    ExactLinear::gradient_rows(batch, rows);
    const std::size_t end = batch.rows() / 4 * 4;
    for (std::size_t i = 0; i < end * size(); ++i) rows[i] = std::nextafter(rows[i], 1e30f);
  }
};
/// An example that is NaN affects how the others are rounded.
struct LooksAside final : ExactLinear {
  using ExactLinear::ExactLinear;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    ExactLinear::backward(batch, pass, squared_norms);
    for (const double square : squared_norms) {
      if (std::isnan(square)) squared_norms[0] *= 1.0 + 1e-9;
    }
  }
};
struct DependsOnChunks final : ExactLinear {
  DependsOnChunks(Network network, Executor& executor)
      : ExactLinear(std::move(network)), executor_(executor) {}
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    ExactLinear::backward(batch, pass, squared_norms);
    std::size_t last = 0;
    executor_.for_each_chunk(2, [&](std::size_t chunk) { last = chunk; });
    if (last == 0) squared_norms[0] *= 1.0 + 1e-9;
  }
  Executor& executor_;
};
struct OneMemory final : ExactLinear {
  using ExactLinear::ExactLinear;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    ExactLinear::backward(batch, pass, squared_norms);
    if (std::this_thread::get_id() != home_) squared_norms[0] *= 1.0 + 1e-9;
  }
  std::thread::id home_ = std::this_thread::get_id();
};

template <class Impl>
Findings findings() {
  return findings_on<Backend, OneLayerBackend<Impl>>();
}

}  // namespace

TEST_CASE("each rule of exact programs can fail") {
  Findings right = findings<ExactLinear>();
  std::erase_if(right, [](const auto& one) { return exact_rules().count(one.rule) == 0; });
  CHECK(right.size() == exact_rules().size());
  check_rules_can_fail(
      right,
      {{"rows_have_the_same_bits_at_any_place", "other bits at place", findings<RoundsByPlace>()},
       {"exact_groups_are_the_layers", "make_pass() returns nothing", findings<NoPass>()},
       {"exact_groups_are_the_layers", "microbatch_rows() is 0", findings<NoPassRows>()},
       {"exact_groups_are_the_layers", "there are 2 groups", findings<MiscountsGroups>()},
       {"exact_norms_are_those_of_the_rows", "the squared norm",
        findings_on("exact_program/norm_zero")},
       {"exact_norms_are_those_of_the_rows", "the squared norm",
        findings_on("exact_program/norm_a_tenth")},
       {"exact_norms_are_those_of_the_rows", "the squared norm",
        findings_on("exact_program/norm_without_biases")},
       {"cells_are_the_scaled_gradients", "away from its scaled gradient",
        findings_on("exact_program/cells_ignore_scales")},
       {"cells_are_the_scaled_gradients", "away from its scaled gradient",
        findings<OneScaleForAPass>()},
       {"cells_are_the_scaled_gradients", "away from its scaled gradient",
        findings_on("exact_program/cells_coarse")},
       {"cells_are_the_scaled_gradients", "longer than they may be",
        findings_on("exact_program/cells_rounded_away")},
       {"cells_are_the_scaled_gradients", "not what is said",
        findings_on("exact_program/length_half")},
       {"cells_are_the_scaled_gradients", "away from its scaled gradient",
        findings_on("exact_program/thrice_one_example_in_a_hundred")},
       {"cells_are_the_scaled_gradients", "not what is said",
        findings_on("exact_program/rounded_to_nearest_told_short")},
       {"a_thousand_passes_are_alike", "pass ",
        findings_on("exact_program/twice_in_one_pass_of_101")},
       {"cells_depend_on_their_example_alone", "the norm of an example", findings<LooksAside>()},
       {"cells_depend_on_their_example_alone", "the length of an example's cells",
        findings<OneScaleForAPass>()},
       {"cells_depend_on_their_example_alone", "the cells of an example",
        findings<TurnsTheOthers>()},
       {"cells_are_added_as_they_are", "modulo 2^64",
        findings_on("exact_program/adds_what_was_left_out")},
       {"cells_are_added_as_they_are", "modulo 2^64", findings<Saturates>()},
       {"cells_are_added_as_they_are", "modulo 2^64", findings<Overwrites>()},
       {"pieces_are_the_sum", "does not end at the last parameter", findings<PiecesEndEarly>()},
       {"pieces_are_the_sum", "do not ascend", findings<PiecesAreEmpty>()},
       {"pieces_are_the_sum", "not what add_cells() adds", findings<PiecesOfAll>()},
       {"pieces_are_the_sum", "not what add_cells() adds", findings<ForgetsTheOthers>()},
       {"pieces_are_the_sum", "not what add_cells() adds", findings<SetsPieces>()},
       {"a_scale_of_zero_takes_a_group_out", "a scale of 0 in group 0",
        findings_on("exact_program/cells_ignore_scales")},
       {"a_scale_of_zero_takes_a_group_out", "have finite norms",
        findings_on("exact_program/norm_finite_always")},
       {"a_scale_of_zero_takes_a_group_out", "has cells at a scale of 0", findings<ZeroTimesNan>()},
       {"cells_do_not_depend_on_threads", "depend on the threads", findings<DependsOnChunks>()},
       {"passes_run_concurrently", "disturb each other", findings<OneMemory>()}});
}

TEST_CASE("programs without exact sums are not examined for them, and told so") {
  const Findings plain = findings_on<Backend, OneLayerBackend<LinearProgram>>();
  for (const std::string& rule : exact_rules()) {
    const auto* finding = find_rule(plain, rule);
    REQUIRE(finding != nullptr);
    CHECK(finding->verdict == testing::Verdict::skipped);
    CHECK(finding->detail == "programs do not offer it");
  }
}

}  // namespace exact_rules_test
