// The terms of an account file, for code that needs only these.
#pragma once

#include <string>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The terms of an account, fixed when it is opened.
struct AccountTerms {
  std::string name;  ///< A name of the private data for human readers.
  Adjacency adjacency = Adjacency::add_or_remove_one;
  PrivacyUnit unit = PrivacyUnit::example;
  double target_epsilon = 0.0;  ///< Shared by all runs, > 0.
  double target_delta = 0.0;    ///< In (0, 1).
  std::string accountant;       ///< YAML: the kind of a privacy filter, with all its parameters.
};

}  // namespace privgrad::core
