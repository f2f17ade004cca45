// Examines a plugin: loads it and checks the rules on each component, always in child processes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "privgrad/testing/conformance.hpp"
#include "privgrad/value.hpp"
#include "sandbox.hpp"

namespace privgrad::tool {

/// The description of a plugin, as its loaded file gives it.
struct LoadedPlugin {
  struct Offer {
    std::string kind, name, full_name;
  };
  std::string name, version, sha256, abi;
  std::filesystem::path file;  ///< Without links.
  std::vector<Offer> components;
};

/// The findings about one component.
struct Examined {
  LoadedPlugin::Offer component;
  std::string params;  ///< The given parameters, as YAML; "" if the suite chose them.
  std::vector<privgrad::testing::Finding> findings;
};

/// Loads a plugin, in a process of its own.
/// \throws PluginError if it is refused, or does not survive being loaded.
LoadedPlugin load_once(const std::filesystem::path& file, const Limits& limits);

/// Checks every rule on every component, each in a process of its own, which loads the plugin anew:
/// this process never runs a single instruction of the plugin.
/// \param params  by component name, as YAML; already known to be YAML objects.
/// \param rules  the only ones to check; empty: all.
/// \throws PluginError if the file changes meanwhile.
std::vector<Examined> examine(const LoadedPlugin& plugin,
                              const std::map<std::string, std::string>& params,
                              const std::vector<std::string>& rules, const Limits& limits);

/// A parameter object from YAML.
/// \throws UsageError
Value parse_params(const std::string& text);

}  // namespace privgrad::tool
