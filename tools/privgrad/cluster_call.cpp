#include "cluster_call.hpp"

#include <chrono>
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
/// The wait from one process to the next: the first to report ends the others, which takes time.
constexpr auto kTurn = std::chrono::seconds(3);

struct Asked {
  std::string kind;
  Value params = Value(Value::Object{});
};

/// "mpi", or "{kind: mpi, timeout_seconds: 60}".
/// \throws ConfigError
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

/// A plugin that is not there was not built, or misses its library.
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
  if (cluster->size() < 2) return {};
  return {std::move(cluster), component.plugin};
}

}  // namespace

Option cluster_option() {
  return {.name = "cluster",
          .value = "KIND",
          .doc =
              "Share the work among the processes that were started together: mpi, under mpirun "
              "or srun; '{kind: mpi, timeout_seconds: 60}' gives parameters. The result is the "
              "same, bit for bit, on any number of them."};
}

RequestedCluster requested_cluster(const Arguments& arguments) {
  if (!arguments.has("cluster")) return {};
  // No lock file: a run that began on one process may go on with several, and vice versa.
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
  conclude();  // what carries the numbers ends the process
  cluster->end_all(code);
  return code;
}

}  // namespace privgrad::tool
