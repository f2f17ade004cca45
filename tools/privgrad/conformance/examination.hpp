// Examines a plugin: loads it and checks every rule on each component, always in child processes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "privgrad/testing/conformance.hpp"
#include "privgrad/value.hpp"
#include "sandbox.hpp"

namespace privgrad::tool {

/// The description of a plugin, as the loaded file gives it.
struct LoadedPlugin {
  struct Offer {
    std::string kind, name, full_name;
  };
  std::string name, version, sha256, abi;
  std::filesystem::path file;  ///< The path with all links resolved.
  std::vector<Offer> components;
};

/// The findings about one component.
struct Examined {
  LoadedPlugin::Offer component;
  std::string params;  ///< The given parameters as YAML; "" if the suite chose them.
  std::vector<privgrad::testing::Finding> findings;
};

/// Loads a plugin in its own process.
/// \throws PluginError if the plugin is refused, or if the process does not survive loading it.
LoadedPlugin load_once(const std::filesystem::path& file, const Limits& limits);

/// Checks every rule on every component. Each check runs in its own process, which loads the plugin
/// anew, so that this process never executes any instruction of the plugin.
/// \param params  by component name: YAML, already checked to be an object.
/// \param rules  the only rules to check; empty: all rules.
/// \throws PluginError if the file changes during the examination.
std::vector<Examined> examine(const LoadedPlugin& plugin,
                              const std::map<std::string, std::string>& params,
                              const std::vector<std::string>& rules, const Limits& limits);

/// \throws UsageError if the text is not a YAML object.
Value parse_params(const std::string& text);

}  // namespace privgrad::tool
