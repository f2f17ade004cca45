// The host: checks plugin files, offers their components, and loads components on request.
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

/// Refused plugin files by their resolved paths, each with the reason.
using RefusedFiles = std::map<std::filesystem::path, std::string>;

/// The plugin files that may be loaded.
struct TrustPolicy {
  /// Absolute paths. Only files under these directories are considered. A manifest cannot add
  /// directories.
  std::vector<std::filesystem::path> directories;
  /// The program's own directories, whose plugins have the first claim to a name.
  std::vector<std::filesystem::path> program_directories = {};
  /// Plugin file name -> SHA-256. If set, files that are not listed, or have a different hash, are
  /// refused. A multimap, because two plugins may have the same file name in different directories.
  std::optional<std::multimap<std::string, std::string>> pins = std::nullopt;
  RefusedFiles refused = {};
  /// Called after each plugin is loaded; may be empty.
  std::function<void(const PluginIdentity&)> on_loaded = {};
};

/// Checks plugin files, offers their components in a catalog, and loads a plugin when one of its
/// components is requested.
///
/// Loaded code stays in the process until its end, even after the host is destroyed: components,
/// exceptions and threads of a plugin may outlive the host. Threads: call offer() and load() at
/// start-up, on one thread; later loads by the catalog wait for each other.
class PluginHost {
 public:
  explicit PluginHost(TrustPolicy policy);

  /// Checks, in this order: the file name; that only the user or root can write it; that it is
  /// inside a trusted directory and not among the refused files; that it contains the notes of a
  /// plugin; its hash, if there are pins; the ABI; that no plugin of this name was offered before.
  /// Nothing in the file is executed. If the plugin is accepted, its components are in the catalog.
  /// \returns whether the plugin was offered; a refusal is recorded in catalog().refused().
  bool offer(const std::filesystem::path& file);

  /// Like offer(), but also maps the file and registers its components at once.
  /// \throws PluginError, "FILE: what is wrong and what to do". No code of a refused plugin has
  ///   run, unless loading or registration itself failed. The catalog is unchanged.
  const PluginIdentity& load(const std::filesystem::path& file);

  /// Loads everything that was offered; adds plugins that cannot be loaded to catalog().refused().
  void load_offered() const { catalog_.components(); }

  /// Records a refusal of a file for which offer() was not called.
  void refuse(const std::filesystem::path& file, std::string why);

  /// Sets the plugin that owns a bare name.
  void claim(ClaimedName claim) {
    catalog_.claim(std::move(claim.component), std::move(claim.plugin));
  }

  const Catalog& catalog() const noexcept { return catalog_; }
  /// The plugins loaded so far.
  const std::vector<std::shared_ptr<const PluginIdentity>>& plugins() const noexcept;

 private:
  class Loader;
  std::shared_ptr<Loader> loader_;  // shared with copies of catalog_, which may outlive the host
  Catalog catalog_;
};

}  // namespace privgrad::host
