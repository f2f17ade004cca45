#include "privgrad/privacy.hpp"

#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"

namespace privgrad {

std::string_view to_text(Adjacency adjacency) {
  switch (adjacency) {
    case Adjacency::add_or_remove_one:
      return "add_or_remove_one";
    case Adjacency::replace_one:
      return "replace_one";
    case Adjacency::zero_out:
      return "zero_out";
  }
  throw ConfigError("no such adjacency");
}

Adjacency adjacency_from_text(std::string_view text) {
  std::vector<std::string> names;
  for (const Adjacency candidate :
       {Adjacency::add_or_remove_one, Adjacency::replace_one, Adjacency::zero_out}) {
    if (text == to_text(candidate)) return candidate;
    names.emplace_back(to_text(candidate));
  }
  throw ConfigError("'" + std::string(text) +
                    "' is not an adjacency; write add_or_remove_one, replace_one or zero_out" +
                    did_you_mean(text, names));
}

double sensitivity_of_unit_bound(Adjacency adjacency) {
  return adjacency == Adjacency::replace_one ? 2.0 : 1.0;
}

std::string_view to_text(PrivacyUnit unit) {
  return unit == PrivacyUnit::example ? "example" : "client";
}

std::string_view to_text(BoundKind bound) {
  switch (bound) {
    case BoundKind::exact:
      return "exact";
    case BoundKind::upper:
      return "upper";
    case BoundKind::estimate:
      return "estimate";
  }
  throw ConfigError("no such bound");
}

}  // namespace privgrad
