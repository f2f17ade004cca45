// The state of a component that is saved with a run: a list of named members.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// A reference to a member of a component's state: a whole number or a list of numbers.
struct StateMember {
  std::string_view name;  ///< Unique within the component.
  std::variant<std::uint64_t*, std::vector<float>*> value;
};

/// A component that may have a state, that is, values from earlier steps. To write this state to
/// checkpoints, read it back and compare it, the core uses the list of its members.
class PRIVGRAD_API Stateful {
 public:
  virtual ~Stateful();

  /// Lists everything that start() sets and that steps change, so that another instance that was
  /// started in the same way and has the same values continues with the same bits.
  /// \returns the members, which live as long as this object; the same names in the same order on
  ///   every call. Empty: no step depends on an earlier one.
  virtual std::vector<StateMember> state() { return {}; }

  /// Called after start() and after the core has set all members to the values of a saved state.
  /// Numbers are finite.
  /// \throws ConfigError for values that no run can have produced.
  virtual void restored() {}

 protected:
  Stateful() = default;
  Stateful(const Stateful&) = delete;
  Stateful& operator=(const Stateful&) = delete;
};

}  // namespace privgrad
