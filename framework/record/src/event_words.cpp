#include "privgrad/record/event_words.hpp"

#include <algorithm>
#include <variant>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::core {
namespace {

std::string with_spaces(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

struct Describer {
  /// Returns the name and each member, such as "discrete gaussian of sigma 2 and sensitivity 1".
  template <class Kind>
  std::string operator()(const Kind& e) const {
    std::string words = with_spaces(Kind::kKind);
    std::string before = " of ";
    const auto add = [&](const char* name, const auto& value) {
      words += before + with_spaces(name) + " " + text(value);
      before = " and ";
    };
    e.members(add, e);
    return words;
  }
  std::string operator()(const PoissonSampledEvent& e) const {
    return "Poisson sampled at " + short_number(e.sampling_probability, 6) + " of " +
           describe(*e.of);
  }
  std::string operator()(const SampledWithoutReplacementEvent& e) const {
    return "sampled without replacement, " + std::to_string(e.sample_size) + " of " +
           std::to_string(e.source_dataset_size) + ", of " + describe(*e.of);
  }
  std::string operator()(const RandomAllocationEvent& e) const {
    return "random allocation to one of " + std::to_string(e.steps) + " steps of " +
           describe(*e.of);
  }
  std::string operator()(const RepeatAndSelectEvent& e) const {
    std::string law = e.is_poisson() ? "Poisson"
                      : e.shape == 1.0
                          ? "geometric"
                          : "truncated negative binomial of shape " + short_number(e.shape, 6);
    return "best of a random number of runs (" + law + ", mean " + short_number(e.mean, 6) +
           "), each " +
           (e.candidates.size() == 1
                ? describe(e.candidates.front())
                : "one of " + std::to_string(e.candidates.size()) + " candidates, from " +
                      describe(e.candidates.front()) + " to " + describe(e.candidates.back()));
  }
  std::string operator()(const ComposedEvent& e) const {
    if (e.of.empty()) return "nothing";
    std::string first = describe(e.of.front());
    if (e.of.size() == 1) return first;
    return std::to_string(e.of.size()) + " different releases, the first " + first + ", the last " +
           describe(e.of.back());
  }
  std::string operator()(const SelfComposedEvent& e) const {
    return std::to_string(e.count) + " x " + describe(*e.of);
  }
  std::string operator()(const NonPrivateEvent&) const { return "not private"; }
  std::string operator()(const UnsupportedEvent& e) const { return "unsupported: " + e.reason; }

 private:
  static std::string text(double value) { return short_number(value, 6); }
  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::string text(const std::shared_ptr<const Event>& of) { return describe(*of); }
};

}  // namespace

std::string describe(const Event& event) { return std::visit(Describer{}, event.kind()); }

}  // namespace privgrad::core
