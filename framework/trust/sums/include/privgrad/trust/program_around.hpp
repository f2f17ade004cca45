// Programs that compute by another program, and which of its abilities they keep.
#pragma once

#include <typeinfo>

#include "privgrad/backend.hpp"

namespace privgrad::core {

/// A program around another one, by which it computes. It has its own abilities, and of the program
/// inside those that it says it keeps, and no other: one that nobody has thought of is not offered.
class ProgramAround : public Program {
 public:
  virtual const Program& inside() const = 0;
  /// Whether the program inside, asked for this ability once load_parameters() was called of the
  /// program around it, does what the ability promises of the latter.
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

/// \returns the ability of a program, its own or one that it keeps of the program inside; null if it
///   has none. Lives as long as the program.
template <class Ability>
const Ability* ability_of(const Program& program) {
  if (const auto* own = dynamic_cast<const Ability*>(&program)) return own;
  const auto* around = dynamic_cast<const ProgramAround*>(&program);
  if (around == nullptr || !around->keeps(typeid(Ability))) return nullptr;
  return ability_of<Ability>(around->inside());
}

}  // namespace privgrad::core
