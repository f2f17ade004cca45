// Exchanges texts among the processes of a cluster, and checks that all run the same program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// Sends a text of process 0 to all processes. Collective.
/// \param text  used only at process 0.
/// \throws as Cluster::broadcast()
std::string broadcast_text(Cluster& cluster, std::string_view text);

/// Collects a text of every process at process 0. Collective.
/// \returns [size()] at process 0, by rank; empty elsewhere.
/// \throws as Cluster::add_up()
std::vector<std::string> gathered_texts(Cluster& cluster, std::string_view mine);

/// The name of a process for messages: "process 3 on beta".
std::string name_of_process(std::size_t rank, std::string_view host);

/// The name of every process, at process 0. Collective.
std::vector<std::string> names_of_processes(Cluster& cluster);

/// A property that must be the same in all processes.
struct CommonPart {
  std::string what;  ///< Names a difference, such as "another version of PrivGrad".
  std::string hash;
};

/// The version and the build of this program.
CommonPart common_program();

/// The hash of the training and test examples. It is private, because it can confirm guesses about
/// them.
std::string hash_of_examples(const RunData& data);

/// Checks that all processes have the same properties, before they do anything together.
/// Collective.
/// \param parts  the same properties in the same order at all processes, the most informative
///   first.
/// \throws ConfigError at process 0, naming the first process that differs, its host, and the
///   property.
void compare_common_parts(Cluster& cluster, std::span<const CommonPart> parts);

}  // namespace privgrad::core
