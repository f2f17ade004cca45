// The option --cluster: the processes that share a run, and their joint exit if one fails.
#pragma once

#include <functional>
#include <memory>

#include "arguments.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Returns --cluster, for subcommands that can share their work among several processes.
Option cluster_option();

/// The processes that share a run, and the plugin whose code adds up their sums.
struct RequestedCluster {
  ComponentPtr<Cluster> cluster;  ///< Null: this process works alone.
  std::shared_ptr<const PluginIdentity> plugin = nullptr;
  bool is_local = false;  ///< Whether the user asked for a single process.
};

/// Refuses a process that a launcher started together with others if fewer processes share the
/// work: each process would then make and release the whole run by itself.
/// \throws ConfigError
void check_launched(const RequestedCluster& processes);

/// Makes the cluster that --cluster names, with its parameters. Any plugin found may provide it,
/// because lock files do not cover plugins that carry numbers between processes. \returns nothing
/// without the option, or if there is only one process: it runs as if the option had not been
/// given.
/// \throws ConfigError if the kind is missing; the message names the package to install.
RequestedCluster requested_cluster(const Arguments& arguments);

/// Makes the cluster of the manifest's key `cluster`, which --cluster overrides.
RequestedCluster requested_cluster(const core::Manifest& manifest);

/// Like with_exit_code(), for a cluster: if the action fails, all processes of the cluster end with
/// its exit code, after one line about the failure. A process other than process 0 adds its own
/// name to that line and waits a moment before it writes it, so that process 0 reports problems
/// that all processes have.
/// \param cluster  null: this process works alone.
int with_cluster(Cluster* cluster, const std::function<int()>& action);

}  // namespace privgrad::tool
