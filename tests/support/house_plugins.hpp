#pragma once

#include "privgrad/host/plugin_host.hpp"
#include "support.hpp"

/// Components as users get them: every plugin of the house, loaded by the host.
inline const privgrad::Catalog& house() {
  static const auto host = [] {
    auto loading = std::make_unique<privgrad::host::PluginHost>(
        privgrad::host::TrustPolicy{.directories = {kPlugins}, .pins = {}});
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kPlugins)) {
      const bool fixture = entry.path().parent_path().filename() == "fixtures";
      if (!fixture && entry.path().string().ends_with(".privgrad.so")) loading->load(entry.path());
    }
    return loading;
  }();
  return host->catalog();
}
