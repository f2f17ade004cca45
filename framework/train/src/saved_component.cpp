#include "saved_component.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::core {

void save_component(StateWriter& out, Stateful& component, const std::optional<Slice>& slice) {
  const std::vector<StateMember> members = component.state();
  out.word(members.size());
  for (const StateMember& member : members) {
    out.bytes(member.name);
    if (const auto* number = std::get_if<std::uint64_t*>(&member.value)) {
      out.word(**number);
      continue;
    }
    const std::vector<float>& numbers = *std::get<std::vector<float>*>(member.value);
    if (!slice) {
      out.array(numbers);
      continue;
    }
    // A process whose slice is empty has started its component for one element.
    if (numbers.size() != std::max<std::size_t>(1, slice->size))
      throw PluginError("a state that processes share has a vector of another length");
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(slice->size);
    out.sliced(std::vector<float>(numbers.begin(), end));
  }
}

namespace {

std::vector<float> numbers_from(StateReader& in, std::size_t size,
                                const std::optional<Slice>& slice) {
  std::vector<float> numbers = slice ? in.array<float>(slice->of) : in.array<float>();
  if (slice) {
    const std::size_t first = std::min(slice->first, slice->of - size);
    numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(first));
    numbers.resize(size);
  }
  if (size != 0 && numbers.size() != size)
    in.fail("a component's state has vectors of another length");
  const auto is_number = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(numbers, is_number))
    in.fail("a component's state holds values that no run can have left");
  return numbers;
}

}  // namespace

void restore_component(StateReader& in, Stateful& component, const std::optional<Slice>& slice) {
  const std::vector<StateMember> members = component.state();
  if (in.word() != members.size()) in.fail("a component's state has other members");
  for (const StateMember& member : members) {
    in.begin(member.name);
    if (const auto* number = std::get_if<std::uint64_t*>(&member.value)) {
      **number = in.word();
    } else {
      std::vector<float>& numbers = *std::get<std::vector<float>*>(member.value);
      numbers = numbers_from(in, numbers.size(), slice);
    }
  }
  try {
    component.restored();
  } catch (const ConfigError& problem) {
    in.fail(problem.what());
  }
}

}  // namespace privgrad::core
