// The catalog of all built-in plugins, for tests that use real components.
#pragma once

#include <stdexcept>

#include "privgrad/host/search_path.hpp"
#include "support.hpp"

/// Returns all built-in plugins, as users get them, in a separate catalog.
inline privgrad::Catalog own_house() {
  // Not find_plugins(), which would also find the user's own plugins.
  const auto host = privgrad::host::plugins_in({{.path = kPlugins}});
  for (const auto& refusal : host.catalog().refused()) {
    throw std::runtime_error(refusal.file + ": " + refusal.why);
  }
  return host.catalog();
}

/// Returns the same plugins, in a catalog shared by all tests.
inline const privgrad::Catalog& house() {
  static const privgrad::Catalog catalog = own_house();
  return catalog;
}
