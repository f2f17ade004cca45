// Compares the time of per-example gradients with the best that the machine could do. See
// README.md.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "clock.hpp"
#include "places.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/model.hpp"
#include "yardstick.hpp"

namespace {

using Json = nlohmann::ordered_json;
using Floats = std::vector<float>;
using privgrad::bench::best_seconds;
using privgrad::bench::use_own_kernels;
using privgrad::bench::yardstick;

class InlineExecutor final : public privgrad::Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    for (std::size_t i = 0; i < chunks; ++i) body(i);
  }
};

/// Draws weights of a realistic size: the time does not depend on their distribution.
class BenchStream final : public privgrad::RandomStream {
 public:
  std::uint64_t uniform_below(std::uint64_t bound) override { return generator_() % bound; }
  double uniform() override { return static_cast<double>(generator_() >> 11) * 0x1p-53; }
  void fill_normal(std::span<float> out) override {
    std::normal_distribution<float> normal;
    for (float& value : out) value = normal(generator_);
  }

 private:
  std::mt19937_64 generator_{1};
};

/// Returns the bytes per second at which one thread fills as much memory as a chunk of rows has.
double fill_rate() {
  Floats memory(std::size_t{4} << 20);
  float value = 0;
  const double seconds = best_seconds(20, [&] {
    std::fill(memory.begin(), memory.end(), value += 1);
    asm volatile("" : : "r"(memory.data()) : "memory");
  });
  return static_cast<double>(memory.size() * sizeof(float)) / seconds;
}

struct Floors {
  double sgemm_rate = 0;
  double fill_rate = 0;
};

/// Measures gradient_rows for one step, on one thread, in the chunks that the core uses.
Json measure_step(const privgrad::Catalog& catalog, std::size_t inputs, std::size_t hidden,
                  std::size_t classes, std::size_t batch_rows, const Floors& floors) {
  using privgrad::Value;
  InlineExecutor executor;
  BenchStream random;
  const auto mlp = catalog.create<privgrad::Model>(
      "mlp", Value::Object{{"hidden", Value::List{static_cast<std::int64_t>(hidden)}, {}}});
  const privgrad::Network network = mlp->network({{inputs}, classes});
  const auto program =
      catalog.create<privgrad::Backend>("cpu", Value::Object{})->compile(network, executor);
  const std::size_t d = program->parameter_count();
  Floats parameters(d);
  mlp->initialise(network, random, parameters);
  program->load_parameters(parameters);

  Floats features(batch_rows * inputs);
  random.fill_normal(features);
  Floats targets(batch_rows);
  for (float& target : targets) target = static_cast<float>(random.uniform_below(classes));

  const std::size_t chunk = std::clamp<std::size_t>((std::size_t{4} << 20) / d, 1, 64);
  Floats rows(chunk * d);
  const double seconds = best_seconds(5, [&] {
    for (std::size_t first = 0; first < batch_rows; first += chunk) {
      const std::size_t count = std::min(chunk, batch_rows - first);
      program->gradient_rows({std::span(features).subspan(first * inputs, count * inputs),
                              std::span(targets).subspan(first, count)},
                             std::span(rows).first(count * d));
    }
  });
  const double evaluate_seconds = best_seconds(5, [&] { program->evaluate({features, targets}); });

  // The three products of a step without privacy: forward, backward (not below the first layer) and
  // the gradient of the weights.
  const auto examples = static_cast<double>(batch_rows);
  const auto first_layer = static_cast<double>(inputs * hidden);
  const auto last_layer = static_cast<double>(hidden * classes);
  const double product_seconds = examples * (4 * first_layer + 6 * last_layer) / floors.sgemm_rate;
  const double forward_seconds = examples * 2 * (first_layer + last_layer) / floors.sgemm_rate;
  const double fill_seconds = examples * static_cast<double>(d * sizeof(float)) / floors.fill_rate;
  return {{"network",
           std::to_string(inputs) + "-" + std::to_string(hidden) + "-" + std::to_string(classes)},
          {"batch", batch_rows},
          {"chunk_rows", chunk},
          {"parameters", d},
          {"gradient_rows_ms", seconds * 1e3},
          {"ratio_to_sgemm_step", seconds / product_seconds},
          {"ratio_to_filling_the_rows", seconds / fill_seconds},
          {"evaluate_ms", evaluate_seconds * 1e3},
          {"evaluate_ratio_to_sgemm", evaluate_seconds / forward_seconds}};
}

}  // namespace

int main(int, char** argv) {
  try {
    use_own_kernels(argv);
    const std::filesystem::path plugins = privgrad::places::plugins();
    privgrad::host::PluginHost host({.directories = {plugins}, .pins = {}});
    const auto& cpu = host.load(plugins / "backends" / "cpu.privgrad.so");
    const std::string version = cpu.name + " " + cpu.version;
    host.load(plugins / "models" / "mlp.privgrad.so");

    const Json machine = yardstick();
    const Floors floors{1e9 * machine.at("openblas_gflops").get<double>(), fill_rate()};
    Json report{{"machine", machine},
                {"plugin", version},
                {"threads", 1},
                {"sgemm_gflops", floors.sgemm_rate * 1e-9},
                {"fill_gigabytes_per_second", floors.fill_rate * 1e-9},
                {"steps", Json::array()}};
    report["steps"].push_back(measure_step(host.catalog(), 784, 1000, 10, 256, floors));
    report["steps"].push_back(measure_step(host.catalog(), 60, 1000, 2, 1000, floors));
    std::cout << report.dump(2) << '\n';
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "training_step: error: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
