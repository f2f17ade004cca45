// Wraps programs in other programs that keep some of their abilities.
#pragma once

#include <typeinfo>

#include "privgrad/backend.hpp"

namespace privgrad::core {

/// A program that wraps another one and computes with it. It offers its own abilities and those
/// abilities of the inner program that it explicitly keeps, so a new ability is not offered by
/// default.
class ProgramAround : public Program {
 public:
  virtual const Program& inside() const = 0;
  /// Whether this ability of the inner program, requested after load_parameters() of the outer
  /// program, keeps its promises for the outer program, too.
  virtual bool keeps(const std::type_info& ability) const = 0;
};

/// A ProgramAround that keeps these abilities.
template <class... Abilities>
class Keeping : public ProgramAround {
 public:
  bool keeps(const std::type_info& ability) const final {
    return ((ability == typeid(Abilities)) || ...);
  }
};

/// \returns the ability of a program, either its own or one kept from its inner program; null if it
///   has none. Lives as long as the program.
template <class Ability>
const Ability* ability_of(const Program& program) {
  if (const auto* own = dynamic_cast<const Ability*>(&program)) return own;
  const auto* around = dynamic_cast<const ProgramAround*>(&program);
  if (around == nullptr || !around->keeps(typeid(Ability))) return nullptr;
  return ability_of<Ability>(around->inside());
}

}  // namespace privgrad::core
