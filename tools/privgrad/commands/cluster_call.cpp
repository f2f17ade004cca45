#include "cluster_call.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "exit_code.hpp"
#include "last_words.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/params.hpp"

namespace privgrad::tool {
namespace {

constexpr auto kGrace = std::chrono::seconds(2);
/// The delay between the reports of successive processes: long enough for the first reporting
/// process to end all others.
constexpr auto kTurn = std::chrono::seconds(3);

struct Asked {
  std::string kind;
  Value params = Value(Value::Object{});
};

/// Parses "mpi" or "{kind: mpi, timeout_seconds: 60}".
/// \throws ConfigError for any other text.
Asked asked_cluster(const std::string& text) {
  std::vector<Problem> problems;
  const std::optional<Value> section = core::parse_yaml(text, problems);
  if (!problems.empty()) throw ConfigError("--cluster: " + problems.front().what);
  Asked asked;
  if (section) {
    if (const auto* name = std::get_if<std::string>(&section->data())) {
      asked.kind = *name;
    } else if (const auto* members = std::get_if<Value::Object>(&section->data())) {
      for (const Value::Member& member : *members) {
        const auto* kind = std::get_if<std::string>(&member.value.data());
        if (member.key == "kind" && kind != nullptr) {
          asked.kind = *kind;
        } else {
          asked.params.set(member.key, member.value);
        }
      }
    }
  }
  if (asked.kind.empty())
    throw ConfigError(
        "--cluster: expected a kind, such as mpi or '{kind: mpi, timeout_seconds: 60}'");
  return asked;
}

/// \throws ConfigError if no plugin offers the kind; for mpi, with the packages to install.
const Component& find_cluster(const Catalog& catalog, const std::string& kind) {
  try {
    return catalog.find<Cluster>(kind);
  } catch (const ConfigError& problem) {
    if (kind != "mpi") throw;
    throw ConfigError(std::string(problem.what()) +
                      "; it needs Open MPI (Debian: openmpi-bin, and to build it libopenmpi-dev)");
  }
}

RequestedCluster of_several(ComponentPtr<Cluster> cluster, const Component& component) {
  if (cluster->size() < 2)
    return {.cluster = nullptr, .is_local = component.factory.info.name == "local"};
  return {.cluster = std::move(cluster), .plugin = component.plugin};
}

/// Returns the number in an environment variable; 0 if the variable is not set.
std::size_t launcher_says(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// Returns the number of processes that the launcher has started together, including this one; 1
/// without a launcher. Knows Open MPI, MPICH and other launchers with PMI, MVAPICH2 and Slurm. Does
/// not read SLURM_NTASKS, which is also set in a batch script, a single process.
std::size_t launched_together() {
  std::size_t most = 1;
  for (const char* variable :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    most = std::max(most, launcher_says(variable));
  return most;
}

}  // namespace

Option cluster_option() {
  return {"cluster", "KIND",
          "Share the work among the processes that were started together: mpi, under mpirun or "
          "srun; '{kind: mpi, timeout_seconds: 60}' gives parameters. The result is the same, bit "
          "for bit, on any number of them."};
}

RequestedCluster requested_cluster(const Arguments& arguments) {
  if (!arguments.has("cluster")) return {};
  // No lock file is used, because a run that began on one process may continue on several, and vice
  // versa.
  const host::PluginHost host = load_plugins(arguments);
  const Asked asked = asked_cluster(arguments.text("cluster"));
  const Component& component = find_cluster(host.catalog(), asked.kind);
  std::vector<Problem> problems;
  const Params params = Params::check(component.factory.info.params, asked.params, problems);
  if (!problems.empty()) {
    throw ConfigError("--cluster: " + asked.kind + ": " + problems.front().where + " " +
                      problems.front().what);
  }
  return of_several(Catalog::create<Cluster>(component, params), component);
}

RequestedCluster requested_cluster(const core::Manifest& manifest) {
  if (!manifest.cluster.is_given()) return {};
  return of_several(manifest.cluster.make<Cluster>(), *manifest.cluster.component);
}

void check_launched(const RequestedCluster& processes) {
  const std::size_t launched = launched_together();
  const std::size_t share = processes.cluster ? processes.cluster->size() : 1;
  if (launched <= share || processes.is_local) return;
  throw ConfigError(
      "a launcher started " + std::to_string(launched) + " processes together, and " +
      (processes.cluster ? "only " + std::to_string(share) + " of them share the run"
                         : std::string("this one shares its run with none")) +
      ": each would make the whole run on the same rows; say --cluster mpi (and start MPI's own "
      "launcher, or srun --mpi=pmix), or --cluster local for a run by each process");
}

int with_cluster(Cluster* cluster, const std::function<int()>& action) {
  if (cluster == nullptr) return action();
  std::exception_ptr failure;
  try {
    return action();
  } catch (...) {
    failure = std::current_exception();
  }
  if (cluster->rank() != 0) {
    std::this_thread::sleep_for(kGrace + kTurn * (cluster->rank() - 1));
    speak_as("process " + std::to_string(cluster->rank()) + " on " + cluster->host() + ": ");
  }
  const int code = with_exit_code([&]() -> int { std::rethrow_exception(failure); });
  conclude();  // The communication library ends the process.
  cluster->end_all(code);
  return code;
}

}  // namespace privgrad::tool
