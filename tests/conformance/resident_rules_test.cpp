// Programs that keep their steps on the device; each breaks one promise of ResidentSteps.
#include <cmath>
#include <memory>

#include "broken.hpp"
#include "exact_linear.hpp"
#include "host_resident.hpp"
#include "privgrad/error.hpp"

namespace resident_rules_test {

using namespace privgrad;

namespace {

using Right = HostResident<ExactLinear>;

struct NoMemory final : Right {
  using Right::Right;
  std::unique_ptr<Memory> make_memory(std::size_t, const Dataset&) const override {
    return nullptr;
  }
};
/// Takes the first row in place of the second.
struct TakesARowTwice final : Right {
  using Right::Right;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    std::vector<std::uint32_t> other(rows.begin(), rows.end());
    if (other.size() > 1) other[1] = other[0];
    Right::clip_rows(pass, other, scaling, memory, found);
  }
};
/// Changes the result of clip_rows().
template <auto change>
struct FindsOther final : Right {
  using Right::Right;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    Right::clip_rows(pass, rows, scaling, memory, found);
    change(found);
  }
};
constexpr auto kOtherNorm = [](const ResidentSteps::Clipped& found) {
  found.squared_norms.back() *= 1.0 + 0x1p-50;
};
constexpr auto kOtherScale = [](const ResidentSteps::Clipped& found) {
  found.scales.back() = std::nextafter(found.scales.back(), 0.0);
};
constexpr auto kOtherLength = [](const ResidentSteps::Clipped& found) {
  found.lengths.back().low += 1;
};
/// Like kernels that leave out the target.
constexpr auto kOtherChecksum = [](const ResidentSteps::Clipped& found) {
  found.checksums.back() ^= 1;
};
constexpr auto kLeavesOneOut = [](const ResidentSteps::Clipped& found) { found.taken.back() = 0; };
/// Clips each example to the whole norm, whatever the rule's bounds.
struct ClipsTheWhole final : Right {
  using Right::Right;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    CellScaling other = scaling;
    other.rule.kind = ClipRule::Kind::shorten;
    Right::clip_rows(pass, rows, other, memory, found);
  }
};
struct AddsAllThatWereClipped final : Right {
  using Right::Right;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Right::add_to_sum(pass, taken, memory);
    if (taken.empty()) of(memory).sum.front() += 1;
  }
};
struct KeepsTheSum final : Right {
  using Right::Right;
  void clear_sum(Memory&) const override {}
};
struct AddsAll final : Right {
  using Right::Right;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Right::add_to_sum(
        pass, std::vector<std::uint8_t>(taken.empty() ? taken_.size() : taken.size(), 1), memory);
  }
};
/// Like kernels that process the last parameter in a separate block.
struct ForgetsTheLastCell final : Right {
  using Right::Right;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    const std::int64_t last = of(memory).sum.back();
    Right::add_to_sum(pass, taken, memory);
    of(memory).sum.back() = last;
  }
};
/// Has one sum for all memories.
struct OneSum final : Right {
  using Right::Right;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Right::add_to_sum(pass, taken, memory);
    last_ = of(memory).sum;
  }
  void cells_at(const Memory& memory, Cells what, std::span<const std::uint64_t> places,
                std::span<std::int64_t> out) const override {
    Right::cells_at(memory, what, places, out);
    if (what != Cells::sum || last_.empty()) return;
    for (std::size_t i = 0; i < places.size(); ++i) out[i] = last_[places[i]];
  }
  mutable std::vector<std::int64_t> last_;
};
struct SortsPlaces final : Right {
  using Right::Right;
  void cells_at(const Memory& memory, Cells what, std::span<const std::uint64_t> places,
                std::span<std::int64_t> out) const override {
    std::vector<std::uint64_t> sorted(places.begin(), places.end());
    std::sort(sorted.begin(), sorted.end());
    Right::cells_at(memory, what, sorted, out);
  }
};
struct FactorsOfAnotherExample final : Right {
  using Right::Right;
  void factors_at(Pass& pass, std::span<const std::uint64_t> places, Memory& memory,
                  std::span<CellFactors> factors) const override {
    Right::factors_at(pass, places, memory, factors);
    if (factors.size() >= 2 * places.size())
      std::swap_ranges(factors.begin(),
                       factors.begin() + static_cast<std::ptrdiff_t>(places.size()),
                       factors.begin() + static_cast<std::ptrdiff_t>(places.size()));
  }
};
struct NoiseOfAnotherKey final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    return Right::release(memory, core::noise_order_for_testing(99, order.sigma(), order.shift()));
  }
};
struct LessNoise final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    auto& own = of(memory);
    core::release_for_testing(order, 0, own.sum, own.released);
    // Rounds one element towards zero instead of to the nearest.
    own.released.front() -= 1;
    return {};
  }
};
/// Uses too few bits of the counter, so the noise repeats in a later chunk.
struct RepeatsItsNoise final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    auto& own = of(memory);
    for (std::size_t begin = 0; begin < own.sum.size(); begin += kChunk) {
      const std::size_t size = std::min(kChunk, own.sum.size() - begin);
      core::release_for_testing(order, 0, std::span(own.sum).subspan(begin, size),
                                std::span(own.released).subspan(begin, size));
    }
    return {};
  }
};
struct NoisesInPlace final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Right::release(memory, order);
    of(memory).sum = of(memory).released;
    return {};
  }
};
struct LeavesOpenWhatIsNot final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Right::release(memory, order);
    return {of(memory).sum.size()};
  }
};
/// Ignores the chunks that the core computes for it.
struct IgnoresPutChunks final : Right {
  using Right::Right;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Right::release(memory, order);
    of(memory).released.front() += 1;
    return {0};
  }
  void put_released(Memory&, std::uint64_t, std::span<const std::int64_t>) const override {}
};
struct TwiceTheRate final : Right {
  using Right::Right;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    StepRule other = rule;
    other.rate *= 2.0;
    return Right::update(memory, other, width);
  }
};
/// Like a compiler that contracts products and sums.
struct FusesTheState final : Right {
  using Right::Right;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    const Moved moved = Right::update(memory, rule, width);
    for (auto& vector : of(memory).state) vector.front() = std::nextafter(vector.front(), 1e30f);
    return moved;
  }
};
struct LeavesItsOwnParameters final : Right {
  using Right::Right;
  void load_parameters(std::span<const float> values) override {
    own_.assign(values.begin(), values.end());
    if (!is_moving_) Right::load_parameters(values);
  }
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    is_moving_ = true;
    const Moved moved = Right::update(memory, rule, width);
    is_moving_ = false;
    return moved;
  }
  bool is_moving_ = false;
};
struct NumbersOfOtherPlaces final : Right {
  using Right::Right;
  void numbers_at(const Memory& memory, Numbers what, std::span<const std::uint64_t> places,
                  std::span<float> out) const override {
    Right::numbers_at(memory, what, places, out);
    if (out.size() > 1) std::swap(out.front(), out[1]);
  }
};
struct StateOfOnes final : Right {
  using Right::Right;
  std::unique_ptr<Memory> make_memory(std::size_t state_vectors,
                                      const Dataset& data) const override {
    auto memory = Right::make_memory(state_vectors, data);
    for (auto& vector : of(*memory).state) std::fill(vector.begin(), vector.end(), 1.0f);
    return memory;
  }
};
struct MovesAnyway final : Right {
  using Right::Right;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    const Moved moved = Right::update(memory, rule, width);
    if (moved != Moved::yes) own_.front() += 1.0f;
    return moved;
  }
};
struct CallsItAParameter final : Right {
  using Right::Right;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    const Moved moved = Right::update(memory, rule, width);
    return moved == Moved::gradient_not_finite ? Moved::parameters_not_finite : moved;
  }
};
struct DropsNumbers final : Right {
  using Right::Right;
  void put_numbers(Memory& memory, Numbers what, std::span<const float> values) override {
    if (what != Numbers::second_state) Right::put_numbers(memory, what, values);
  }
};
/// Ignores parameters that are loaded after a memory was made.
struct ParametersOfItsOwn final : Right {
  using Right::Right;
  void load_parameters(std::span<const float> values) override {
    const std::vector<float> before = own_;
    Right::load_parameters(values);
    if (++loads_ == 3) own_ = before;
  }
  int loads_ = 0;
};

template <class Impl>
Findings findings() {
  return findings_on<Backend, OneLayerBackend<Impl>>();
}

}  // namespace

TEST_CASE("each rule of programs whose steps stay with them can fail", "[privacy]") {
  Findings right = findings<Right>();
  std::erase_if(right, [](const auto& one) { return resident_rules().count(one.rule) == 0; });
  CHECK(right.size() == resident_rules().size());
  const std::string rows = "resident_rows_are_clipped_by_the_rule";
  const std::string sums = "resident_sums_are_the_cells";
  const std::string noise = "resident_releases_have_the_ordered_noise";
  const std::string updates = "resident_updates_follow_the_rule";
  const std::string refusals = "resident_updates_refuse_what_is_not_finite";
  check_rules_can_fail(
      right,
      {{sums, "make_memory() returns nothing", findings<NoMemory>()},
       {rows, "gives other checksums", findings<TakesARowTwice>()},
       {rows, "gives other checksums", findings<FindsOther<kOtherChecksum>>()},
       {rows, "finds other norms than backward()", findings<FindsOther<kOtherNorm>>()},
       {rows, "other scales than cell_scales()", findings<FindsOther<kOtherScale>>()},
       {rows, "other scales than cell_scales()", findings<ClipsTheWhole>()},
       {rows, "of other lengths than make_cells()", findings<FindsOther<kOtherLength>>()},
       {rows, "other examples than those within the bound", findings<FindsOther<kLeavesOneOut>>()},
       {rows, "does not add the cells that clip_rows() took", findings<AddsAllThatWereClipped>()},
       {sums, "clear_sum() leaves something", findings<KeepsTheSum>()},
       {sums, "does not add what add_cells() adds", findings<AddsAll>()},
       {sums, "does not add what add_cells() adds", findings<ForgetsTheLastCell>()},
       {sums, "is that of another memory", findings<OneSum>()},
       {sums, "cells of other places", findings<SortsPlaces>()},
       {"resident_factors_are_the_cells", "the factors of example",
        findings<FactorsOfAnotherExample>()},
       {noise, "does not have the ordered noise", findings<NoiseOfAnotherKey>()},
       {noise, "does not have the ordered noise", findings<LessNoise>()},
       {noise, "does not have the ordered noise", findings<RepeatsItsNoise>()},
       {noise, "changes the sum", findings<NoisesInPlace>()},
       {noise, "leaves open chunks that do not exist", findings<LeavesOpenWhatIsNot>()},
       {updates, "leaves open chunks that do not exist", findings<LeavesOpenWhatIsNot>()},
       {noise, "does not have the ordered noise", findings<IgnoresPutChunks>()},
       {updates, "moves parameters otherwise", findings<TwiceTheRate>()},
       {updates, "moves the optimizer's state otherwise", findings<FusesTheState>()},
       {updates, "leaves the parameters that it computes with", findings<LeavesItsOwnParameters>()},
       {updates, "numbers_at() gives other numbers", findings<NumbersOfOtherPlaces>()},
       {updates, "does not begin as zeros", findings<StateOfOnes>()},
       {refusals, "moves parameters where", findings<MovesAnyway>()},
       {refusals, "does not say that a gradient", findings<CallsItAParameter>()},
       {"resident_numbers_are_as_given", "than put_numbers() took", findings<DropsNumbers>()},
       {"resident_numbers_are_as_given", "not those that it was given",
        findings<ParametersOfItsOwn>()}});
}

TEST_CASE("programs whose steps do not stay with them are told so", "[privacy]") {
  const Findings plain = findings_on<Backend, OneLayerBackend<ExactLinear>>();
  for (const std::string& rule : resident_rules()) {
    const auto* finding = find_rule(plain, rule);
    REQUIRE(finding != nullptr);
    CHECK(finding->verdict == testing::Verdict::skipped);
    CHECK(finding->detail == "programs do not offer it");
  }
}

}  // namespace resident_rules_test
