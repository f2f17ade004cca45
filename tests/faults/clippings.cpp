// Clipping rules that let contributions become too long, or let examples affect each other.
#include <algorithm>
#include <cmath>
#include <thread>

#include "fault.hpp"
#include "right_clipping.hpp"

using namespace privgrad;

namespace clippings {

class Base : public RightClipping {
 public:
  using RightClipping::RightClipping;
  mutable double seen_ = 0.0, largest_ = 0.0;
  mutable std::uint64_t calls_ = 0;
};

/// The example of a call for factors.
struct Example {
  const Base& self;
  std::span<const double> squared_norms;
  double clip_norm;
  std::span<double> factors;

  double norm() const { return RightClipping::norm(squared_norms); }
  double factor_of(double norm) const { return RightClipping::factor(norm, clip_norm); }
  double right() const { return factor_of(norm()); }
  void fill(double factor) const { std::fill(factors.begin(), factors.end(), factor); }
};

struct Row {
  Told told;
  void (*rule)(const Example&) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    {.told = {"none", "no clipping at all"}, .rule = [](const Example& one) { one.fill(1.0); }},
    {.told = {"twice_the_norm", "clips to twice the clip norm"},
     .rule = [](const Example& one) { one.fill(2.0 * one.right()); }},
    {.told = {"a_thousandth_more",
              "clips to a thousandth more than the clip norm (a fused norm that is too small)"},
     .rule = [](const Example& one) { one.fill(one.factor_of(one.norm() / 1.001)); }},
    {.told = {"the_whole_norm_per_layer", "each layer may have the whole clip norm"},
     .rule =
         [](const Example& one) {
           for (std::size_t g = 0; g < one.factors.size(); ++g)
             one.factors[g] = one.factor_of(std::sqrt(one.squared_norms[g]));
         }},
    {.told = {"biases_are_not_clipped", "the last group is left as it is"},
     .rule =
         [](const Example& one) {
           one.fill(one.right());
           one.factors.back() = 1.0;
         }},
    {.told = {"first_group_only", "the norm of the first group stands for all"},
     .rule =
         [](const Example& one) { one.fill(one.factor_of(std::sqrt(one.squared_norms.front()))); }},
    {.told = {"largest_group_only", "the largest group's norm stands for all"},
     .rule =
         [](const Example& one) {
           const auto& all = one.squared_norms;
           one.fill(one.factor_of(std::sqrt(*std::max_element(all.begin(), all.end()))));
         }},
    {.told = {"root_forgotten", "compares the squared norm with the clip norm"},
     .rule = [](const Example& one) { one.fill(one.factor_of(one.norm() * one.norm())); }},
    {.told = {"infinity_norm", "as if norms were largest coordinates"},
     .rule = [](const Example& one) { one.fill(10.0 * one.right()); }},
    {.told = {"clips_the_mean", "clips by the mean of what it has seen: clip after mean"},
     .rule =
         [](const Example& one) {
           one.self.seen_ += one.norm();
           one.fill(one.factor_of(one.self.seen_ / static_cast<double>(++one.self.calls_)));
         }},
    {.told = {"clips_by_the_largest", "scales all by the largest norm so far"},
     .rule =
         [](const Example& one) {
           one.self.largest_ = std::max(one.self.largest_, one.norm());
           one.fill(one.factor_of(one.self.largest_));
         }},
    {.told = {"every_second_free", "every second example is not clipped"},
     .rule = [](const Example& one) { one.fill(one.self.calls_++ % 2 == 0 ? one.right() : 1.0); }},
    {.told = {"half_for_every_second", "every second example counts half: place decides"},
     .rule =
         [](const Example& one) {
           one.fill((one.self.calls_++ % 2 == 0 ? 1.0 : 0.5) * one.right());
         }},
    {.told = {"half_after_a_long_one", "a long example makes the next ones short"},
     .rule =
         [](const Example& one) {
           one.fill((one.self.largest_ > 100.0 ? 0.5 : 1.0) * one.right());
           one.self.largest_ = std::max(one.self.largest_, one.norm());
         }},
    {.told = {"thread_decides", "another factor on another thread"},
     .rule =
         [](const Example& one) {
           one.fill((std::this_thread::get_id() == kHome ? 1.0 : 0.5) * one.right());
         }},
    {.told = {"all_instances_count", "instances share what they saw"},
     .rule =
         [](const Example& one) {
           static thread_local double largest = 1.0;
           largest = std::max(largest, one.norm());
           one.fill(one.right() / largest);
         }},
    {.told = {"negative", "factors below 0"},
     .rule = [](const Example& one) { one.fill(-one.right()); }},
    {.told = {"nan", "factors of NaN"}, .rule = [](const Example& one) { one.fill(std::nan("")); }},
    {.told = {"infinite", "factors beyond all bounds"},
     .rule = [](const Example& one) { one.fill(HUGE_VAL); }},
    {.told = {"divides_by_zero", "a gradient of 0 has a factor beyond all bounds"},
     .rule = [](const Example& one) { one.fill(one.clip_norm / one.norm()); }},
    {.told = {"writes_nothing", "leaves the factors as they were"}, .rule = [](const Example&) {}},
    {.told = {"writes_the_first", "writes one factor of many"},
     .rule = [](const Example& one) { one.factors.front() = one.right(); }},
    {.told = {"zero", "nobody contributes: noise alone", Let::harmless, "factors of 0 are legal"},
     .rule = [](const Example& one) { one.fill(0.0); }},
    {.told = {"random_factors", "a generator of its own decides about factors"},
     .rule =
         [](const Example& one) {
           static thread_local std::uint32_t state = 1;
           state = state * 1664525u + 1013904223u;
           one.fill(static_cast<double>(state) * 0x1p-32 * one.right());
         }},
    {.told = {"normalises", "every example at the full clip norm", Let::harmless,
              "a longer vector within the bound is normalised descent"},
     .rule =
         [](const Example& one) { one.fill(one.norm() > 0.0 ? one.clip_norm / one.norm() : 0.0); }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  using Base::Base;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    if (kTable[I].rule == nullptr) return Base::factors(squared_norms, clip_norm, factors);
    kTable[I].rule({*this, squared_norms, clip_norm, factors});
  }
};

}  // namespace clippings

std::vector<Fault> clipping_faults() {
  using namespace clippings;
  return faults_of<Clipping, Faulty>(kTable, "clipping", [](const Row& row) {
    return std::vector<std::string>{std::string("clipping=") + row.told.id,
                                    "model={kind: mlp, hidden: [3]}"};
  });
}
