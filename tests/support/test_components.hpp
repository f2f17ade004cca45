// Adds a test's own components to the built-in ones.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/plugin.hpp"

/// Offers a component of the test, without parameters, as a plugin would.
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

/// A catalog of the built-in components plus these.
inline privgrad::Catalog house_with(std::vector<privgrad::Factory> factories) {
  privgrad::Catalog made = own_house();  // copies of a catalog share their content
  made.add(std::make_shared<privgrad::PluginIdentity>(
               privgrad::PluginIdentity{"test", "1", "", "", "", "this program"}),
           nullptr, std::move(factories));
  return made;
}
