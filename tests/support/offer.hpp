// Offers a component of a test, as a plugin would.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "privgrad/plugin.hpp"

/// \returns the factory of a component without parameters.
template <class Interface, class Impl>
privgrad::Factory offer(std::string name, std::vector<std::string> traits = {}) {
  privgrad::Registrar registrar;
  registrar.add<Interface, Impl>({.name = std::move(name),
                                  .summary = "Of this test.",
                                  .reference = "none",
                                  .params = {},
                                  .traits = std::move(traits)});
  return registrar.factories().front();
}
