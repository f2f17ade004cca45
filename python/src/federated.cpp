#include "federated.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "long_call.hpp"
#include "privgrad/api/lock_text.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/remote_client.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::python {
namespace {

namespace nb = nanobind;
namespace fs = std::filesystem;
using namespace nb::literals;

int threads_of(int wanted) { return wanted > 0 ? wanted : core::available_threads(); }

fs::path state_of(const std::optional<fs::path>& given) {
  return given ? fs::absolute(*given) : api::default_state_directory();
}

std::optional<fs::path> path_of(const std::optional<std::string>& text) {
  return text ? std::optional<fs::path>(*text) : std::nullopt;
}

/// Whether both manifests apply the same transforms, in the same order, with the same parameters.
bool have_equal_transforms(const core::Manifest& a, const core::Manifest& b) {
  return std::ranges::equal(a.transforms, b.transforms,
                            [](const core::ComponentUse& one, const core::ComponentUse& other) {
                              return one.component == other.component &&
                                     core::to_yaml(one.params.value()) ==
                                         core::to_yaml(other.params.value());
                            });
}

/// A client together with all objects to which it refers.
class ClientCall {
 public:
  ClientCall(const Framework& framework, const ManifestText& manifest,
             const std::optional<ManifestText>& own, std::uint32_t number,
             const std::string& directory, const std::optional<std::string>& state, int threads,
             bool trusts_server, const std::optional<std::string>& server,
             const std::optional<std::string>& key)
      : manifest_(std::make_unique<core::Manifest>(own ? framework.load_without_data(manifest)
                                                       : framework.load_with_data(manifest))) {
    if (own) {
      own_ = std::make_unique<core::Manifest>(framework.load_with_data(*own));
      if (!own_->transforms.empty() && !have_equal_transforms(*manifest_, *own_))
        throw ConfigError(
            "data.transforms: are not those of the run's manifest, which are applied; leave them "
            "out");
      manifest_->account = own_->account;  // the run's manifest was loaded without files
    }
    client_.emplace(*manifest_, own ? &own_->data : nullptr,
                    core::RemoteClientOptions{.number = number,
                                              .directory = fs::absolute(directory),
                                              .state = state_of(path_of(state)),
                                              .lock = api::lock_text({manifest_.get()}),
                                              .threads = threads_of(threads),
                                              .trusts_server = trusts_server,
                                              .server = server.value_or(""),
                                              .key = key.value_or("")});
  }

  std::string introduction() const { return client_->introduction().dump(); }
  std::string answer(const std::string& order) { return client_->answer(order); }
  bool failed() const { return client_->failed(); }

 private:
  std::unique_ptr<core::Manifest> manifest_, own_;
  std::optional<core::RemoteClient> client_;
};

/// Passes orders to a Python function, on the run's own thread.
class ClientsInPython final : public core::RemoteClients {
 public:
  ClientsInPython(nb::callable ask, nb::callable refused)
      : ask_(std::move(ask)), refused_(std::move(refused)) {}

  std::vector<std::optional<std::string>> ask(
      std::span<const core::OrderToClient> orders) override {
    const nb::gil_scoped_acquire hold;
    nb::list given;
    for (const core::OrderToClient& order : orders)
      given.append(nb::make_tuple(order.client, nb::bytes(order.order.data(), order.order.size())));
    const nb::object answers = ask_(given);
    std::vector<std::optional<std::string>> taken;
    for (const nb::handle answer : answers) {
      if (answer.is_none()) {
        taken.emplace_back();
        continue;
      }
      const auto bytes = nb::cast<nb::bytes>(answer);
      taken.emplace_back(std::string(bytes.c_str(), bytes.size()));
    }
    return taken;
  }

  void refused(std::uint32_t client, const std::string& why) override {
    const nb::gil_scoped_acquire hold;
    refused_(client, why);
  }

 private:
  nb::callable ask_, refused_;
};

}  // namespace

std::string Framework::common_ground(const ManifestText& manifest) const {
  const core::Manifest loaded = load_without_data(manifest);
  return core::common_ground_of(loaded).dump();
}

std::string Framework::serve(const ServeCall& call, core::RemoteClients& clients,
                             const Watch& watch) const {
  const core::Manifest manifest = load_without_data(call.manifest);
  const core::Plan plan = core::make_plan(manifest, core::facts_from_json(call.facts));
  core::RunOptions options;
  options.threads = threads_of(call.threads);
  options.state = state_of(call.state);
  options.lock = api::lock_text({&manifest});
  options.clients = &clients;
  if (call.directory) {
    options.directory = *call.directory;
    return made(plan, std::move(options), watch);
  }
  const api::DefaultRunDirectory directory(manifest.name);
  options.directory = directory.path();
  return made(plan, std::move(options), watch);
}

void add_federated(nb::module_& module, nb::class_<Framework>& framework) {
  framework.def("common_ground", &Framework::common_ground, "manifest"_a)
      .def(
          "serve",
          [](const Framework& self, const ManifestText& manifest, const std::string& facts,
             const std::optional<std::string>& directory, const std::optional<std::string>& state,
             int threads, nb::callable ask, nb::callable refused, nb::object callback) {
            const ServeCall call{manifest, facts, path_of(directory), path_of(state), threads};
            ClientsInPython clients(std::move(ask), std::move(refused));
            return long_call([&](const Watch& watch) { return self.serve(call, clients, watch); },
                             std::move(callback));
          },
          "manifest"_a, "facts"_a, "directory"_a.none(), "state"_a.none(), "threads"_a, "ask"_a,
          "refused"_a, "callback"_a.none());
  nb::class_<ClientCall>(module, "FederatedClient")
      .def(
          "__init__",
          [](ClientCall* self, const Framework& loaded, const ManifestText& manifest,
             const std::optional<ManifestText>& own, std::uint32_t number,
             const std::string& directory, const std::optional<std::string>& state, int threads,
             bool trusts_server, const std::optional<std::string>& server,
             const std::optional<std::string>& key) {
            const nb::gil_scoped_release release;
            new (self) ClientCall(loaded, manifest, own, number, directory, state, threads,
                                  trusts_server, server, key);
          },
          "framework"_a, "manifest"_a, "own"_a.none(), "number"_a, "directory"_a, "state"_a.none(),
          "threads"_a, "trusts_server"_a, "server"_a.none(), "key"_a.none())
      .def("introduction", &ClientCall::introduction)
      .def("failed", &ClientCall::failed)
      .def("answer", [](ClientCall& self, const nb::bytes& order) {
        const std::string text(order.c_str(), order.size());
        std::string answer;
        {
          const nb::gil_scoped_release release;
          answer = self.answer(text);
        }
        return nb::bytes(answer.data(), answer.size());
      });
}

}  // namespace privgrad::python
