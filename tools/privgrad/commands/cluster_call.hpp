// The option --cluster: the processes that share a run, and how all of them fail together.
#pragma once

#include <functional>
#include <memory>

#include "arguments.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// --cluster, for subcommands whose work several processes can share.
Option cluster_option();

/// The processes that share a run, and the plugin whose code carries its sums.
struct RequestedCluster {
  ComponentPtr<Cluster> cluster;  ///< Null: this process alone.
  std::shared_ptr<const PluginIdentity> plugin = nullptr;
  bool is_local = false;  ///< This process was asked to be alone.
};

/// Refuses a process that a launcher started with others and that shares its work with fewer: each
/// of them would make the whole run, and release it, by itself.
/// \throws ConfigError
void check_launched(const RequestedCluster& processes);

/// The cluster that --cluster names, with its parameters, from all plugins that are found: lock
/// files do not cover the plugins that carry numbers from one process to another.
/// \returns nothing without the option, or where there is only one process, which then runs as
///   without it.
/// \throws ConfigError for a kind that is missing, with what to install.
RequestedCluster requested_cluster(const Arguments& arguments);

/// The same for a manifest's key `cluster`, which --cluster overrides.
RequestedCluster requested_cluster(const core::Manifest& manifest);

/// As with_exit_code(); if the action fails, all processes of the cluster end with its exit code,
/// after one line about it. A process that does not lead names itself in that line, and waits for a
/// moment before: a problem that all processes have is for process 0 to report.
/// \param cluster  null: this process alone.
int with_cluster(Cluster* cluster, const std::function<int()>& action);

}  // namespace privgrad::tool
