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

/// The processes that share a run, and whose code carries its sums.
struct RequestedCluster {
  ComponentPtr<Cluster> cluster;  ///< Null: there is this process alone.
  std::shared_ptr<const PluginIdentity> plugin = nullptr;
};

/// The cluster that --cluster names, with its parameters, from all plugins that are found: no lock file
/// holds what carries numbers from one process to another.
/// \returns nothing without the option, and where there is one process: then everything is as without.
/// \throws ConfigError for a kind that is not there, with what to install.
RequestedCluster requested_cluster(const Arguments& arguments);

/// The same of a manifest's key `cluster`, where --cluster does not say otherwise.
RequestedCluster requested_cluster(const core::Manifest& manifest);

/// As with_exit_code(); where the action fails, all processes of the cluster end with its exit code,
/// after one line about it. A process that does not lead says which it is, and waits for a moment
/// before: what is wrong with all of them is for process 0 to say.
/// \param cluster  null: there is this process alone.
int with_cluster(Cluster* cluster, const std::function<int()>& action);

}  // namespace privgrad::tool
