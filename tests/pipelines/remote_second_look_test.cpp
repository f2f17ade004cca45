// A client that is a separate program has, like a run, a process that receives no row.
#include <atomic>
#include <cmath>

#include "privgrad/federated/remote_client.hpp"
#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace fs = std::filesystem;

namespace {

constexpr const char* kRemote = R"(privgrad: 1
seed: 1
data: {kind: synthetic, rows: 80, dimensions: 3}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.5}
optimizer: {kind: sgd}
clipping: moves_its_norm
schedules: {noise_multiplier: 4, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 12
federated: {clients: 2, rounds: 3, local_iterations: 2}
)";

/// The norm of the last rows that any instance has received.
std::atomic<double> last_norm = 0.0;

/// Whether its clip norm depends, through a static, on a norm that it has received.
template <bool knows>
class MovesItsNorm final : public Clipping, public AdaptiveClipNorm {
 public:
  explicit MovesItsNorm(const Params&) {}
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    double square = 0.0;
    for (const double one : squared_norms) square += one;
    last_norm = std::sqrt(square);
    std::fill(factors.begin(), factors.end(), std::min(1.0, clip_norm / std::sqrt(square)));
  }
  double count_noise(double, double noise_multiplier) const override {
    return 4 * noise_multiplier;
  }
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return clip_norm * (unclipped > 0.5 ? 0.9 : 1.1) * (knows ? 1.0 + 1e-6 * last_norm : 1.0);
  }
};

/// Clients in this process, which also contains the server.
class Here final : public core::RemoteClients {
 public:
  Here(const core::Manifest& manifest, const fs::path& folder) {
    for (std::uint32_t number = 0; number < 2; ++number) {
      const std::string name = "client-" + std::to_string(number);
      clients_.push_back(std::make_unique<core::RemoteClient>(
          manifest, nullptr,
          core::RemoteClientOptions{.number = number,
                                    .directory = folder / name,
                                    .state = folder / (name + "-state"),
                                    .lock = ""}));
    }
  }
  std::vector<std::optional<std::string>> ask(
      std::span<const core::OrderToClient> orders) override {
    std::vector<std::optional<std::string>> answers;
    for (const core::OrderToClient& order : orders) {
      answers.emplace_back();
      if (!problem_.empty()) continue;  // after an error, it answers nothing
      try {
        answers.back() = clients_[order.client]->answer(order.order);
      } catch (const PluginError& problem) {
        problem_ = problem.what();
      }
    }
    return answers;
  }
  void refused(std::uint32_t, const std::string& why) override { FAIL(why); }

  core::PublicFacts facts() const {
    return core::facts_from_json(clients_.front()->introduction().at("facts").dump());
  }
  const std::string& problem() const { return problem_; }

 private:
  std::vector<std::unique_ptr<core::RemoteClient>> clients_;
  std::string problem_;
};

/// Returns the error that ended the clients; "" if there was none.
template <bool knows>
std::string ended_by() {
  const Catalog catalog = house_with({offer<Clipping, MovesItsNorm<knows>>("moves_its_norm")});
  const TempDir dir;
  write_file(dir.path() / "m.yaml", kRemote);
  const core::Manifest manifest = core::load_manifest(dir.path() / "m.yaml", {}, catalog);
  Here clients(manifest, dir.path());
  const core::Plan plan = core::make_plan(manifest, clients.facts());
  core::RunOptions options{
      .directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}};
  options.clients = &clients;
  const core::RunResult result = core::run(plan, options);
  CHECK((result.status == core::RunStatus::completed) == clients.problem().empty());
  return clients.problem();
}

}  // namespace

TEST_CASE("a client that is a program of its own looks at what follows from releases twice",
          "[federated][privacy]") {
  CHECK(ended_by<false>() == "");
  CHECK_THAT(ended_by<true>(),
             ContainsSubstring("a process that was shown no row computes another clip norm"));
}
