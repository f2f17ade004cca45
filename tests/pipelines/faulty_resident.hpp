// Programs whose steps stay with them, most of which make one mistake.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "host_resident.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "wrapped_backend.hpp"

namespace faulty_resident {

using namespace privgrad;

using Resident = HostResident<Wrapped>;

struct NoiseOfAnotherKey final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    return Resident::release(memory,
                             core::noise_order_for_testing(3, order.sigma(), order.shift()));
  }
};
struct LessNoise final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Vectors& own = of(memory);
    for (std::size_t i = 0; i < own.sum.size(); ++i) own.released[i] = own.sum[i] >> order.shift();
    return {};
  }
};
struct OneWrongElement final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    of(memory).released.back() += 1;
    return {};
  }
};
struct OpenChunkOfNothing final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    return {3};
  }
};
/// Every sum is off by one cell, as if an example had been rounded differently.
struct SumOffByACell final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    for (std::int64_t& cell : of(memory).sum) cell += 1;
  }
};
/// The last example of a pass is added twice.
struct AddsTheLastTwice final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    std::vector<std::uint8_t> last(taken_.size(), 0);
    last.back() = 1;
    Resident::add_to_sum(pass, last, memory);
  }
};
/// The noise is in the sum before it was charged: from a key that the program stores for this
/// purpose.
struct NoiseBeforeTheReceipt final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    Vectors& own = of(memory);
    core::release_for_testing(core::noise_order_for_testing(4, 0x1p28, 0), 0, own.sum, own.sum);
  }
};
/// The same, but the sum is reported correctly, so the release has different noise.
struct NoiseBesideTheSum final : Resident {
  using Resident::Resident;
  void add_to_sum(Pass& pass, std::span<const std::uint8_t> taken, Memory& memory) const override {
    Resident::add_to_sum(pass, taken, memory);
    Vectors& own = of(memory);
    core::release_for_testing(core::noise_order_for_testing(4, 0x1p28, 19), 0, own.sum,
                              own.released);
  }
  std::vector<std::uint64_t> release(Memory&, const NoiseOrder&) const override { return {}; }
};
/// Gives checkpoints, evaluations and the end of the run the model of the previous step.
struct StaleParameters final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    before_ = own_;
    return Resident::update(memory, rule, width);
  }
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override {
    Resident::numbers(memory, what, out);
    if (what == Numbers::parameters && !before_.empty())
      std::copy(before_.begin(), before_.end(), out.begin());
  }
  std::vector<float> before_;
};
struct StaleState final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    before_ = of(memory).state;
    return Resident::update(memory, rule, width);
  }
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override {
    Resident::numbers(memory, what, out);
    if (what == Numbers::first_state && !before_.empty())
      std::copy(before_[0].begin(), before_[0].end(), out.begin());
  }
  std::vector<std::vector<float>> before_;
};
struct TwiceTheRate final : Resident {
  using Resident::Resident;
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    StepRule other = rule;
    other.rate *= 2.0;
    return Resident::update(memory, other, width);
  }
};
/// A parameter changes between two steps, before it is used.
struct Forgets final : Resident {
  using Resident::Resident;
  void clear_sum(Memory& memory) const override {
    Resident::clear_sum(memory);
    const_cast<Forgets*>(this)->own_.front() += 1.0f;
  }
};
/// The second example of each pass is the first once more.
struct TakesARowTwice final : Resident {
  using Resident::Resident;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    std::vector<std::uint32_t> other(rows.begin(), rows.end());
    if (other.size() > 1) other[1] = other[0];
    Resident::clip_rows(pass, other, scaling, memory, found);
  }
};
/// Clips the last example less than the rule requires, and reports the scale that it used, or the
/// right scale with cells of another length.
struct ClipsOneLess final : Resident {
  using Resident::Resident;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    Resident::clip_rows(pass, rows, scaling, memory, found);
    if (found.scales.empty()) return;
    found.scales.back() *= 1.5;
    Wrapped::make_cells(pass, found.scales, scaling.most_cells, found.lengths);
  }
};
/// Adds an example whose cells are too long.
struct TakesTooLong final : Resident {
  using Resident::Resident;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    Resident::clip_rows(pass, rows, scaling, memory, found);
    if (!found.lengths.empty()) found.lengths.back() = {1, 0};
  }
};
/// Leaves an example out of the sum without reporting it.
struct LeavesOneOut final : Resident {
  using Resident::Resident;
  void clip_rows(Pass& pass, std::span<const std::uint32_t> rows, const CellScaling& scaling,
                 Memory& memory, const Clipped& found) const override {
    Resident::clip_rows(pass, rows, scaling, memory, found);
    if (taken_.size() > 1) taken_.back() = 0;
  }
};
/// The state of the optimizer changes between two steps, before it is used.
struct ForgetsState final : Resident {
  using Resident::Resident;
  void clear_sum(Memory& memory) const override {
    Resident::clear_sum(memory);
    of(memory).state[0].front() += 1.0f;
  }
};
/// Correct; counts the calls that have a result or settle, because these wait for a device.
struct CountsWaits final : Resident {
  using Resident::Resident;
  static inline std::size_t waits;
  void settle(Memory&) const override { ++waits; }
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    ++waits;
    return Resident::release(memory, order);
  }
  Moved update(Memory& memory, const StepRule& rule, double width) override {
    ++waits;
    return Resident::update(memory, rule, width);
  }
};
struct NoMemory final : Resident {
  using Resident::Resident;
  std::unique_ptr<Memory> make_memory(std::size_t, const Dataset&) const override {
    return nullptr;
  }
};

/// Correct, with noise that it sometimes leaves undecided, and with invalid cells there.
struct LeavesNoiseOpen final : Resident {
  using Resident::Resident;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    Resident::release(memory, order);
    of(memory).released[1024] = 12345;
    of(memory).released.back() = 54321;
    return {1, 2};
  }
};
/// Correct; checks that each order comes after its charge: the ledger of the running run has a line
/// for it on the disk.
struct LooksAtTheLedger final : Resident {
  using Resident::Resident;
  static inline std::filesystem::path ledger;
  static inline std::size_t orders;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override {
    const auto paid = core::read_ledger(ledger).releases.size();
    if (++orders > paid) throw std::logic_error("an order of noise that nobody paid for");
    return Resident::release(memory, order);
  }
};

/// Clips as `flat` does, without a rule that a program could follow.
struct WithoutRule : Clipping {
  explicit WithoutRule(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    double squares = 0.0;
    for (const double one : squared_norms) squares += one;
    const double norm = std::sqrt(squares);
    std::fill(factors.begin(), factors.end(), norm <= clip_norm ? 1.0 : clip_norm / norm);
  }
};
/// States the rule of `normalized`, which has other factors for short gradients.
struct OtherRule : WithoutRule, HasClipRule {
  using WithoutRule::WithoutRule;
  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::normalize, .gamma = 0.0, .bounds = {clip_norm}};
  }
};
struct ThreeBounds final : OtherRule {
  using OtherRule::OtherRule;
  ClipRule clip_rule(double clip_norm) const override {
    ClipRule rule = OtherRule::clip_rule(clip_norm);
    rule.bounds.resize(3, clip_norm);
    return rule;
  }
};
struct NegativeBound final : OtherRule {
  using OtherRule::OtherRule;
  ClipRule clip_rule(double clip_norm) const override { return OtherRule::clip_rule(-clip_norm); }
};

}  // namespace faulty_resident
