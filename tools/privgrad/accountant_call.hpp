#pragma once

#include <optional>
#include <string>

#include "arguments.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/value.hpp"

namespace privgrad::tool {

/// --accountant and --adjacency, for subcommands that account without a manifest.
Option accountant_option();
Option adjacency_option();

/// The accountant that a call asks for, ready to be made as often as needed.
class AccountantCall {
 public:
  /// \throws ConfigError for an unknown accountant, parameters that do not fit it, or no adjacency.
  AccountantCall(const Arguments& arguments, const Catalog& catalog);
  /// \param accountant  as --accountant has it.
  AccountantCall(const std::string& accountant, Adjacency adjacency, const Catalog& catalog);

  const std::string& name() const { return component_->factory.info.name; }
  Adjacency adjacency() const { return adjacency_; }
  /// Its full name and all its parameters, as a manifest has them.
  Value resolved() const;

  /// One that has composed `count` times `event`.
  /// \throws PrivacyError with the accountant's reason if it has no proof for the event.
  ComponentPtr<Accountant> after(const Event& event, std::uint64_t count = 1) const;

 private:
  const Component* component_;
  const Component* certifier_;
  Params params_;
  Adjacency adjacency_;
  const Catalog* catalog_;
};

/// \returns `text` as a finite number inside (low, high), or [low, high) if `include_low`.
/// \throws UsageError naming the option and what is allowed.
double number_in(const std::string& option, const std::string& text, double low, double high,
                 bool include_low = false);

}  // namespace privgrad::tool
