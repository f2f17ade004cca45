// The host: checks plugin files, loads them, and fills a catalog with their components.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::host {

/// Plugin files, without links on their way, and what is wrong with each.
using RefusedFiles = std::map<std::filesystem::path, std::string>;

/// The plugin files that may be loaded.
struct TrustPolicy {
  /// Only files under these directories are considered. Absolute. A manifest cannot add to them.
  std::vector<std::filesystem::path> directories;
  /// Plugin file name -> SHA-256. When set, files that are absent from it or differ are refused.
  /// Two plugins may have the same file name in different directories, hence a multimap.
  std::optional<std::multimap<std::string, std::string>> pins;
  /// Files that are refused, and why.
  RefusedFiles refused = {};
};

/// Checks and loads plugins, and fills a catalog with their components.
///
/// Loaded code stays in the process until it ends, also when the host goes: components, exceptions
/// and threads of a plugin may outlive everything here.
/// Threads: not thread-safe; load at start-up, on one thread.
class PluginHost {
 public:
  explicit PluginHost(TrustPolicy policy) : policy_(std::move(policy)) {}

  /// Checks, in this order: the file name; nobody else may write it; inside a trusted directory; it
  /// has the note of a plugin; pinned hash; ABI; name not loaded already. Only then maps the file and
  /// asks it to register.
  /// \throws PluginError, "FILE: what is wrong and what to do". Nothing of a refused plugin has
  ///   run, except for failures of loading and registration themselves. The catalog is unchanged.
  const PluginIdentity& load(const std::filesystem::path& file);

  /// As load(), but a refusal is kept in catalog().refused() instead of thrown.
  /// \returns whether the plugin was loaded.
  bool try_load(const std::filesystem::path& file);

  /// Keeps a refusal of something that never got as far as load().
  void refuse(const std::filesystem::path& file, std::string why);

  const Catalog& catalog() const noexcept { return catalog_; }
  const std::vector<std::shared_ptr<const PluginIdentity>>& plugins() const noexcept {
    return plugins_;
  }

 private:
  const PluginIdentity& load_or_explain(const std::filesystem::path& file);

  TrustPolicy policy_;
  Catalog catalog_;
  std::vector<std::shared_ptr<const PluginIdentity>> plugins_;
};

}  // namespace privgrad::host
