#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::host {

/// Who may be loaded.
struct TrustPolicy {
  /// Only files under these directories are considered. Absolute. A manifest cannot add to them.
  std::vector<std::filesystem::path> directories;
  /// Plugin file name -> SHA-256. When set, files that are absent from it or differ are refused.
  std::optional<std::map<std::string, std::string>> pins;
};

/// Checks and loads plugins, and fills a catalog with their components.
/// Not thread-safe: load at start-up.
class PluginHost {
 public:
  explicit PluginHost(TrustPolicy policy) : policy_(std::move(policy)) {}

  /// Checks, in this order: inside a trusted directory; not writable by others; pinned hash; ABI
  /// note; name not loaded already. Only then maps the file and asks it to register.
  /// \throws PluginError saying which check failed and what to do about it. Nothing of a refused
  ///   plugin has run, except for failures of registration itself.
  const PluginIdentity& load(const std::filesystem::path& file);

  const Catalog& catalog() const noexcept { return catalog_; }
  const std::vector<std::shared_ptr<const PluginIdentity>>& plugins() const noexcept {
    return plugins_;
  }

 private:
  TrustPolicy policy_;
  Catalog catalog_;
  std::vector<std::shared_ptr<const PluginIdentity>> plugins_;
};

}  // namespace privgrad::host
