#include "privgrad/component_state.hpp"

#include <set>
#include <variant>
#include <vector>

#include "rules.hpp"

namespace privgrad::testing {

std::vector<double> state_of(Stateful& component) {
  std::vector<double> all;
  for (const StateMember& member : component.state()) {
    if (const auto* number = std::get_if<std::uint64_t*>(&member.value)) {
      all.push_back(static_cast<double>(**number));
    } else {
      const auto& numbers = *std::get<std::vector<float>*>(member.value);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
  }
  return all;
}

void copy_state(Stateful& from, Stateful& to) {
  const std::vector<StateMember> source = from.state(), target = to.state();
  require(source.size() == target.size(), "state() lists other members in another instance");
  for (std::size_t i = 0; i < source.size(); ++i) {
    require(source[i].name == target[i].name && source[i].value.index() == target[i].value.index(),
            "state() lists other members in another instance");
    if (const auto* number = std::get_if<std::uint64_t*>(&source[i].value)) {
      **std::get_if<std::uint64_t*>(&target[i].value) = **number;
    } else {
      *std::get<std::vector<float>*>(target[i].value) =
          *std::get<std::vector<float>*>(source[i].value);
    }
  }
  to.restored();
}

void require_state_list(Stateful& component) {
  const std::vector<StateMember> members = component.state(), again = component.state();
  std::set<std::string_view> names;
  std::set<const void*> places;
  require(members.size() == again.size(), "state() lists other members when it is asked again");
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto place =
        std::visit([](auto* one) { return static_cast<const void*>(one); }, members[i].value);
    require(!members[i].name.empty() && names.insert(members[i].name).second,
            "state() lists a member without a name of its own");
    require(place != nullptr && places.insert(place).second,
            "state() lists the same place twice, or none");
    require(again[i].name == members[i].name && again[i].value == members[i].value,
            "state() lists other members when it is asked again");
  }
}

}  // namespace privgrad::testing
