#include "privgrad/trust/contribution_check.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "exact_echo.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"

using namespace privgrad;
using core::ContributionCheck;
using core::ContributionChecks;

namespace {

using Cells = std::vector<std::int64_t>;
using Rows = std::vector<std::uint32_t>;
constexpr std::size_t kTwoGroups = 2;

/// Returns examples with lengths below and above 1; every seventh is not finite.
Dataset examples(std::size_t count) {
  std::vector<float> features, targets;
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t i = 0; i < 2 * kTwoGroups; ++i)
      features.push_back(0.1f * static_cast<float>(1 + (row * 5 + i * 3) % 11));
    targets.push_back(row % 7 == 6 ? static_cast<float>(1 + row % 3) : 0.0f);
  }
  return Dataset(ExampleShape{{2 * kTwoGroups}, 0}, std::move(features), std::move(targets));
}

std::vector<ParameterGroup> pairs() { return {{"layers.0", 0, 2}, {"layers.1", 2, 2}}; }

struct Checked {
  Cells sum;
  bool differs = false;
};

constexpr std::size_t kPassRows = 8;

/// Checks a single example.
ContributionCheck check_of(std::size_t place, std::size_t examples) {
  const std::size_t first = place / kPassRows * kPassRows;
  ContributionCheck check{.place = place, .program = "test/program", .clipping = "test/clipping"};
  check.others.assign(1, (place - first) % std::min(kPassRows, examples - first));
  return check;
}

/// Returns the sum of all examples, with a check of the example at `place`.
Checked checked_sum(const Program& program, const Dataset& data, std::size_t place,
                    const Clipping& rule = flat_clipping(), double count_share = 0.0,
                    bool of_all = false) {
  const auto groups = pairs();
  Rows rows(data.rows());
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  ContributionCheck check = check_of(place, data.rows());
  check.is_of_all = of_all;
  const core::Clip clip{
      .rule = rule, .groups = groups, .clip_norm = 1.0, .count_share = count_share};
  const auto sum =
      core::exact_sum(program, data, rows, clip, serial, 0, nullptr, PrivacyUnit::example, &check);
  return {core::cells_for_testing(sum), check.differs};
}

/// Rows whose last bit depends on the other examples.
struct RowsMindNeighbours : Program {
  std::size_t parameter_count() const override { return 2 * kTwoGroups; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    echo.gradient_rows(batch, rows);
    float& cell = rows[minded * rows.size() / batch.rows()];
    if (batch.rows() > minded + 1) cell = std::nextafter(cell, 10.0f);
  }
  Evaluation evaluate(const Batch&) const override { return {}; }
  EchoProgram echo{2 * kTwoGroups};
  std::size_t minded = 0;  ///< The place in the batch whose row is changed.
};
struct BreaksItsPromise final : RowsMindNeighbours, ReproducibleRows {};

}  // namespace

TEST_CASE("checks of contributions change no sum, and find nothing in programs that are right",
          "[checks][exact]") {
  const Dataset data = examples(19);  // three passes
  const auto groups = pairs();
  for (const double share : {0.0, 0.3}) {
    for (const Program* program :
         {static_cast<const Program*>(new ExactEcho(kTwoGroups)),
          static_cast<const Program*>(new EchoProgram(2 * kTwoGroups)),
          static_cast<const Program*>(new ExactEcho(kTwoGroups, ExactEcho::Fault::too_long)),
          static_cast<const Program*>(
              new ExactEcho(kTwoGroups, ExactEcho::Fault::forgets_lengths))}) {
      const std::unique_ptr<const Program> owned(program);
      Rows rows(data.rows());
      for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
      const Cells plain = core::cells_for_testing(core::exact_sum(
          *program, data, rows,
          {.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0, .count_share = share},
          serial));
      for (std::size_t place = 0; place < data.rows(); ++place) {
        for (const bool of_all : {false, true}) {
          const Checked checked =
              checked_sum(*program, data, place, flat_clipping(), share, of_all);
          CHECK(checked.sum == plain);
          CHECK_FALSE(checked.differs);
        }
      }
    }
  }
}

TEST_CASE("a contribution that proves its program faulty is found, whichever it is",
          "[checks][privacy]") {
  using Fault = ExactEcho::Fault;
  const Dataset data = examples(19);
  const auto found = [&](Fault fault, const std::string& words) {
    INFO(words);
    const ExactEcho program(kTwoGroups, fault);
    for (std::size_t place = 0; place < data.rows(); ++place) {
      if (place % 7 == 6) continue;  // not finite: it counts as zero, with length zero
      CHECK_THROWS_AS(checked_sum(program, data, place), PluginError);
      CHECK_THROWS_WITH(checked_sum(program, data, place), ContainsSubstring("test/program: ") &&
                                                               ContainsSubstring(words) &&
                                                               !ContainsSubstring("\n"));
    }
  };
  found(Fault::certifies_one_off, "cells are not as long as was certified");
  found(Fault::minds_neighbours, "in a pass of its own than beside others");
  found(Fault::turns_beside_neighbours, "other cells in a pass of its own");
  found(Fault::certifies_other_alone, "another length in a pass of its own");
  found(Fault::norms_mind_neighbours, "other gradient norms in a pass of its own");
  found(Fault::adds_more, "a sum of cells is not that of its examples' cells");
  // Doubled cells are noticed in examples at least half as long as the bound.
  const ExactEcho lies(kTwoGroups, Fault::certifies_less);
  CHECK_THROWS_WITH(
      checked_sum(lies, data, 1),
      ContainsSubstring("test/program: an example's cells are longer than the bound"));
}

TEST_CASE("cells that are no longer than the bound and not the gradient's are only said",
          "[checks]") {
  const Dataset data = examples(19);
  for (const std::size_t place : {0u, 8u, 18u})
    CHECK(checked_sum(ExactEcho(kTwoGroups, ExactEcho::Fault::far_from_rows), data, place).differs);
}

TEST_CASE("a clipping that remembers is found", "[checks][privacy]") {
  int calls = 0;
  const ScriptedClipping remembers([&](auto, double, auto factors) {
    std::fill(factors.begin(), factors.end(), 1e-3 * (1 + ++calls % 5));
  });
  CHECK_THROWS_WITH(checked_sum(ExactEcho(kTwoGroups), examples(19), 3, remembers),
                    ContainsSubstring("test/clipping: gave other factors"));
}

TEST_CASE("a row that is another one beside others ends a run where its bits are promised",
          "[checks][privacy]") {
  const Dataset data = examples(5);
  for (std::size_t place = 0; place < 4; ++place) {
    BreaksItsPromise program;
    program.minded = place;
    CHECK_THROWS_WITH(checked_sum(program, data, place),
                      ContainsSubstring("test/program: an example has another gradient row alone"));
    CHECK_FALSE(checked_sum(program, data, 4).differs);
  }
  // Without the promise, rows may be rounded differently.
  CHECK(checked_sum(RowsMindNeighbours(), data, 0).differs);
  CHECK_FALSE(checked_sum(RowsMindNeighbours(), data, 1).differs);
}

TEST_CASE("the examples that are looked at are computed together, each once", "[checks]") {
  ContributionCheck check{.place = 13, .program = "", .clipping = ""};
  check.others = {0, 1, 8, 9, 2, 13, 16};
  // In a pass with the places 8 to 15, the drawn one is the sixth; the others are reduced modulo 8.
  CHECK(core::examples_of(check, 8, 8) == std::vector<std::size_t>{0, 1, 2, 5});
  CHECK(core::examples_of(check, 13, 1) == std::vector<std::size_t>{0});
}

TEST_CASE("what is wrong with one of several examples is found, and with a pass of all",
          "[checks][privacy]") {
  using Fault = ExactEcho::Fault;
  const Dataset data = examples(19);
  const auto groups = pairs();
  Rows rows(data.rows());
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  const auto look = [&](const Program& program, ContributionCheck check) {
    core::exact_sum(
        program, data, rows,
        {.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0, .count_share = 0.0}, serial,
        0, nullptr, PrivacyUnit::example, &check);
  };
  // The drawn example is not finite and reveals no difference, but the others do.
  ContributionCheck check{.place = 6, .program = "test/program", .clipping = "test/clipping"};
  check.others = {6, 6, 6, 6, 6, 6, 6};
  CHECK_NOTHROW(look(ExactEcho(kTwoGroups, Fault::certifies_one_off), check));
  check.others.back() = 3;
  CHECK_THROWS_WITH(look(ExactEcho(kTwoGroups, Fault::certifies_one_off), check),
                    ContainsSubstring("not as long as was certified"));
  // Norms that change from call to call differ in the second pass over all examples, whichever is
  // checked.
  struct Forgets final : ExactEcho {
    Forgets() : ExactEcho(kTwoGroups) {}
    void backward(const Batch& batch, Pass& pass, std::span<double> norms) const override {
      ExactEcho::backward(batch, pass, norms);
      if (batch.rows() > 1 && ++calls_ > 3) norms[2] *= 1.0 + 1e-12;
    }
    mutable int calls_ = 0;
  };
  check.others.assign(1, 3);
  check.place = 3;
  CHECK_NOTHROW(look(Forgets(), check));
  check.is_of_all = true;
  // The sum has three passes; the repeated one comes second.
  check.place = 18;
  check.others.assign(1, 2);
  CHECK_THROWS_WITH(look(Forgets(), check), ContainsSubstring("when it is repeated"));
}

TEST_CASE("every run has sixteen looks, long ones one in 256 steps", "[checks]") {
  const core::RandomKey key = core::RandomKey::from_seed(3);
  for (const std::uint64_t steps : {1u, 7u, 16u, 17u, 100u, 200u, 1000u, 4096u, 10000u}) {
    ContributionChecks checks(key, steps, "program", "clipping");
    std::uint64_t of_all = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto check = checks.draw(step, 64);
      if (check && check->is_of_all) ++of_all;
    }
    CAPTURE(steps, checks.period());
    CHECK(checks.made() >= std::min<std::uint64_t>(steps, 16));
    CHECK(checks.period() <= 256);
    // One more example for every 64 of the batch, at most eight in total.
    const std::map<std::size_t, std::size_t> others{{1, 0}, {63, 0}, {64, 1}, {256, 4}, {5000, 7}};
    for (const auto& [batch, count] : others)
      CHECK(ContributionChecks(key, 1, "", "").draw(0, batch)->others.size() == count);
    if (steps >= 16) CHECK(of_all >= 1);
    if (steps >= 4096) CHECK(checks.made() == (steps + 128) / 256);
  }
}

TEST_CASE("one step in each block is looked at, at a place that the key alone decides",
          "[checks]") {
  const core::RandomKey key = core::RandomKey::from_seed(3);
  constexpr std::uint64_t steps = 50 * 256;
  ContributionChecks checks(key, steps, "program", "clipping");
  ContributionChecks again(key, steps, "program", "clipping");
  ContributionChecks other(core::RandomKey::from_seed(4), steps, "program", "clipping");
  const std::uint64_t period = checks.period();
  std::set<std::uint64_t> positions;
  std::set<std::size_t> places;
  bool others_differ = false;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto check = checks.draw(step, 64);
    const auto same = again.draw(step, 64);
    REQUIRE(check.has_value() == same.has_value());
    others_differ |= other.draw(step, 64).has_value() != check.has_value();
    if (!check) continue;
    CHECK(check->place < 64);
    CHECK(check->place == same->place);
    CHECK(check->others == same->others);
    CHECK(step / period + 1 == checks.made());
    positions.insert(step % period);
    places.insert(check->place);
  }
  CHECK(checks.made() == 50);
  CHECK(others_differ);
  // The probability that 50 draws of 64 all lie in 24 of them is at most (64 over 24) (24 / 64)^50
  // = 1.3e-4, for a randomly drawn key; these keys are fixed.
  CHECK(positions.size() >= 25);
  CHECK(places.size() >= 25);
}

TEST_CASE("a step without examples has nothing to look at, and counts", "[checks]") {
  ContributionChecks checks(core::RandomKey::from_seed(3), 4096, "program", "clipping");
  for (std::uint64_t step = 0; step < checks.period(); ++step)
    CHECK_FALSE(checks.draw(step, 0).has_value());
  CHECK(checks.made() == 1);
  CHECK(checks.differences() == 0);
}
