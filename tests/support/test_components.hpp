// Adds a test's own components to the built-in ones.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "offer.hpp"

/// Returns a catalog of the built-in components plus these.
inline privgrad::Catalog house_with(std::vector<privgrad::Factory> factories) {
  privgrad::Catalog made = own_house();  // copies of a catalog share their content
  made.add(std::make_shared<privgrad::PluginIdentity>(
               privgrad::PluginIdentity{"test", "1", "", "", "", "this program"}),
           nullptr, std::move(factories));
  return made;
}
