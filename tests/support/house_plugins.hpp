// The catalog of all built-in plugins, for tests that use real components.
#pragma once

#include <stdexcept>

#include "privgrad/host/search_path.hpp"
#include "support.hpp"

/// Components as users get them, every built-in plugin, in a catalog of its own.
inline privgrad::Catalog own_house() {
  // Not find_plugins(): that would find the user's own plugins, too.
  const auto host = privgrad::host::plugins_in({{.path = kPlugins}});
  for (const auto& refusal : host.catalog().refused()) {
    throw std::runtime_error(refusal.file + ": " + refusal.why);
  }
  return host.catalog();
}

/// The same, shared by all tests.
inline const privgrad::Catalog& house() {
  static const privgrad::Catalog catalog = own_house();
  return catalog;
}
