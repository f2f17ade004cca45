// The host: checks plugin files, offers their components, and loads those that are asked for.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/host/claimed_names.hpp"

namespace privgrad::host {

/// Plugin files, without links on their way, and what is wrong with each.
using RefusedFiles = std::map<std::filesystem::path, std::string>;

/// The plugin files that may be loaded.
struct TrustPolicy {
  /// Only files under these directories are considered. Absolute. A manifest cannot add to them.
  std::vector<std::filesystem::path> directories;
  /// Of the directories those of the program itself, whose plugins have the first claim to a name.
  std::vector<std::filesystem::path> program_directories = {};
  /// Plugin file name -> SHA-256. When set, files that are absent from it or differ are refused.
  /// Two plugins may have the same file name in different directories, hence a multimap.
  std::optional<std::multimap<std::string, std::string>> pins = std::nullopt;
  /// Files that are refused, and why.
  RefusedFiles refused = {};
  /// Told of each plugin once it is loaded; may be empty.
  std::function<void(const PluginIdentity&)> on_loaded = {};
};

/// Checks plugin files, offers their components in a catalog, and loads a plugin when one of its
/// components is asked for.
///
/// Loaded code stays in the process until it ends, also when the host goes: components, exceptions
/// and threads of a plugin may outlive everything here.
/// Threads: offer and load at start-up, on one thread; what the catalog loads later waits for others.
class PluginHost {
 public:
  explicit PluginHost(TrustPolicy policy);

  /// Checks, in this order: the file name; nobody else may write it; inside a trusted directory; it
  /// has the notes of a plugin; ABI; no plugin of this name before it. Runs nothing of the file. Its
  /// components are in the catalog then, and its hash is checked when it is loaded.
  /// \returns whether the plugin was offered; a refusal is kept in catalog().refused().
  bool offer(const std::filesystem::path& file);

  /// As offer(), and maps the file and asks it to register at once.
  /// \throws PluginError, "FILE: what is wrong and what to do". Nothing of a refused plugin has
  ///   run, except for failures of loading and registration themselves. The catalog is unchanged.
  const PluginIdentity& load(const std::filesystem::path& file);

  /// Loads everything that was offered; what cannot be loaded is in catalog().refused() then.
  void load_offered() const { catalog_.components(); }

  /// Keeps a refusal of something that never got as far as offer().
  void refuse(const std::filesystem::path& file, std::string why);

  /// Says which plugin a bare name means.
  void claim(ClaimedName claim) {
    catalog_.claim(std::move(claim.component), std::move(claim.plugin));
  }

  const Catalog& catalog() const noexcept { return catalog_; }
  /// The plugins that are loaded so far.
  const std::vector<std::shared_ptr<const PluginIdentity>>& plugins() const noexcept;

 private:
  class Loader;
  std::shared_ptr<Loader> loader_;  // the catalog's copies may outlive the host
  Catalog catalog_;
};

}  // namespace privgrad::host
