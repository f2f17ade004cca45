// The catalog of all built-in plugins, for tests that use real components.
#pragma once

#include <stdexcept>

#include "privgrad/host/search_path.hpp"
#include "support.hpp"

/// Components as users get them: every built-in plugin, loaded by the host.
inline const privgrad::Catalog& house() {
  // Not find_plugins(): that would load the user's own plugins, too.
  static const auto host = privgrad::host::plugins_in({{.path = kPlugins}});
  for (const auto& refusal : host.catalog().refused()) {
    throw std::runtime_error(refusal.file + ": " + refusal.why);
  }
  return host.catalog();
}
