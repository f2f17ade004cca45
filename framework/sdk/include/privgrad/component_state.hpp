// The state of a component that is saved with a run: named members, in one list.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// A member of a component's state, where it lies: a whole number, or numbers.
struct StateMember {
  std::string_view name;  ///< Unique in the component.
  std::variant<std::uint64_t*, std::vector<float>*> value;
};

/// A component that may have a state: what it remembers of the steps so far. The core writes it into
/// checkpoints, reads it from there and compares it, all by one list.
class PRIVGRAD_API Stateful {
 public:
  virtual ~Stateful();

  /// Lists all that start() sets and steps change, so that an instance that was started alike, and
  /// has these values, goes on with the same bits.
  /// \returns the members, which live as long as this; the same names in the same order on every
  ///   call. Empty: no step knows anything of another one.
  virtual std::vector<StateMember> state() { return {}; }

  /// Called after start(), once the core has given all members the values of a saved state. Numbers
  /// are finite.
  /// \throws ConfigError for values that no run can have left.
  virtual void restored() {}

 protected:
  Stateful() = default;
  Stateful(const Stateful&) = delete;
  Stateful& operator=(const Stateful&) = delete;
};

}  // namespace privgrad
