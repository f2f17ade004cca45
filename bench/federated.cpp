// Compares the cost of a client's local step with a step of a central run. See README.md.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clock.hpp"
#include "places.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/trainer.hpp"

namespace {

using namespace privgrad;
using namespace privgrad::bench;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSteps = 2000;

/// Returns a manifest with the network of Ling et al. and batches of 75, for ten clients of 500
/// images each, or one owner of 500.
/// \param folder  the folder of the images.
std::string manifest_text(bool federated, const std::filesystem::path& folder) {
  const std::string rows = federated ? "5000" : "500";
  return "privgrad: 1\nseed: 1\ndata: {kind: npy, classes: 10, train: {features: " +
         (folder / ("x" + rows + ".npy")).string() +
         ", targets: " + (folder / ("y" + rows + ".npy")).string() +
         "}}\nmodel: {kind: cnn, preset: fedavg_cnn}\n"
         "sampler: {kind: poisson, batch_size: 75}\n"
         "optimizer: sgd\n"
         "schedules: {noise_multiplier: 1.1, clip_norm: 0.1, learning_rate: 0.5}\n"
         "privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}\nsteps: " +
         std::to_string(kSteps) +
         (federated ? "\nfederated: {clients: 10, rounds: 2000, local_iterations: 1}\n" : "\n");
}

/// Writes an array file of bytes (NEP 1).
void write_npy(const std::filesystem::path& file, const std::string& shape,
               const std::string& bytes) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::ofstream out(file, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
      << bytes;
}

/// Writes images with different pixels; their content does not matter here.
void write_images(const std::filesystem::path& folder, std::size_t rows) {
  std::string pixels(rows * 28 * 28, '\0'), labels(rows, '\0');
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>((i * i / 7) % 2);
  for (std::size_t i = 0; i < rows; ++i) labels[i] = static_cast<char>(i % 10);
  const std::string count = std::to_string(rows);
  write_npy(folder / ("x" + count + ".npy"), count + ", 28, 28", pixels);
  write_npy(folder / ("y" + count + ".npy"), count + ",", labels);
}

struct Setting {
  Setting(const Catalog& catalog, bool federated, const std::filesystem::path& folder)
      : manifest(core::parse_manifest(manifest_text(federated, folder), "bench.yaml", {}, catalog)),
        plan(core::make_plan(manifest)),
        data(plan.setting->data->read(Split::train)) {}

  core::Manifest manifest;
  core::Plan plan;
  Dataset data;
};

/// Alternates `rounds` rounds of `tau` local steps with as many central steps.
Json measure(const Setting& central, const Setting& federated, std::uint64_t tau,
             std::uint64_t rounds, const std::filesystem::path& folder) {
  const auto executor = core::make_executor(1);
  const auto key = core::RandomKey::from_seed(1);
  core::Trainer trainer(central.plan, central.data, key, *executor);
  const core::RunKeys keys = core::RunKeys::constant(key);
  core::Client client(3, *federated.plan.federated, *federated.manifest.federated, federated.data,
                      keys, *executor);
  const std::string name = std::to_string(tau);
  trainer.open_ledger(folder / ("central-" + name), {});
  client.open_ledger(folder / ("client-" + name), {});
  core::Workbench bench = core::make_workbench(central.plan, *executor);
  core::Workbench local = core::make_workbench(federated.plan, *executor);
  const std::vector<float> model = core::initial_parameters(central.plan, key);
  bench.load(model);
  std::vector<double> plain, of_client;
  std::uint64_t step = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    plain.push_back(seconds_of([&] {
      for (std::uint64_t i = 0; i < tau; ++i, ++step) {
        trainer.pay_for(step);
        trainer.take_step(step, bench);
      }
    }));
    of_client.push_back(seconds_of([&] { client.train(model, tau, local); }));
  }
  const double one = median(plain) / static_cast<double>(tau);
  const double other = median(of_client) / static_cast<double>(tau);
  return {{"local_iterations", tau},
          {"rounds", rounds},
          {"central_step_ms", one * 1e3},
          {"local_step_ms", other * 1e3},
          {"local_over_central", other / one}};
}

int run() {
  const auto host = host::plugins_in({{.path = privgrad::places::plugins()}});
  const auto folder = std::filesystem::temp_directory_path() /
                      ("privgrad-bench-federated-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  write_images(folder, 500);
  write_images(folder, 5000);
  const Setting central(host.catalog(), false, folder), federated(host.catalog(), true, folder);
  Json result{{"bench", "federated"},
              {"build", PRIVGRAD_BENCH_BUILD},
              {"parameters", central.plan.parameters},
              {"batch", 75}};
  for (const std::uint64_t tau : {1u, 5u})
    result["rounds"].push_back(measure(central, federated, tau, 100 / tau, folder));
  std::filesystem::remove_all(folder);
  std::cout << result.dump(2) << '\n';
  return EXIT_SUCCESS;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "federated: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
