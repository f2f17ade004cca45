// cluster_rules FOLDER [idle]: every process runs the conformance suite on the plugin mpi of
// FOLDER, all at the same time, and prints its findings. With idle, a process starts MPI and then
// does nothing for a while.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "privgrad/cluster.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/testing/conformance.hpp"

int main(int argc, char** argv) {
  using namespace privgrad;
  if (argc != 2 && argc != 3) return 2;
  const host::PluginHost host = host::plugins_in({{.path = argv[1]}});
  const Component& component = host.catalog().find<Cluster>("mpi");
  if (argc == 3) {
    const auto idle = Catalog::create<Cluster>(
        component, Params::make("mpi", component.factory.info.params, Value(Value::Object{})));
    std::this_thread::sleep_for(std::chrono::seconds(20));
    std::_Exit(0);
  }
  const auto findings = testing::check_component(component, {});
  for (const testing::Finding& finding : findings) {
    std::printf("%s %s %s\n", std::string(testing::to_text(finding.verdict)).c_str(),
                finding.rule.c_str(), finding.detail.c_str());
  }
  return testing::conforms(findings) ? 0 : 1;
}
