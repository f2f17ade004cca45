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

/// \throws ConfigError in a process that a launcher started together with others, unless all of
///   them share the work or the user asked for single processes: otherwise each would make and
///   release the whole run by itself.
void check_launched(const RequestedCluster& processes);

/// Makes the cluster that --cluster names, with its parameters. Any plugin found may provide it,
/// because lock files do not cover plugins that carry numbers between processes.
/// \returns a null cluster without the option, or if there is only one process, which then runs as
///   without the option.
/// \throws ConfigError if the option is malformed, or if no plugin offers the kind; for mpi, with
///   the packages to install.
RequestedCluster requested_cluster(const Arguments& arguments);

/// Makes the cluster of the manifest's key `cluster`, which --cluster overrides.
RequestedCluster requested_cluster(const core::Manifest& manifest);

/// Like with_exit_code(), for a cluster: if the action fails in one process, that process writes
/// one line about the failure, and all processes end with its exit code. Processes other than 0 add
/// their name to the line and wait before they write it, so that a failure of all processes is
/// reported once, by process 0.
/// \param cluster  null: this process works alone.
int with_cluster(Cluster* cluster, const std::function<int()>& action);

}  // namespace privgrad::tool
