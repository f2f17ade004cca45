#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// A text of process 0, which all processes get. Collective.
/// \param text  looked at at process 0 only.
/// \throws as Cluster::broadcast()
std::string broadcast_text(Cluster& cluster, std::string_view text);

/// A text of every process, at process 0. Collective.
/// \returns [size()] at process 0, by rank; elsewhere nothing.
/// \throws as Cluster::add_up()
std::vector<std::string> gathered_texts(Cluster& cluster, std::string_view mine);

/// "process 3 on beta", for messages.
std::string name_of_process(std::size_t rank, std::string_view host);

/// The name of every process, at process 0. Collective.
std::vector<std::string> names_of_processes(Cluster& cluster);

/// A thing that all processes must have in common.
struct CommonPart {
  std::string what;  ///< "another PrivGrad", as what a process has where it differs.
  std::string hash;
};

/// The program: its version, and what it was built for.
CommonPart common_program();

/// Of the training and test examples: private, as whoever has it can confirm a guess about them.
std::string hash_of_examples(const RunData& data);

/// Compares what the processes have in common, before they make anything together. Collective.
/// \param parts  the same things in the same order at all of them, the most telling first.
/// \throws ConfigError at process 0, naming the first process that differs, its host, and what it has.
void compare_common_parts(Cluster& cluster, std::span<const CommonPart> parts);

}  // namespace privgrad::core
